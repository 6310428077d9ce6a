"""Share: divides the nodes into pools and states the policy's problem in each.

Taints, selectors and cordons keep replicas from nodes; room there is no room for them, however much
there is. 1. Jobs that compete for room are grouped by the constraints of their roles. 2. A node
belongs to the pool of the groups of which it admits a replica; groups that share a node are one
pool. 3. Within a pool, what is fixed and the minimum of waiting jobs come off the room before
anybody grows.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from optimus.allocation import AllocationProblem
from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.classify import Classified, Eligibility, IntervalConfig
from optimus.jobs import Job, NodeConstraints
from optimus.nodes import Node, refusal
from optimus.placement.queue_order import WaitingGang, order_key
from optimus.resources import NONE, Resources, total


@dataclass(slots=True)
class Pool:
    """Nodes and the jobs that compete for them; no other job that competes may go there."""

    nodes: list[Node] = field(default_factory=list)
    jobs: list[Classified] = field(default_factory=list)

    @property
    def capacity(self) -> Resources:
        """What the nodes hold in all."""
        alike = Counter(node.allocatable for node in self.nodes)
        return total(amount * count for amount, count in alike.items())

    def room(
        self, plan: CapacityPlan, holders: Iterable[str] = ()
    ) -> tuple[Resources, Mapping[Resources, int]]:
        """Room that is free or held by these jobs (UIDs), and the number of nodes by their part."""
        capacity = plan.capacity
        rows = [capacity.row_of[node.name] for node in self.nodes]
        free = {row: capacity.free[row] for row in rows}
        held = plan.held
        for each in (each for uid in holders for each in held.get(uid, ())):
            row, amount = capacity.row_of.get(each.node, -1), capacity.vector(each.resources)
            if row in free and amount is not None:
                free[row] = tuple([a + b for a, b in zip(free[row], amount, strict=True)])
        servers = {
            capacity.resources_of(each): count for each, count in Counter(free.values()).items()
        }
        return total(each * count for each, count in servers.items()), servers


@dataclass(frozen=True, slots=True)
class Share:
    """The policy's problem in one pool, and its waiting jobs in the order of the queue.

    ``placed`` already hold room at their own counts; ``admitted`` fit, at their minimum, beside the
    minimum of running jobs; ``rejected`` do not, for the reason given. ``starting`` are waiting
    jobs with a forecast, whose counts the policy chooses. ``to_measure`` are running jobs for which
    room to be measured in is reclaimed.
    """

    pool: Pool
    problem: AllocationProblem
    placed: Sequence[Classified]
    admitted: Sequence[Classified]
    rejected: Sequence[tuple[Classified, str]]
    starting: Sequence[Classified]
    to_measure: Sequence[Classified]


def share_pool(pool: Pool, plan: CapacityPlan, config: IntervalConfig, at: float) -> Share:
    """Share out a pool's room; waiting jobs that fit as they are take theirs in ``plan``."""
    capacity = pool.capacity
    waiting = [each for each in pool.jobs if each.eligibility is Eligibility.WAITING]
    starting = [each for each in waiting if each.candidate is not None]
    queue = in_queue_order(
        [each for each in waiting if each.candidate is None], capacity, config, at
    )
    placed = [each for each in queue if plan.move(each.job, each.counts) is None]
    candidates = tuple(each.candidate for each in pool.jobs if each.candidate is not None)
    running = [each for each in candidates if each.running]
    holders = [each.job.uid for each in running]
    room, servers = pool.room(plan, holders)
    spare = room - total(each.job.demand(each.job.bounds.minimum) for each in running)
    admitted, rejected, to_measure = list[Classified](), list[tuple[Classified, str]](), []
    forced = [each for each in pool.jobs if each.forced and each.eligibility is Eligibility.FIXED]
    for each in [*forced, *(each for each in queue if not plan.is_placed(each.job.uid))]:
        demand = each.job.demand(each.minimum) - plan.usage(each.job.uid)
        if demand.fits_in(spare):
            room, spare = room - demand, spare - demand
            admitted.append(each)
        else:
            rejected.append((each, _why_rejected(each, demand, spare)))
    for each in (each for each in pool.jobs if each.measure_at is not None):
        demand = each.job.demand(each.measure_at) - plan.usage(each.job.uid)
        if demand.fits_in(spare):
            room, spare = room - demand, spare - demand
            to_measure.append(each)
    # Whole jobs leave pieces that no whole job fits. Part of the room is held back so that those
    # pieces can be shared out task by task; running jobs would have to be restarted for them.
    reserve = NONE if running else scaled(room, config.reserve_fraction)
    problem = AllocationProblem(room, capacity, candidates, servers, reserve)
    return Share(pool, problem, placed, admitted, rejected, starting, to_measure)


