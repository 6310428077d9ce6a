"""Nodes that replicas are kept off for a while, because kube-scheduler did not let them go there.

Often that is a matter of moments: kube-scheduler has not seen yet that room appeared. It may also
know of reasons that a plan cannot know: ports, volumes, other pods' affinities. So the first bar
lasts a second and each one after it on the same node twice as long. A bar ends, and its length is
forgotten, when the node changes or the job is gone."""

from collections.abc import Mapping

from optimus.snapshot import ReplicaId

FIRST_SECONDS = 1.0


class Exclusions:
    """Barred nodes by replica. Time is an argument."""

    def __init__(self) -> None:
        self._until: dict[tuple[ReplicaId, str], float] = {}
        self._times: dict[tuple[ReplicaId, str], int] = {}

    def add(self, replica: ReplicaId, node: str, now: float, longest_seconds: float) -> None:
        """Keep a replica off a node, for twice as long as the last time."""
        times = self._times[replica, node] = min(self._times.get((replica, node), 0) + 1, 20)
        self._until[replica, node] = now + min(FIRST_SECONDS * 2 ** (times - 1), longest_seconds)

    def of_job(self, job_uid: str) -> Mapping[ReplicaId, frozenset[str]]:
        """The nodes that a job's replicas are kept off."""
        nodes: dict[ReplicaId, frozenset[str]] = {}
        for replica, node in self._until:
            if replica.job_uid == job_uid:
                nodes[replica] = nodes.get(replica, frozenset()) | {node}
        return nodes

    def node_changed(self, node: str) -> None:
        """Whatever kept replicas off a node may be gone."""
        for barred in [barred for barred in self._times if barred[1] == node]:
            self._drop(barred)

    def forget(self, job_uid: str) -> None:
        """A job is gone."""
        for barred in [barred for barred in self._times if barred[0].job_uid == job_uid]:
            self._drop(barred)

    def _drop(self, barred: tuple[ReplicaId, str]) -> None:
        del self._times[barred]
        self._until.pop(barred, None)

    def expire(self, now: float) -> bool:
        """Lift what has run out; returns whether anything has."""
        left = {barred: until for barred, until in self._until.items() if until > now}
        fewer = len(left) < len(self._until)
        self._until = left
        return fewer
