"""Nodes that a replica is excluded from for a while, because kube-scheduler rules them out.

Often that is a matter of moments: kube-scheduler has not seen yet that room appeared. It may also
know reasons that a plan cannot know: ports, volumes, pod affinity. So the first exclusion lasts a
second and each further one on the same node twice as long. It ends, and its length starts anew,
when the node changes or the job is gone.
"""

from collections.abc import Mapping

from optimus.snapshot import ReplicaId

FIRST_SECONDS = 1.0


class Exclusions:
    """Excluded nodes by replica. Time is an argument."""

    def __init__(self) -> None:
        self._until: dict[tuple[ReplicaId, str], float] = {}
        self._times: dict[tuple[ReplicaId, str], int] = {}
        self.next_end = float("inf")
        """No exclusion ends before this time."""

    def add(self, replica: ReplicaId, node: str, now: float, longest_seconds: float) -> None:
        """Exclude a node for a replica, for twice as long as the last time."""
        key = replica, node
        times = self._times[key] = min(self._times.get(key, 0) + 1, 20)
        self._until[key] = now + min(FIRST_SECONDS * 2 ** (times - 1), longest_seconds)
        self.next_end = min(self.next_end, self._until[key])

    def of_job(self, job_uid: str) -> Mapping[ReplicaId, frozenset[str]]:
        """The excluded nodes of a job's replicas."""
        nodes: dict[ReplicaId, frozenset[str]] = {}
        for replica, node in self._until:
            if replica.job_uid == job_uid:
                nodes[replica] = nodes.get(replica, frozenset()) | {node}
        return nodes

    def end(self, *, node: str | None = None, job_uid: str | None = None) -> None:
        """End the exclusions of a node that has changed, or of a job that is gone."""
        for key in list(self._times):
            if key[1] == node or key[0].job_uid == job_uid:
                del self._times[key]
                self._until.pop(key, None)

    def expire(self, now: float) -> bool:
        """End the exclusions that are over; returns whether there were any."""
        left = {key: until for key, until in self._until.items() if until > now}
        fewer = len(left) < len(self._until)
        self._until, self.next_end = left, min(left.values(), default=float("inf"))
        return fewer
