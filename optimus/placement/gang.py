"""The questions that placement is asked, and its answers.

A gang is placed whole or not at all; replicas that are bound already keep their nodes and count as
placed. Refusals do not vary from try to try: kube-scheduler writes a pod's refusal into its status
when the text has changed, and that write is an event that makes it try the pod again, so a changing
number in the text would make the pod spin.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import neg
from types import MappingProxyType
from typing import NamedTuple, Protocol

from optimus.jobs import TRAINERS, Binding, Counts, Job, JobKey, ReplicaSpec, Role
from optimus.placement.capacity import Capacity, Vector
from optimus.placement.rules import Labels, PodRules, Surroundings
from optimus.resources import Resources, total
from optimus.snapshot import ReplicaId


@dataclass(frozen=True, slots=True)
class Member:
    """One replica of a gang."""

    role: Role
    index: int
    spec: ReplicaSpec
    node: str | None = None
    """Where it is bound, or counts as placed."""

    excluded: frozenset[str] = frozenset()
    """Nodes that it may not go to."""

    labels: Labels = ()
    """By which the rules of pods select it."""

    rules: PodRules | None = None
    """Its own rules about other pods, ports and volumes, if it has any."""


@dataclass(frozen=True, slots=True)
class Gang:
    """All replicas of one job that run together."""

    key: JobKey
    job_uid: str
    members: tuple[Member, ...]
    surroundings: Surroundings | None = field(default=None, compare=False)
    """What the pods that are there mean for its rules, or their rules for it; ``None``: nothing."""

    avoided: frozenset[str] = frozenset()
    """Nodes that it goes to only where it does not fit on others."""

    kinds: tuple[Binding, ...] = ()
    """Kinds of nodes that its workers prefer, the first most (``FirstKindRule``)."""

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

    @property
    def is_in_part(self) -> bool:
        """Return whether any of its replicas has a node."""
        return any(member.node is not None for member in self.members)

    def replica(self, member: Member) -> ReplicaId:
        """Return what identifies a member."""
        return ReplicaId(self.job_uid, member.role, member.index)

    def without_avoided(self) -> "Gang":
        """The gang with the nodes that it avoids excluded for the replicas that need a node."""
        members = (
            member if member.node else replace(member, excluded=member.excluded | self.avoided)
            for member in self.members
        )
        return replace(self, members=tuple(members), avoided=frozenset())

    def bound_to(self, binding: Binding) -> "Gang":
        """The gang with the workers that need a node on nodes of this kind alone; without PSs all
        that trains."""
        has_ps = any(member.role is Role.PS for member in self.members)
        bound = (Role.WORKER,) if has_ps else TRAINERS
        members = (
            replace(member, spec=member.spec.bound_to(binding))
            if member.role in bound and member.node is None
            else member
            for member in self.members
        )
        return replace(self, members=tuple(members))

    @property
    def differs_within_roles(self) -> bool:
        """Whether replicas of one role that need a node differ in requests or constraints."""
        specs: dict[Role, ReplicaSpec] = {}
        return any(
            specs.setdefault(member.role, member.spec) != member.spec for member in self.unbound
        )

    def demand(self) -> Resources:
        """Return what the replicas that still need a node ask for together."""
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


class Server(NamedTuple):
    """One node of an assignment, by its row, with the PSs and workers that it holds in the end."""

    row: int
    ps: int
    workers: int


class FixedAssignment(NamedTuple):
    """The node, by its row, of one replica of a fixed role."""

    role: Role
    replica_index: int
    row: int


class Assignment(NamedTuple):
    """A node for every replica of one job: PSs and workers by server, in order of their indices,
    and fixed roles."""

    servers: tuple[Server, ...] = ()
    fixed: tuple[FixedAssignment, ...] = ()

    def replicas(self, job: Job) -> Iterator[tuple[ReplicaId, int]]:
        """Every replica and its row."""
        workers = ps = 0
        for server in self.servers:
            for _ in range(server.ps):
                yield ReplicaId(job.uid, Role.PS, ps), server.row
                ps += 1
            for _ in range(server.workers):
                yield ReplicaId(job.uid, Role.WORKER, workers), server.row
                workers += 1
        for each in self.fixed:
            yield ReplicaId(job.uid, each.role, each.replica_index), each.row

    @property
    def counts(self) -> Counts:
        """Return how many PSs and workers these are."""
        return Counts(
            sum(each.ps for each in self.servers), sum(each.workers for each in self.servers)
        )

    def take_from(self, capacity: Capacity, job: Job) -> None:
        """Take what every replica requests."""
        ps, worker = _amount(job.ps, capacity), _amount(job.worker, capacity)
        capacity.take_replicas(self.servers, ps, worker)
        for row, amount in self._fixed_amounts(capacity, job):
            capacity.take(row, amount)

    def give_back_to(self, capacity: Capacity, job: Job) -> None:
        """Give back what every replica took."""
        ps, worker = _amount(job.ps, capacity), _amount(job.worker, capacity)
        capacity.take_replicas(self.servers, tuple(map(neg, ps)), tuple(map(neg, worker)))
        for row, amount in self._fixed_amounts(capacity, job):
            capacity.give_back(row, amount)

    def _fixed_amounts(self, capacity: Capacity, job: Job) -> Iterator[tuple[int, Vector]]:
        specs = {each.role: each.spec for each in job.fixed}
        for each in self.fixed:
            yield each.row, _amount(specs[each.role], capacity)


def _amount(spec: ReplicaSpec, capacity: Capacity) -> Vector:
    return capacity.vector(spec.resources) or (0,) * len(capacity.resources)


def shape(roles: Mapping[Role, int]) -> str:
    """Counts in words: ``2 PS + 4 workers + 1 chief``."""
    counts = str(Counts(roles.get(Role.PS, 0), roles.get(Role.WORKER, 0)))
    fixed = sorted(role for role in roles if role not in (Role.PS, Role.WORKER) and roles[role])
    return " + ".join([counts, *(f"{roles[role]} {role}" for role in fixed)])


def gang_shape(gang: Gang) -> str:
    """The gang's counts in words."""
    return shape(Counter(member.role for member in gang.members))


def does_not_fit(gang: Gang) -> DoesNotFit:
    """The refusal of a gang for want of resources."""
    return DoesNotFit(f"job {gang.key} ({gang_shape(gang)}) does not fit as a whole")


def does_not_fit_because(gang: Gang, why: str) -> DoesNotFit:
    """The refusal of a gang that would fit but for a rule of its pods."""
    return DoesNotFit(f"{does_not_fit(gang).reason}: {why}")


def job_does_not_fit(job: Job, counts: Counts) -> DoesNotFit:
    """The same of a whole job at counts that may not be its own."""
    roles = {Role.PS: counts.ps, Role.WORKER: counts.workers}
    for fixed in job.fixed:
        roles[fixed.role] = roles.get(fixed.role, 0) + fixed.count
    return DoesNotFit(f"job {job.key} ({shape(roles)}) does not fit as a whole")


class GangRule(Protocol):
    """A rule that places one gang on what is free."""

    def place(self, gang: Gang, capacity: Capacity) -> Placement | DoesNotFit:
        """Choose nodes for the gang's unbound replicas; takes nothing."""
        ...


class PlacementRule(GangRule, Protocol):
    """A rule that places gangs, and whole jobs of which nothing runs."""

    def place_job(self, job: Job, counts: Counts, capacity: Capacity) -> Assignment | DoesNotFit:
        """Choose nodes for a whole job of which nothing is bound, and take what it requests."""
        ...
