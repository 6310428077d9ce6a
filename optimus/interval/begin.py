"""Begin the rescales that an interval has decided, each once its capacity is free."""

from collections.abc import Iterator

from optimus.allocation import JobHistory
from optimus.interval.capacity_plan import CapacityPlan, Held, reserve
from optimus.interval.classify import Action, Decision
from optimus.interval.inputs import IntervalPlan
from optimus.interval.profiling import has_place, is_admission, may_be_measured, may_skip_checkpoint
from optimus.interval.promises import STOPS, free_now
from optimus.interval.state import BeginRescale, Instruction, Moment, PauseJob, PendingRescale
from optimus.jobs import NO_COUNTS, Counts, Job
from optimus.rescale.purpose import RescalePurpose, why_unwanted
from optimus.snapshot import ClusterSnapshot


def begin_together(plan: IntervalPlan) -> Iterator[Instruction]:
    """Stop all jobs that a plan pauses or moves; those that it moves start where it placed them."""
    for each in plan.decisions:
        placement = plan.capacity_plan.held.get(each.uid)
        if each.action is Action.PAUSE:
            yield PauseJob(each.uid, plan.interval_id, each.reason)
        elif each.action is Action.SUSPEND or (each.rescales and placement is not None):
            purpose = RescalePurpose.INTERVAL
            yield _begin(plan.interval_id, each, purpose, placement)


def pending_of(now: Moment, plan: IntervalPlan) -> dict[str, PendingRescale]:
    """The decisions of a plan that are to begin, by UID."""
    snapshot, managed = now.cluster.snapshot(), now.cluster.managed
    return {
        each.uid: PendingRescale(plan.interval_id, each, managed[each.uid].job)
        for each in plan.decisions
        if each.uid in now.histories
        if each.action in STOPS or (each.rescales and not _stays(each, snapshot))
    }


def begin_pending(now: Moment) -> Iterator[BeginRescale | PauseJob]:
    """Begin what has its capacity: what shrinks has it, what grows once others gave it up."""
    free, pending, histories = free_now(now), now.state.pending, now.histories
    profiling = now.config.interval.profiling
    snapshot = now.cluster.snapshot()
    for uid, each in list(pending.items()):
        if uid not in histories or _is_stale(each, now.cluster.managed[uid].job, histories[uid]):
            del pending[uid]
            continue
        decision, job = each.decision, now.cluster.managed[uid].job
        if decision.action is Action.PAUSE:
            del pending[uid]
            yield PauseJob(uid, each.interval_id, decision.reason, now.turn)
            continue
        suspends, runs = decision.action is Action.SUSPEND, any(snapshot.bound_counts(uid))
        purpose = _purpose(now, decision, histories[uid], runs=runs)
        if purpose.measures and not has_place(now.cluster.snapshot(), histories, profiling):
            continue
        bound = job.bound_to(now.binding(decision.kind))
        placement = None if suspends else reserve(free, bound, decision.counts)
        if placement is None and not (suspends or _goes_to_the_queue(now, uid)):
            continue  # one that shrinks, too: a node on which it runs may take no new pods
        del pending[uid]
        own = (histories[uid].own_counts or job.counts) if purpose.measures else None
        yield _begin(each.interval_id, decision, purpose, placement, own)
    yield from _swap(now, free)


def _begin(
    interval_id: str,
    decision: Decision,
    purpose: RescalePurpose,
    placement: tuple[Held, ...] | None,
    own_counts: Counts | None = None,
) -> BeginRescale:
    suspends = decision.action is Action.SUSPEND
    return BeginRescale(
        uid=decision.uid,
        id=purpose.id_of(interval_id),
        purpose=purpose,
        counts=NO_COUNTS if suspends else decision.counts,
        reason=decision.reason,
        placement=None if suspends else placement,
        own_counts=own_counts,
        kind=decision.kind,
    )


def _swap(now: Moment, free: CapacityPlan) -> Iterator[BeginRescale]:
    """Where jobs wait for each other's nodes, and nothing else is on its way that could make room,
    they are stopped at once, and what each leaves is kept for another."""
    if any(each.rescaling_to is not None for each in now.histories.values()):
        return
    pending = now.state.pending
    moving = {
        uid: now.cluster.managed[uid].job.bound_to(now.binding(each.decision.kind))
        for uid, each in pending.items()
        if each.decision.kind is not None and not now.histories[uid].paused
    }
    while moving:
        plan = free.copy()
        for uid in moving:
            plan.release(uid)
        unplaced = [
            uid
            for uid, job in moving.items()
            if plan.assign(job, pending[uid].decision.counts) is not None
        ]
        moving = {uid: job for uid, job in moving.items() if uid not in unplaced}
        if not unplaced:
            break
    now.state.swapping = frozenset(moving)
    for uid in moving:
        each = pending.pop(uid)
        yield _begin(each.interval_id, each.decision, now.turn, plan.held[uid])


def _goes_to_the_queue(now: Moment, uid: str) -> bool:
    """Return whether a paused job is resumed although it does not fit, after two intervals: its
    pods wait in the queue of the extender, where others have taken what became free."""
    intervals = now.state.intervals
    return intervals - now.state.resuming.get(uid, intervals) >= 2


def _purpose(now: Moment, decision: Decision, history: JobHistory, *, runs: bool) -> RescalePurpose:
    """Return what the rescale that an interval decided is for."""
    if decision.action is Action.SUSPEND:
        return RescalePurpose.INTERVAL
    if decision.action is Action.RESUME or now.takes_turns:
        return now.turn
    job, profiling = now.cluster.managed[decision.uid].job, now.config.interval.profiling
    progress = now.progress(decision.uid)
    if decision.is_expected:
        # What it gives to others measures nothing that it needs.
        gains = runs and decision.saves_seconds > 0
        measures = gains and may_be_measured(progress, history, profiling)
        return RescalePurpose.PROFILING if measures else RescalePurpose.INTERVAL
    if may_skip_checkpoint(job, history, progress, now.cluster.at, profiling):
        return RescalePurpose.AFTER_PROFILING
    is_first = is_admission(history, progress, profiling)
    return RescalePurpose.ADMISSION if is_first else RescalePurpose.INTERVAL


def _stays(decision: Decision, snapshot: ClusterSnapshot) -> bool:
    """Return whether the job runs as decided, though the plan has it on other nodes."""
    counts = decision.counts
    is_same = decision.current == counts and decision.kind is None
    return is_same and snapshot.bound_counts(decision.uid) == counts


def _is_stale(pending: PendingRescale, job: Job, history: JobHistory) -> bool:
    """Return whether what was decided is not to be done any more."""
    decision = pending.decision
    counts = NO_COUNTS if decision.action is Action.SUSPEND else decision.counts
    is_busy = history.rescaling_to is not None or history.is_ending
    if is_busy or history.awaits_checkpoint or history.held:
        return True
    goal_changed = job.goal != pending.job.goal
    unwanted = why_unwanted(job, counts, goal_changed=goal_changed) is not None
    return job.counts != decision.current or unwanted
