"""One interval: predict, allocate, fit, settle, as one pure call (Optimus, sections 3 and 4).

1. Predict where every job stands: fixed, absent, waiting, or open with a forecast.
2. Allocate: in each pool of nodes that the same jobs may go to, fixed jobs and the least that
  waiting jobs can do with
   come off the room; the policy shares out the rest.
3. Fit what it says on the nodes, jobs whose counts do not change keeping their pods, and
4. settle for what is worth its restarts.
The same snapshot gives the same plan whatever the order of its jobs, nodes and pods.
"""

from optimus.allocation import NO_HISTORY, Allocation
from optimus.interval.after_profiling import decide_after_profiling
from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.classify import Classified, Eligibility, JobView, stand
from optimus.interval.config import IntervalConfig
from optimus.interval.plan import (
    Action,
    Decision,
    IntervalInput,
    IntervalPlan,
    Strategies,
    action_between,
)
from optimus.interval.pools import pools_of
from optimus.interval.settle import Settlement
from optimus.interval.share import Budget, draw_up
from optimus.interval.trim import trims
from optimus.jobs import Counts, Job
from optimus.progress.types import NOTHING

__all__ = [
    "Action",
    "Decision",
    "IntervalConfig",
    "IntervalInput",
    "IntervalPlan",
    "Strategies",
    "plan_interval",
]

_ORDER = tuple(Action)
"""What frees room comes before what takes it."""


def plan_interval(
    interval_id: str, seen: IntervalInput, methods: Strategies, rules: IntervalConfig
) -> IntervalPlan:
    """Counts for every job that asks for management; nothing is changed anywhere."""
    layout = CapacityPlan.of(seen.snapshot, methods.placement)
    views = _views(seen, methods, rules, layout)
    standings = [stand(view) for view in views]
    _charge_fixed(standings, layout)
    budgets = [
        draw_up(pool, layout, rules, seen.snapshot.at) for pool in pools_of(standings, layout.nodes)
    ]
    allocation = _together([methods.policy.allocate(each.problem) for each in budgets])
    settlement = Settlement(layout, rules, allocation.counts, allocation.reasons)
    settlement.find_givers(standings)
    for budget in budgets:
        _settle_waiting(budget, allocation, settlement)
    _settle_moving(standings, allocation, settlement)
    decisions = [
        decide_after_profiling(view, _decision(standing, settlement), rules.profiling)
        for view, standing in zip(views, standings, strict=True)
        if view.job.goal is not None
    ]
    decisions.sort(key=lambda each: (_ORDER.index(each.action), each.uid))
    return IntervalPlan(interval_id, seen.snapshot.at, tuple(decisions))


def _views(
    seen: IntervalInput, methods: Strategies, rules: IntervalConfig, layout: CapacityPlan
) -> list[JobView]:
    """All that is known of every job; those of which some pods are bound take room for the rest."""
    jobs = sorted(seen.snapshot.jobs, key=lambda job: job.uid)
    stranded = {
        job.uid for job in jobs if layout.is_bound(job.uid) and layout.complete(job) is not None
    }

    def view(job: Job) -> JobView:
        progress = seen.progress.get(job.uid, NOTHING)
        return JobView(
            job,
            layout.is_bound(job.uid),
            methods.forecast(job, progress),
            seen.history.get(job.uid, NO_HISTORY),
            progress,
            rules,
            seen.snapshot.at,
            job.uid in stranded,
        )

    return [view(job) for job in jobs]


def _charge_fixed(standings: list[Classified], layout: CapacityPlan) -> None:
    """Jobs in a rescale take their target's room; jobs that are suspended give theirs back."""
    for each in standings:
        if each.moving:
            # A target that does not fit now keeps the room that its pods hold: the rescale decides
            # by itself.
            layout.move(each.job, each.counts)
        elif each.stance in {Eligibility.ABSENT, Eligibility.SUSPEND}:
            layout.release(each.job.uid)


def _together(allocations: list[Allocation]) -> Allocation:
    counts = {uid: counts for each in allocations for uid, counts in each.counts.items()}
    return Allocation(
        counts, {uid: reason for each in allocations for uid, reason in each.reasons.items()}
    )


def _settle_waiting(budget: Budget, allocation: Allocation, settlement: Settlement) -> None:
    for each in budget.seated:
        settlement.decide(each, each.counts, f"there is room for its {each.counts}")
    for each, refusal in budget.refused:
        settlement.decide(each, each.job.counts, refusal)
    for each in budget.promised:
        _seat(each, allocation, settlement)
    for each in budget.measured:
        if each.measure_at is not None:
            settlement.make_room_to_measure(each, each.measure_at)


def _settle_moving(
    standings: list[Classified], allocation: Allocation, settlement: Settlement
) -> None:
    for each in _most_to_gain_first(standings, allocation):
        if each.job.uid not in settlement.counts:
            _seat(each, allocation, settlement) if each.forced else settlement.improve(each)


def _seat(standing: Classified, allocation: Allocation, settlement: Settlement) -> None:
    """Room for a job that waits, or whose user moved its bounds."""
    allotted = allocation.counts.get(standing.job.uid)
    wanted = [standing.least]
    if allotted is not None and allotted != standing.least:
        wanted = [allotted, *trims(standing.seconds, allotted, standing.least), standing.least]
    options = [each for each in wanted if standing.why_barred(each) is None]
    if standing.forced and not options:
        options = wanted  # it has rested: what its user's bounds ask for is tried again
    refusal = settlement.seat(standing, options) if options else standing.why_barred(standing.least)
    if refusal is not None:
        settlement.decide(standing, standing.job.counts, refusal)


def _most_to_gain_first(standings: list[Classified], allocation: Allocation) -> list[Classified]:
    def saved(standing: Classified) -> float:
        after = allocation.counts.get(standing.job.uid, standing.job.counts)
        now_seconds, after_seconds = standing.seconds(standing.job.counts), standing.seconds(after)
        if now_seconds is None or after_seconds is None or now_seconds == after_seconds:
            return 0.0
        return now_seconds - after_seconds

    movable = [each for each in standings if each.stance is Eligibility.OPEN]
    return sorted(movable, key=lambda each: (not each.forced, -saved(each), each.job.uid))


def _decision(standing: Classified, settlement: Settlement) -> Decision:
    job = standing.job
    counts = settlement.counts.get(job.uid, job.counts)
    now, after = standing.seconds(job.counts), standing.seconds(counts)
    reason = settlement.reasons.get(job.uid) or standing.reason
    if now is not None and after is not None and now != after:
        reason = f"{reason}; remaining {now:.0f} s become {after:.0f} s"
    return Decision(
        job.key, job.uid, job.counts, counts, _action(standing, counts), reason, now, after
    )


def _action(standing: Classified, counts: Counts) -> Action:
    if standing.stance is Eligibility.SUSPEND:
        return Action.SUSPEND
    action = action_between(standing.job.counts, counts)
    return (
        Action.WAIT if action is Action.KEEP and standing.stance is Eligibility.WAITING else action
    )
