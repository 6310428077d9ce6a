"""One interval: classify, share, fit and settle, as one pure call (Optimus, sections 3 and 4).

1. Classify every job: fixed, suspended, waiting, or resizable with a forecast.
2. Share: in each pool of nodes that the same jobs may go to, fixed jobs and the minimum of waiting
   jobs come off the room; the policy allocates the rest.
3. Fit the allocation on the nodes, jobs whose counts do not change keeping their pods, and
4. settle for what is worth its restarts.
5. Jobs without pods share out the pieces of room that are left.
6. Jobs whose profiling is over without a forecast return to their user's counts.
The same snapshot gives the same plan whatever the order of its jobs, nodes and pods.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from optimus.allocation import NO_HISTORY, Allocation, AllocationPolicy, JobHistory
from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.classify import (
    Action,
    Classified,
    Decision,
    Eligibility,
    IntervalConfig,
    JobView,
    classify,
)
from optimus.interval.profiling import decide_after_profiling
from optimus.interval.settle import Settlement, most_to_gain_first, placed_reason
from optimus.interval.share import Share, in_queue_order, pools_of, share_pool
from optimus.interval.starting import StartingJobs
from optimus.jobs import Job
from optimus.models.forecast import ForecastFn, forecast_job
from optimus.placement.gang import PlacementRule
from optimus.progress.types import NOTHING, TrainingProgress
from optimus.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class IntervalPlan:
    """All decisions of one interval, what frees room before what takes it.

    ``at`` is the snapshot's instant; ``capacity_plan`` shows where the jobs were placed on trial.
    """

    interval_id: str
    at: float
    decisions: tuple[Decision, ...]
    capacity_plan: CapacityPlan = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Strategies:
    """The interchangeable parts of a decision.

    ``remainder_policy`` shares out the pieces that whole jobs leave; the policy itself by default.
    """

    policy: AllocationPolicy
    placement: PlacementRule
    forecast: ForecastFn = forecast_job
    remainder_policy: AllocationPolicy | None = None


@dataclass(frozen=True, slots=True)
class IntervalInput:
    """What an interval is planned on; progress and history by job UID, none without an entry."""

    snapshot: ClusterSnapshot
    progress: Mapping[str, TrainingProgress] = field(default_factory=lambda: MappingProxyType({}))
    history: Mapping[str, JobHistory] = field(default_factory=lambda: MappingProxyType({}))


_ORDER = {action: number for number, action in enumerate(Action)}
"""What frees room comes before what takes it."""


def plan_interval(
    interval_id: str, given: IntervalInput, strategies: Strategies, config: IntervalConfig
) -> IntervalPlan:
    """Counts for every job that asks for management; nothing is changed anywhere."""
    at, policy = given.snapshot.at, strategies.policy
    plan = CapacityPlan.of(given.snapshot, strategies.placement)
    # 1. Classify
    views = _views(given, strategies, config, plan)
    jobs = [classify(view) for view in views]
    _charge_fixed(jobs, plan)
    # 2. Share
    shares = [share_pool(pool, plan, config, at) for pool in pools_of(jobs, plan.nodes)]
    allocations = [policy.allocate(share.problem) for share in shares]
    allocation = _joined(allocations)
    # 3. and 4. Fit and settle, waiting jobs first
    settlement = Settlement(plan, config, allocation.counts, allocation.reasons)
    settlement.find_donors(jobs)
    starting = [StartingJobs(share, plan, config.max_attempts) for share in shares]
    for share, each, allocated in zip(shares, starting, allocations, strict=True):
        _settle_waiting(share, each, allocated, settlement, at)
    for job in most_to_gain_first(jobs, allocation.counts):
        if job.job.uid not in settlement.counts:
            settlement.place(job) if job.forced else settlement.resize(job)
    # 5. The pieces that are left
    for share, each in zip(shares, starting, strict=True):
        _share_remainder(share, each, settlement, strategies)
    # 6. After profiling
    decisions = [
        (view, _decision(job, settlement))
        for view, job in zip(views, jobs, strict=True)
        if view.job.goal is not None
    ]
    # A return keeps the position of the decision that it replaces.
    decisions.sort(key=lambda each: (_ORDER[each[1].action], each[1].uid))
    decided = [decide_after_profiling(*each) for each in decisions]
    return IntervalPlan(interval_id, at, tuple(decided), plan)


def _views(
    given: IntervalInput, strategies: Strategies, config: IntervalConfig, plan: CapacityPlan
) -> list[JobView]:
    """All that is known of every job; one with some pods bound takes room for the rest."""

    def view(job: Job) -> JobView:
        progress = given.progress.get(job.uid, NOTHING)
        history = given.history.get(job.uid, NO_HISTORY)
        forecast = strategies.forecast(job, progress)
        is_placed, at = plan.is_placed(job.uid), given.snapshot.at
        return JobView(
            job, is_placed, forecast, history, progress, config, at, job.uid in incomplete
        )

    jobs = sorted(given.snapshot.jobs, key=lambda job: job.uid)
    incomplete = {
        job.uid for job in jobs if plan.is_placed(job.uid) and plan.complete(job) is not None
    }
    return [view(job) for job in jobs]


def _charge_fixed(jobs: Sequence[Classified], plan: CapacityPlan) -> None:
    """Jobs in a rescale take their target's room; jobs that are suspended give theirs back."""
    for each in jobs:
        if each.rescaling:
            # A target that does not fit now keeps the room that its pods hold: the rescale decides
            # by itself.
            plan.move(each.job, each.counts)
        elif each.eligibility in {Eligibility.SUSPENDED, Eligibility.TO_SUSPEND}:
            plan.release(each.job.uid)


