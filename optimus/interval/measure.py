"""End the measurements of speeds that are done, and begin the next ones."""

from collections.abc import Iterator
from functools import partial

from optimus.allocation import JobHistory
from optimus.errors import NotReady
from optimus.interval.capacity_plan import CapacityPlan, reserve
from optimus.interval.classify import why_in_time
from optimus.interval.profiling import (
    Expected,
    MeasuredJobs,
    ProfilingMove,
    is_too_old,
    plan_exploration,
    plan_profiling,
    run_is_over,
    why_not_profiled,
)
from optimus.interval.promises import free_now
from optimus.interval.state import BeginRescale, EndProfilingRun, Moment
from optimus.interval.worth import training_at_risk
from optimus.jobs import Job
from optimus.progress.types import TrainingProgress
from optimus.rescale.purpose import RescalePurpose


def end_runs(now: Moment) -> Iterator[EndProfilingRun]:
    """End the profiling runs that have measured enough, or lasted for too long."""
    config = now.config.interval.profiling
    for uid, history in list(now.histories.items()):
        if history.profiling_since is None or history.rescaling_to is not None:
            continue
        measured = MeasuredJobs({uid: now.progress(uid)}, now.histories)
        reason = run_is_over(now.cluster.managed[uid].job, now.cluster.at, measured, config)
        if reason is not None:
            yield EndProfilingRun(uid, reason)


def begin_runs(now: Moment, run_id: str) -> Iterator[BeginRescale]:
    """Begin the next profiling runs. Of thousands of jobs that are too old nothing but their
    history and trained time is looked at."""
    profiling, histories = now.config.interval.profiling, now.histories
    progress = {
        uid: now.progress(uid)
        for uid, history in histories.items()
        if len(history.profiled) < profiling.runs
    }
    measurable = [
        now.cluster.managed[uid].job
        for uid, each in progress.items()
        if not is_too_old(each, histories[uid], profiling) and histories[uid].rescaling_to is None
    ]
    if not measurable:
        return
    snapshot, measured = now.cluster.snapshot(), MeasuredJobs(progress, histories)
    if all(why_not_profiled(job, snapshot, measured, profiling) is not None for job in measurable):
        return
    free, expected = free_now(now, measures=True), partial(_expected, now)
    for move in plan_profiling(snapshot, measured, free, profiling, expected):
        run = f"{run_id}-{len(histories[move.uid].profiled) + 1}"
        yield from _measure(now, move, free, RescalePurpose.PROFILING, run)


def explore(now: Moment, measured: MeasuredJobs, interval_id: str) -> Iterator[BeginRescale]:
    """Make the exploratory move of an interval, if there is one."""
    free, state = free_now(now, measures=True), now.state
    move = plan_exploration(
        now.cluster.snapshot(),
        measured,
        free,
        now.config.interval,
        partial(_expected, now),
        state.intervals,
    )
    if move is not None and move.uid not in state.pending:
        yield from _measure(now, move, free, RescalePurpose.EXPLORATION, interval_id)


def _expected(
    now: Moment, job: Job, progress: TrainingProgress, history: JobHistory
) -> Expected | NotReady | None:
    """Return what a measurement of a job is weighed by, or why none is made; ``None``: by
    nothing."""
    if not now.config.expects:
        return None
    forecast, config = now.forecast(job, progress), now.config.interval
    if isinstance(forecast, NotReady):
        return forecast
    is_own = job.counts == history.user_counts
    in_time = why_in_time(job, forecast, now.cluster.at) if is_own else None
    if in_time is not None:
        return in_time
    at_risk = training_at_risk(history, progress, now.cluster.at)
    price_seconds = config.price_seconds(history) + at_risk
    lasts_seconds = now.state.loan.mean_seconds
    return Expected(forecast, price_seconds, config.hysteresis_fraction, lasts_seconds)


def _measure(
    now: Moment, move: ProfilingMove, free: CapacityPlan, purpose: RescalePurpose, name: str
) -> Iterator[BeginRescale]:
    managed = now.cluster.managed[move.uid]
    placement = reserve(free, managed.job, move.counts)
    if placement is None:
        return
    now.state.pending.pop(move.uid, None)
    yield BeginRescale(
        uid=move.uid,
        id=purpose.id_of(name),
        purpose=purpose,
        counts=move.counts,
        reason=move.reason,
        placement=placement,
        own_counts=managed.history(now.cluster.at).own_counts or managed.job.counts,
    )
