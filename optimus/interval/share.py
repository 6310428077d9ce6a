"""Share: divides the nodes into pools and states the policy's problem in each.

Taints, selectors and cordons keep replicas from nodes, so free capacity is not the same for all
jobs. 1. Jobs that compete for capacity are grouped by the constraints of their roles. 2. A node
belongs to the pool of the groups of which it admits a replica; groups that share a node are one
pool. 3. Within a pool, fixed jobs and the minimum of waiting jobs are subtracted before any job
grows.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from optimus.allocation import AllocationProblem
from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.classify import Eligibility, JobView
from optimus.jobs import Counts, Job, NodeConstraints, ReplicaSpec
from optimus.nodes import Node, refusal
from optimus.placement.capacity import Vector
from optimus.placement.queue.order import AGE_LIMIT_SECONDS, OrderKey, WaitingGang, order_key
from optimus.resources import Resources, total


@dataclass(slots=True)
class Pool:
    """Nodes and the jobs that compete for them; no other job that competes may go there."""

    nodes: list[Node] = field(default_factory=list)
    jobs: list[JobView] = field(default_factory=list)

    @property
    def capacity(self) -> Resources:
        """Return what the nodes hold in all."""
        amounts = [node.allocatable for node in self.nodes]
        unique, alike = {id(amount): amount for amount in amounts}, Counter(map(id, amounts))
        return total(unique[key] * count for key, count in alike.items())

    def available(
        self, plan: CapacityPlan, holders: Iterable[str] = ()
    ) -> tuple[Resources, Mapping[Resources, int]]:
        """Return what is free or held by these jobs (UIDs), and the number of nodes by their part.

        What a node lacks where others have overcommitted it is not taken from the other nodes."""
        capacity = plan.capacity
        every = len(self.nodes) == len(capacity.nodes)
        rows = None if every else [capacity.row_of[node.name] for node in self.nodes]
        found = capacity.count_free(rows)
        for row, free in self._freed(plan, holders).items():
            found[capacity.free[row]] -= 1
            found[free] += 1
        servers = Counter[Resources]()
        for free, count in found.items():
            servers[capacity.resources_of(tuple([max(each, 0) for each in free]))] += count
        servers = +servers
        return total(each * count for each, count in servers.items()), servers

    @staticmethod
    def _freed(plan: CapacityPlan, holders: Iterable[str]) -> Mapping[int, Vector]:
        """By row, what is free where these jobs hold something, once they hold nothing."""
        capacity, held, freed = plan.capacity, plan.held, dict[int, Vector]()
        for each in (each for uid in holders for each in held.get(uid, ())):
            row, amount = capacity.row_of.get(each.node), capacity.vector(each.resources)
            if row is not None and amount is not None:
                before = freed.get(row, capacity.free[row])
                freed[row] = tuple([a + b for a, b in zip(before, amount, strict=True)])
        return freed


@dataclass(frozen=True, slots=True)
class Share:
    """The policy's problem in one pool, and its waiting jobs in the order of the queue.

    ``placed`` have a place at their own counts already; ``admitted`` fit, at their minimum, beside
    the minimum of running jobs; ``rejected`` do not, for the reason given. ``starting`` are waiting
    jobs with a forecast, whose counts the policy chooses."""

    pool: Pool
    problem: AllocationProblem
    placed: Sequence[JobView]
    admitted: Sequence[JobView]
    rejected: Sequence[tuple[JobView, str]]
    starting: Sequence[JobView]

    def by_size(self, allocated: Mapping[str, Counts], *, sign: int = 1) -> list[JobView]:
        """The starting jobs, those of the highest priority first, among equals the smallest, or,
        with the sign -1, the largest."""
        capacity = self.problem.capacity

        def key(each: JobView) -> tuple[int, float, str]:
            job = each.job
            demand = job.demand(allocated.get(job.uid, each.minimum))
            return -job.priority, sign * demand.dominant(capacity)[1], job.uid

        return sorted(self.starting, key=key)


def share_pool(pool: Pool, plan: CapacityPlan, at: float, *, reserves: bool = True) -> Share:
    """Share out a pool's capacity; waiting jobs that fit as they are take theirs in ``plan``.

    Where nothing is reserved for running jobs (``reserves``), as all counts are decided anew, a
    waiting job without a forecast gets its minimum, and how free capacity lies is not told."""
    capacity = pool.capacity
    pool.jobs = [_startable(each, capacity) for each in pool.jobs]
    waiting = [each for each in pool.jobs if each.eligibility is Eligibility.WAITING]
    starting = [each for each in waiting if each.candidate is not None]
    queue = in_queue_order([each for each in waiting if each.candidate is None], capacity, at)
    placed = [each for each in queue if reserves and plan.move(each.job, each.counts) is None]
    candidates = tuple(each.candidate for each in pool.jobs if each.candidate is not None)
    running = [each for each in candidates if each.running]
    holders = [each.job.uid for each in running]
    available, servers = pool.available(plan, holders)
    reserved = running if reserves else []
    spare = available - total(each.job.demand(each.job.bounds.minimum) for each in reserved)
    returnable = total(
        plan.usage(each.job.uid) - each.job.demand(each.returns_to)
        for each in pool.jobs
        if reserves and each.returns_to is not None
    )
    quotas = plan.quotas.copy()
    for candidate in candidates:
        quotas.release(candidate.job.uid)
        if reserves and candidate.running:
            quotas.charge(candidate.job.uid, candidate.job.bounds.minimum)
    forced = [each for each in pool.jobs if each.forced and each.eligibility is Eligibility.FIXED]
    asked = [*forced, *(each for each in queue if not plan.is_placed(each.job.uid))]
    admitted, rejected = list[JobView](), list[tuple[JobView, str]]()
    for each in asked:
        demand = each.job.demand(each.minimum) - plan.usage(each.job.uid)
        beyond = quotas.refusal(each.job.uid, each.minimum)
        # For a job that waits others return what they have beyond their users' counts.
        returned = demand.beyond(spare)
        if beyond is None and returned.fits_in(returnable):
            returnable, demand = returnable - returned, demand - returned
            available, spare = available - demand, spare - demand
            quotas.charge(each.job.uid, each.minimum)
            admitted.append(each)
        else:
            rejected.append((each, beyond or _why_rejected(each, demand, spare, reserves)))
    for candidate in candidates:
        quotas.release(candidate.job.uid)
    lies = servers if reserves else None
    problem = AllocationProblem(available, capacity, candidates, lies, quotas=quotas.remaining())
    return Share(pool, problem, placed, admitted, rejected, starting)


def _startable(job: JobView, capacity: Resources) -> JobView:
    """The job; one that waits for its own counts starts with fewer where no nodes could ever hold
    these."""
    if not job.starts_smaller or job.job.demand(job.minimum).fits_in(capacity):
        return job
    bounds, candidate = job.job.bounds, job.candidate
    if candidate is not None:
        wide = replace(candidate.job.bounds, min_ps=bounds.min_ps, min_workers=bounds.min_workers)
        candidate = replace(candidate, job=replace(candidate.job, bounds=wide))
    return replace(job, minimum=bounds.minimum, candidate=candidate)


def in_queue_order(jobs: Iterable[JobView], capacity: Resources, at: float) -> list[JobView]:
    """Waiting jobs in the order in which the extender would bind their pods."""

    def key(each: JobView) -> OrderKey:
        job = each.job
        demand, priority = job.demand(each.minimum), job.priority
        gang = WaitingGang(job.uid, demand, job.created_at, priority=priority)
        return order_key(gang, capacity, at, AGE_LIMIT_SECONDS)

    return sorted(jobs, key=key)


def _why_rejected(each: JobView, demand: Resources, spare: Resources, reserves: bool) -> str:
    even_so = " even with every job that may be resized now at its minimum" if reserves else ""
    return f"{each.minimum} do not fit{even_so}: too little {', '.join(demand.lacking_in(spare))}"


_Constraints = frozenset[NodeConstraints]


def pools_of(jobs: Iterable[JobView], nodes: Sequence[Node]) -> Iterator[Pool]:
    """The pools of the jobs whose counts are to be decided, in the order of their first jobs."""
    grouped: dict[_Constraints, list[JobView]] = {}
    known: dict[tuple[int, ...], _Constraints] = {}
    for each in jobs:
        if _competes(each):
            # Most jobs share the objects of their constraints, which take long to hash.
            specs = _specs(each.job)
            key = tuple([id(spec.constraints) for spec in specs])
            if key not in known:
                known[key] = frozenset(spec.constraints for spec in specs)
            grouped.setdefault(known[key], []).append(each)
    groups = list(grouped)
    admission = _Admission.of(groups)
    leader = list(range(len(groups)))
    nodes_of: dict[int, list[Node]] = {}
    for alike in admission.of_alike(nodes):
        admitted = admission.of_node(alike[0])
        if admitted:
            first = min(_root(leader, group) for group in admitted)
            for group in admitted:
                leader[_root(leader, group)] = first
            nodes_of.setdefault(admitted[0], []).extend(alike)
    pools = {_root(leader, group): Pool() for group in range(len(groups))}
    for group, its_nodes in nodes_of.items():
        pools[_root(leader, group)].nodes += its_nodes
    for group, constraints in enumerate(groups):
        pools[_root(leader, group)].jobs += grouped[constraints]
    yield from pools.values()


def _competes(each: JobView) -> bool:
    waits = each.candidate is not None or each.eligibility is Eligibility.WAITING
    return waits or each.forced or each.returns_to is not None


def _specs(job: Job) -> Sequence[ReplicaSpec]:
    return job.ps, job.worker, *(each.spec for each in job.fixed)


@dataclass(frozen=True, slots=True)
class _Admission:
    """Tells which groups of jobs a node admits; nodes that are alike in all that decides it."""

    groups: Sequence[_Constraints]
    labels: tuple[str, ...]
    by_name: bool

    @classmethod
    def of(cls, groups: Sequence[_Constraints]) -> Self:
        """For these groups of jobs."""
        each = {constraints for group in groups for constraints in group}
        asked = [requirement for one in each for term in one.affinity for requirement in term]
        selected = {key for one in each for key, _ in one.selector}
        labels = selected | {one.key for one in asked if not one.field}
        return cls(groups, tuple(sorted(labels)), any(one.field for one in asked))

    def of_alike(self, nodes: Iterable[Node]) -> Iterable[Sequence[Node]]:
        """The nodes, those together that admit the same groups."""
        found, names = defaultdict[Hashable, list[Node]](list), self.labels
        for node in nodes:
            labels = tuple([node.labels.get(name) for name in names]) if names else ()
            found[node.cordoned, node.taints, labels, node.name if self.by_name else ""].append(
                node
            )
        return found.values()

    def of_node(self, node: Node) -> list[int]:
        """The numbers of the groups of which the node admits a replica, ascending."""
        return [
            number
            for number, group in enumerate(self.groups)
            if any(refusal(node, each) is None for each in group)
        ]


def _root(leader: Sequence[int], group: int) -> int:
    while leader[group] != group:
        group = leader[group]
    return group