def _joined(allocations: Sequence[Allocation]) -> Allocation:
    if len(allocations) == 1:
        return allocations[0]
    counts = {uid: counts for each in allocations for uid, counts in each.counts.items()}
    reasons = {uid: reason for each in allocations for uid, reason in each.reasons.items()}
    return Allocation(counts, reasons)


def _settle_waiting(
    share: Share, starting: StartingJobs, allocation: Allocation, settlement: Settlement, at: float
) -> None:
    for job in share.placed:
        settlement.decide(job, job.counts, f"there is room for its {job.counts}")
    for job, refusal in share.rejected:
        settlement.decide(job, job.job.counts, refusal)
    for job in share.admitted:
        settlement.place(job)
    starting.place_whole(allocation)
    unplaced = []
    for job in share.starting:
        counts = starting.counts.get(job.job.uid)
        if counts is None:
            unplaced.append(job)
        else:
            settlement.decide(job, counts, placed_reason(job, counts))
    for job in in_queue_order(unplaced, share.problem.capacity, settlement.config, at):
        settlement.place(job)
        starting.join(job.job.uid)
    for job in share.to_measure:
        if job.measure_at is not None:
            settlement.make_room_to_measure(job, job.measure_at)


def _share_remainder(
    share: Share, starting: StartingJobs, settlement: Settlement, strategies: Strategies
) -> None:
    """Hand out what whole jobs left over; comes last, as no room can be reclaimed after it."""
    if not starting.counts:
        return
    policy = strategies.remainder_policy or strategies.policy
    for _ in range(settlement.config.remainder_rounds):
        if not starting.share_remainder(policy):
            break
    for job in share.starting:
        counts = starting.counts.get(job.job.uid)
        if counts is not None and counts != settlement.counts[job.job.uid]:
            settlement.counts[job.job.uid] = counts
            settlement.reasons[job.job.uid] = placed_reason(job, counts)


def _decision(job: Classified, settlement: Settlement) -> Decision:
    of = job.job
    counts = settlement.counts.get(of.uid, of.counts)
    now, after = job.seconds(of.counts), job.seconds(counts)
    reason = settlement.reasons.get(of.uid) or job.reason
    if now is not None and after is not None and now != after:
        reason = f"{reason}; remaining {now:.0f} s become {after:.0f} s"
    action = Action.between(of.counts, counts)
    if job.eligibility is Eligibility.TO_SUSPEND:
        action = Action.SUSPEND
    elif action is Action.KEEP and job.eligibility is Eligibility.WAITING:
        action = Action.WAIT
    return Decision(of.key, of.uid, of.counts, counts, action, reason, now, after)
