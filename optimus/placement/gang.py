"""What placement is asked and what it answers.

A gang is placed whole or not at all; replicas that are bound already keep their nodes and count as
placed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from optimus.jobs import Counts, Job, JobKey, ReplicaSpec, Role
from optimus.nodes import Node
from optimus.placement.assignment import Assignment
from optimus.placement.capacity import Capacity
from optimus.placement.free_matrix import FreeMatrix
from optimus.resources import Resources, total
from optimus.snapshot import ReplicaId


@dataclass(frozen=True, slots=True)
class Member:
    """One replica of a gang; ``node`` is where it is bound, ``barred`` names nodes it may not go
    to."""

    role: Role
    index: int
    spec: ReplicaSpec
    node: str | None = None
    barred: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Gang:
    """All replicas of one job that run together."""

    key: JobKey
    job_uid: str
    members: tuple[Member, ...]

    @classmethod
    def of(cls, job: Job, counts: Counts | None = None) -> "Gang":
        """The gang of a job at ``counts`` (the job's own when not given), none of it bound."""
        ps, workers = counts or job.counts
        members = [Member(Role.PS, index, job.ps) for index in range(ps)]
        members += [Member(Role.WORKER, index, job.worker) for index in range(workers)]
        members += [
            Member(fixed.role, index, fixed.spec)
            for fixed in job.fixed
            for index in range(fixed.count)
        ]
        return cls(job.key, job.uid, tuple(members))

    @property
    def unbound(self) -> tuple[Member, ...]:
        """The replicas that still need a node."""
        return tuple(member for member in self.members if member.node is None)

    def replica(self, member: Member) -> ReplicaId:
        """What identifies a member."""
        return ReplicaId(self.job_uid, member.role, member.index)

    def demand(self) -> Resources:
        """What the replicas that still need a node ask for together."""
        return total(member.spec.resources for member in self.unbound)


@dataclass(frozen=True, slots=True)
class Placement:
    """A node for every unbound replica of one gang."""

    job_uid: str
    nodes: Mapping[ReplicaId, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class DoesNotFit:
    """Why a gang cannot be placed now; ``reason`` is a sentence for users."""

    reason: str


class PlacementRule(Protocol):
    """A rule that places one gang on the room that is free."""

    def place(
        self, gang: Gang, nodes: Sequence[Node], free: Mapping[str, Resources]
    ) -> Placement | DoesNotFit:
        """Choose nodes for the gang's unbound replicas; ``free`` is the free room by node name."""
        ...

    def place_in(self, gang: Gang, room: FreeMatrix) -> Placement | DoesNotFit:
        """The same on room that is at hand as a matrix; the room is not changed."""
        ...

    def seat(
        self, job: Job, counts: Counts, stock: Capacity, *, evenly: bool = False
    ) -> Assignment | DoesNotFit:
        """The same for a whole job of which nothing is bound, on a stock, from which the room is
        taken.

        With ``evenly`` a rule that knows an even spread refuses every other.
        """
        ...