def scaled(amount: Resources, fraction: float) -> Resources:
    """A part of an amount, rounded down; nothing of what is below zero."""
    return Resources({name: int(max(each, 0) * fraction) for name, each in amount.items()})


def in_queue_order(
    jobs: Iterable[Classified], capacity: Resources, config: IntervalConfig, at: float
) -> list[Classified]:
    """Waiting jobs in the order in which the extender would bind their pods."""
    limit = config.waiting_age_limit_seconds

    def key(each: Classified) -> tuple[int, float, float, str]:
        gang = WaitingGang(each.job.uid, each.job.demand(each.minimum), each.job.created_at)
        return order_key(gang, capacity, at, limit)

    return sorted(jobs, key=key)


def _why_rejected(each: Classified, demand: Resources, spare: Resources) -> str:
    lacking = ", ".join(demand.lacking_in(spare))
    return (
        f"{each.minimum} do not fit even with every job that may be resized now at its minimum: "
        f"too little {lacking}"
    )


_Constraints = frozenset[NodeConstraints]


def pools_of(jobs: Iterable[Classified], nodes: Sequence[Node]) -> Iterator[Pool]:
    """The pools of the jobs whose counts are to be decided, in the order of their first jobs."""
    grouped: dict[_Constraints, list[Classified]] = {}
    for each in jobs:
        if _competes(each):
            grouped.setdefault(_constraints(each.job), []).append(each)
    groups = list(grouped)
    admission = _Admission.of(groups)
    leader = list(range(len(groups)))
    nodes_of: dict[int, list[Node]] = {}
    for node in nodes:
        admitted = admission.of_node(node)
        if admitted:
            first = min(_root(leader, group) for group in admitted)
            for group in admitted:
                leader[_root(leader, group)] = first
            nodes_of.setdefault(admitted[0], []).append(node)
    pools = {_root(leader, group): Pool() for group in range(len(groups))}
    for group, its_nodes in nodes_of.items():
        pools[_root(leader, group)].nodes += its_nodes
    for group, constraints in enumerate(groups):
        pools[_root(leader, group)].jobs += grouped[constraints]
    yield from pools.values()


def _competes(each: Classified) -> bool:
    waits = each.candidate is not None or each.eligibility is Eligibility.WAITING
    return waits or each.forced or each.measure_at is not None


def _constraints(job: Job) -> _Constraints:
    fixed = (each.spec.constraints for each in job.fixed)
    return frozenset({job.ps.constraints, job.worker.constraints, *fixed})


@dataclass(frozen=True, slots=True)
class _Admission:
    """Which groups of jobs a node admits, asked once of nodes that differ in nothing relevant."""

    groups: Sequence[_Constraints]
    labels: tuple[str, ...]
    by_name: bool
    known: dict[Hashable, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, groups: Sequence[_Constraints]) -> Self:
        """For these groups of jobs."""
        each = {constraints for group in groups for constraints in group}
        asked = [requirement for one in each for term in one.affinity for requirement in term]
        selected = {key for one in each for key, _ in one.selector}
        labels = selected | {one.key for one in asked if not one.field}
        return cls(groups, tuple(sorted(labels)), any(one.field for one in asked))

    def of_node(self, node: Node) -> list[int]:
        """The numbers of the groups of which the node admits a replica, ascending."""
        labels = tuple([node.labels.get(key) for key in self.labels])
        alike = node.cordoned, node.taints, labels, node.name if self.by_name else ""
        if alike not in self.known:
            self.known[alike] = [
                number
                for number, group in enumerate(self.groups)
                if any(refusal(node, each) is None for each in group)
            ]
        return self.known[alike]


def _root(leader: Sequence[int], group: int) -> int:
    while leader[group] != group:
        group = leader[group]
    return group
