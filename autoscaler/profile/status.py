"""Report: what a job's user reads in its TrainingProfile."""

from autoscaler.job_state import JobState
from autoscaler.profile.codec import pack_rescale
from autoscaler.rescale.machine import Rescale, Step
from optimus.errors import NotReady
from optimus.jobs import ConvergenceThreshold, Goal, TargetLoss
from optimus.kube.contract import Phase
from optimus.kube.profiles import ProfileStatus
from optimus.kube.times import format_instant, format_second
from optimus.models.forecast import Forecast, current_loss
from optimus.progress.types import SpeedSample, TrainingProgress


def status_of(state: JobState, now: float) -> ProfileStatus:
    """What the profile of a managed job shows at ``now``, seconds since the epoch, UTC; without the
    memory in it."""
    progress = state.progress(now)
    forecast = state.forecast if isinstance(state.forecast, Forecast) else None
    target = state.rescaling_to
    record = state.record
    return ProfileStatus(
        phase=phase_of(state, forecast),
        reason=_reason(state),
        interval_id=state.interval_id,
        decided_at=_second(state.decided_at),
        ps=state.job.counts.ps,
        workers=state.job.counts.workers,
        target_ps=target.ps if target else None,
        target_workers=target.workers if target else None,
        loss=_significant(current_loss(progress)),
        goal=goal_text(state.job.goal),
        progress_percent=None if forecast is None else _percent(forecast),
        steps_per_second=_significant(_speed_now(state, progress)),
        remaining_seconds=_remaining_seconds(state, forecast),
        rescales=record.rescales,
        last_rescaled_at=_second(record.last_rescaled_at),
        rescale=None if state.rescale is None else pack_rescale(state.rescale.record),
        checkpoint_step=progress.checkpoint_step,
        checkpointed_at=None
        if progress.checkpoint_at is None
        else format_instant(progress.checkpoint_at),
        trained_seconds=round(progress.trained_seconds, 1),
        complaint=progress.diagnostic or "",
    )


def phase_of(state: JobState, forecast: Forecast | None) -> Phase:
    """Where the job stands."""
    if state.seen.outcome is not None:
        return Phase.COMPLETED if state.seen.outcome == "Succeeded" else Phase.FAILED
    if state.rescale is not None and not _is_about_to_begin(state.rescale):
        return state.rescale.record.phase
    if state.seen.suspended:
        return Phase.SUSPENDED
    if state.run is None:
        return Phase.WAITING
    if forecast is not None and forecast.goal_met:
        return Phase.AT_TARGET
    return Phase.TRAINING if state.record.profiling_since is None else Phase.PROFILING


def _is_about_to_begin(rescale: Rescale) -> bool:
    """Decided, not begun, and with no checkpoint to wait for: the next tick begins it."""
    return rescale.record.step is Step.CHECKPOINT and not rescale.needs_checkpoint


def _reason(state: JobState) -> str:
    if state.seen.outcome is not None:
        return state.seen.message
    if state.rescale is not None:
        record = state.rescale.record
        why = f"{record.change}: {record.why}"
        return f"going back to {record.before} ({why})" if record.rolling_back else why
    if state.seen.suspended:
        # Our mark lies on a job that we suspended; one that its user resumed and suspended again
        # has none.
        is_ours = state.record.suspended_at_target and state.seen.suspended_by is not None
        return "suspended: its goal is met" if is_ours else "suspended by its user"
    if state.run is not None and state.record.profiling_since is not None:
        return f"measures its speed at {state.job.counts}"
    if state.decision is not None:
        return state.decision.reason
    return str(state.forecast) if isinstance(state.forecast, NotReady) else ""


def goal_text(goal: Goal | None) -> str:
    """A goal as users read it."""
    match goal:
        case TargetLoss(loss=loss):
            return f"loss <= {loss:g}"
        case ConvergenceThreshold(fraction=fraction):
            return f"falls < {100 * fraction:g} %"
        case None:
            return ""


def _speed_now(state: JobState, progress: TrainingProgress) -> float | None:
    newest: SpeedSample | None = max(
        (sample for sample in progress.samples if sample.counts == state.job.counts),
        key=lambda sample: sample.at,
        default=None,
    )
    return None if newest is None else newest.steps_per_second


def _remaining_seconds(state: JobState, forecast: Forecast | None) -> int | None:
    if forecast is None:
        return None
    seconds = forecast.at(state.job.counts)
    return round(seconds) if seconds < float("inf") else None


def _percent(forecast: Forecast) -> int:
    """Rounded, but 100 only once the goal is met."""
    return 100 if forecast.goal_met else min(round(100 * forecast.progress_fraction), 99)


def _significant(value: float | None) -> float | None:
    """Four digits: more would be noise, and would change the profile with every look."""
    return None if value is None else float(f"{value:.4g}")


def _second(instant: float | None) -> str | None:
    return None if instant is None else format_second(instant)
