"""The counts of a job whose profiling runs are over.

Profiling runs move a young job away from the counts that its user wrote. Once it is measured:
1. With a forecast the interval's allocation decides.
2. Without one the job returns to its user's counts, one interval later, after a checkpoint.
3. A job whose log has never shown a checkpoint could not be moved again later. It is moved at once,
   without waiting for a checkpoint: to the allocated counts unless the forecast says that its
   user's are faster, to its user's where there is no forecast.

For the caller: every ``JobHistory`` carries ``forecast_awaited`` as the job's last
``Decision.awaits_forecast`` said (false for a new job) and ``measured_at``; ``plan_interval`` then
decides these counts too, and ``may_skip_checkpoint`` tells how to begin the rescale.
"""

import math
from dataclasses import replace

from optimus.allocation import JobHistory
from optimus.allocation.problem import why_excluded
from optimus.errors import NotReady
from optimus.interval.classify import JobView
from optimus.interval.profiling import (
    Measured,
    ProfilingRules,
    counts_before_profiling,
    no_run_follows,
)
from optimus.interval.types import Action, Decision
from optimus.jobs import Counts, Job, RescaleRule
from optimus.progress.types import TrainingProgress


def decide_after_profiling(view: JobView, decision: Decision, config: ProfilingRules) -> Decision:
    """The decision, or the return to the user's counts in its place.

    ``awaits_forecast`` is set where the job keeps its counts for one more interval, in case its
    forecast becomes ready.
    """
    history, job = view.history, view.job
    decision = replace(decision, awaits_forecast=history.forecast_awaited)
    target = return_counts(job, history)
    if target is None or _must_stay(view, target):
        return decision
    if _has_no_checkpoint(job, view.progress):
        why = _why_for_good(view, decision, target)
    elif _is_profiled_in_vain(view, decision, config):
        if not history.forecast_awaited:
            # One interval more saves a restart where the forecast was just about to be ready.
            return replace(decision, awaits_forecast=True)
        why = f"there is no forecast ({view.forecast})"
    else:
        return decision
    if why is None or target == job.counts:
        return decision
    return replace(
        decision,
        counts=target,
        action=Action.between(job.counts, target),
        reason=f"its speed is measured; {why}: it returns to its user's {target}",
        after_seconds=_seconds(view, target),
    )


def may_skip_checkpoint(
    job: Job, history: JobHistory, progress: TrainingProgress, at: float, config: ProfilingRules
) -> bool:
    """Whether the job may leave its last profiling run without a checkpoint.

    Its log shows none, and no more is lost than a profiling run may lose."""
    moved_at = history.measured_at
    is_short = moved_at is not None and at - moved_at < config.trained_limit_seconds
    return (
        is_short and return_counts(job, history) is not None and _has_no_checkpoint(job, progress)
    )


def return_counts(job: Job, history: JobHistory) -> Counts | None:
    """The user's counts of a job that a profiling run has moved, within its present bounds.

    ``None`` for a job that is where its user or an interval's decision has put it."""
    return counts_before_profiling(job, history.own_counts, history.profiled)


def _must_stay(view: JobView, target: Counts) -> bool:
    """Whether the job cannot be moved now, or was just moved to these counts in vain."""
    history = view.history
    if history.rescaling_to is not None or history.profiling_since is not None:
        return True
    excluded = why_excluded(history.placement_failures, target) is not None
    failed = excluded and view.why_backing_off is not None
    return failed or history.awaits_checkpoint


def _is_profiled_in_vain(view: JobView, decision: Decision, config: ProfilingRules) -> bool:
    """Whether all runs are made, and yet there is no forecast and nothing else moves the job."""
    measured = Measured({view.job.uid: view.progress}, {view.job.uid: view.history})
    unforecast = isinstance(view.forecast, NotReady) and decision.action is Action.KEEP
    return unforecast and no_run_follows(view.job, measured, config)


def _why_for_good(view: JobView, decision: Decision, target: Counts) -> str | None:
    """Why a job without checkpoints returns: where it is or goes now it stays for good."""
    if decision.action is Action.SUSPEND or not view.job.bounds.allow(view.job.counts):
        return None
    if isinstance(view.forecast, NotReady):
        if decision.action is not Action.KEEP:
            return None
        return f"there is no forecast, and its log shows no checkpoint ({view.forecast})"
    seconds = view.forecast.at
    if seconds(decision.counts) <= seconds(target) or not math.isfinite(seconds(target)):
        return None
    return f"its log shows no checkpoint after which it could leave {decision.counts} again"


def _seconds(view: JobView, counts: Counts) -> float | None:
    return None if isinstance(view.forecast, NotReady) else view.forecast.at(counts)


def _has_no_checkpoint(job: Job, progress: TrainingProgress) -> bool:
    return job.rescale is RescaleRule.CHECKPOINT and progress.checkpoint_at is None
