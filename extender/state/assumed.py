"""Replicas that kube-scheduler was told to bind: until it asks again or binds them, they count as
placed."""

from dataclasses import replace

from optimus.placement.gang import Gang
from optimus.snapshot import ReplicaId


class AssumedPods:
    """The node that each was sent to. Not thread-safe."""

    def __init__(self) -> None:
        self._nodes: dict[ReplicaId, str] = {}

    def __contains__(self, replica: ReplicaId) -> bool:
        return replica in self._nodes

    def add(self, replica: ReplicaId, node: str) -> None:
        """A replica was sent to a node."""
        self._nodes[replica] = node

    def remove(self, replica: ReplicaId) -> bool:
        """A replica has landed, or will not; returns whether it was on its way."""
        return self._nodes.pop(replica, None) is not None

    def forget(self, job_uid: str) -> None:
        """A job is gone."""
        self._nodes = {
            replica: node for replica, node in self._nodes.items() if replica.job_uid != job_uid
        }

    def counted(self, gang: Gang) -> Gang:
        """The gang with what is about to be bound counted as placed."""
        if not self._nodes:
            return gang
        members = tuple(
            replace(
                member, node=self._nodes.get(ReplicaId(gang.job_uid, member.role, member.index))
            )
            if member.node is None
            else member
            for member in gang.members
        )
        return replace(gang, members=members)
