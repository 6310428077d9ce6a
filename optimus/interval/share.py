"""Allocate: what the candidates may share, and who of the waiting jobs is promised room before
anyone grows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from optimus.allocation import AllocationProblem, Candidate
from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.classify import Classified, Eligibility
from optimus.interval.config import IntervalConfig
from optimus.interval.pools import Pool
from optimus.placement.queue_order import WaitingGang, order_key
from optimus.resources import Resources, total


@dataclass(frozen=True, slots=True)
class Budget:
    """The policy's problem in one pool of nodes, and its waiting jobs in the order in which they
    are seated.

    ``seated`` already hold room in the layout at their own counts; ``promised`` fit, at their
    least, beside the least that running jobs can do with; ``refused`` do not, for the reason given.
    ``measured`` are running jobs for which room to be measured in is made.
    """

    problem: AllocationProblem
    seated: tuple[Classified, ...]
    promised: tuple[Classified, ...]
    refused: tuple[tuple[Classified, str], ...]
    measured: tuple[Classified, ...]


def draw_up(pool: Pool, layout: CapacityPlan, rules: IntervalConfig, at: float) -> Budget:
    """Share out a pool's room; waiting jobs that fit as they are take theirs in ``layout``."""
    standings, capacity = pool.standings, total(node.allocatable for node in pool.nodes)
    ordered = _in_order(standings, capacity, rules, at)
    seated = tuple(each for each in ordered if _fits_now(each, layout))
    candidates = tuple(each.candidate for each in standings if each.candidate is not None)
    open_jobs = frozenset(each.job.uid for each in candidates)
    room = _room(pool, layout, open_jobs)
    spare = room - total(_least(each) for each in candidates if each.running)
    claims = [each for each in standings if _is_forced(each)]
    claims += [each for each in ordered if each.candidate is None and each not in seated]
    promised: list[Classified] = []
    refused: list[tuple[Classified, str]] = []
    for each in claims:
        demand = each.job.demand(each.least) - layout.charge(each.job.uid)
        if demand.fits_in(spare):
            room, spare = room - demand, spare - demand
            promised.append(each)
        else:
            refused.append((each, _refusal(each, demand, spare)))
    promised += [each for each in ordered if each.candidate is not None]
    measured: list[Classified] = []
    for each in standings:
        demand = each.job.demand(each.measure_at) - layout.charge(each.job.uid)
        if each.measure_at is not None and demand.fits_in(spare):
            room, spare = room - demand, spare - demand
            measured.append(each)
    problem = AllocationProblem(room, capacity, candidates, _servers(pool, layout, open_jobs))
    return Budget(problem, seated, tuple(promised), tuple(refused), tuple(measured))


def _is_forced(standing: Classified) -> bool:
    return standing.forced and standing.stance is Eligibility.FIXED


def _refusal(standing: Classified, demand: Resources, spare: Resources) -> str:
    lacking = ", ".join(demand.lacking_in(spare))
    return (
        f"{standing.least} do not fit even with every job that may be resized now at its "
        f"minimum: too little {lacking}"
    )


def _in_order(
    standings: Sequence[Classified], capacity: Resources, rules: IntervalConfig, at: float
) -> tuple[Classified, ...]:
    waiting = [each for each in standings if each.stance is Eligibility.WAITING]
    limit = rules.waiting_age_limit_seconds
    return tuple(sorted(waiting, key=lambda each: order_key(_gang(each), capacity, at, limit)))


def _gang(standing: Classified) -> WaitingGang:
    job = standing.job
    return WaitingGang(job.uid, job.demand(standing.least), job.created_at)


def _fits_now(standing: Classified, layout: CapacityPlan) -> bool:
    return standing.candidate is None and layout.move(standing.job, standing.counts) is None


def _room(pool: Pool, layout: CapacityPlan, open_jobs: frozenset[str]) -> Resources:
    """What is free in the pool, and what the open jobs hold there."""
    names = {node.name for node in pool.nodes}
    free = layout.stock.total_free([node.name for node in layout.nodes if node.name not in names])
    held = [each for uid in sorted(open_jobs) for each in layout.held.get(uid, ())]
    return free + total(each.resources for each in held if each.node in names)


def _servers(
    pool: Pool, layout: CapacityPlan, open_jobs: frozenset[str]
) -> Mapping[Resources, int]:
    """How that room lies: what a node has of it, and how many nodes have just that."""
    stock = layout.stock
    free = {node.name: stock.free[stock.row_of[node.name]] for node in pool.nodes}
    for uid in sorted(open_jobs):
        for each in layout.held.get(uid, ()):
            asked = stock.vector(each.resources)
            if each.node in free and asked is not None:
                free[each.node] = tuple(
                    [left + held for left, held in zip(free[each.node], asked, strict=True)]
                )
    return {stock.resources_of(vector): count for vector, count in Counter(free.values()).items()}


def _least(candidate: Candidate) -> Resources:
    return candidate.job.demand(candidate.job.bounds.minimum)
