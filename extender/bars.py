"""Nodes that replicas are kept off for a while, because kube-scheduler did not let them go there.

Ports, volumes, other pods' affinities: kube-scheduler knows of reasons that a plan cannot know. Often it has only not
seen yet that a pod has left the node, so a first bar is over after a second; each further one on the same node lasts
twice as long. A bar ends when its time is over or when the node changes.
"""

from collections.abc import Mapping
from typing import Final

from scheduling.snapshot import ReplicaId

FIRST_SECONDS: Final = 1.0


class Bars:
    """Barred nodes by replica. Time is an argument."""

    def __init__(self) -> None:
        self._until: dict[tuple[ReplicaId, str], float] = {}
        self._times: dict[tuple[ReplicaId, str], int] = {}

    def add(self, replica: ReplicaId, node: str, now: float, longest_seconds: float) -> None:
        """Keep a replica off a node from now on, at most for so long."""
        before = self._times.get((replica, node), 0)
        self._times[replica, node] = min(before + 1, 32)
        self._until[replica, node] = now + min(FIRST_SECONDS * 2**before, longest_seconds)

    def of_job(self, job_uid: str) -> Mapping[ReplicaId, frozenset[str]]:
        """The nodes that a job's replicas are kept off."""
        nodes: dict[ReplicaId, frozenset[str]] = {}
        for replica, node in self._until:
            if replica.job_uid == job_uid:
                nodes[replica] = nodes.get(replica, frozenset()) | {node}
        return nodes

    def node_changed(self, node: str) -> None:
        """Whatever kept replicas off a node may be gone."""
        self._until = {barred: until for barred, until in self._until.items() if barred[1] != node}
        self._times = {barred: times for barred, times in self._times.items() if barred[1] != node}

    def forget(self, job_uid: str) -> None:
        """A job is gone."""
        self._until = {barred: until for barred, until in self._until.items() if barred[0].job_uid != job_uid}
        self._times = {barred: times for barred, times in self._times.items() if barred[0].job_uid != job_uid}

    def expire(self, now: float) -> bool:
        """Lift what has run out; returns whether anything has."""
        left = {barred: until for barred, until in self._until.items() if until > now}
        fewer = len(left) < len(self._until)
        self._until = left
        return fewer
