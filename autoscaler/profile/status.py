"""Makes what a job's profile shows: its phase, its conditions and the reason of its decision."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from math import inf, isfinite
from operator import attrgetter, is_
from typing import Final, NamedTuple

from autoscaler.jobs.forecasts import Forecasts
from autoscaler.jobs.gang import JobPods
from autoscaler.jobs.state import BlockReason, TrackedJob
from autoscaler.jobs.stored import Shown
from optimus import lifecycle
from optimus.errors import NotReady
from optimus.interval.classify import Decision, why_suspended
from optimus.jobs import LossGoal, TargetMetric, counted, goal_text
from optimus.kube.contract import Phase
from optimus.kube.profile_codec import PHASES, pack_rescale
from optimus.kube.profiles import (
    AvoidedNode,
    BooksStatus,
    Condition,
    ConditionType,
    NodeKind,
    ProfileStatus,
    RecommendationStatus,
    Truth,
)
from optimus.kube.times import format_instant, format_second
from optimus.models.convergence import LossCurve
from optimus.models.forecast import Forecast, current_loss, current_value, goal_is_met
from optimus.progress.types import TrainingProgress
from optimus.rescale.machine import Rescale
from optimus.rescale.words import PauseReason, Step
from optimus.times import duration


def status_of(state: TrackedJob, now: float) -> ProfileStatus:
    """Return what the profile of a managed job shows at ``now``, without the saved state.

    The same object as before where nothing has changed: it is asked for at every tick."""
    progress = state.progress(now)
    inputs, known = _status_inputs(state, progress), state.profile.shown
    if known is not None and now < known.until and all(map(is_, inputs, known.inputs)):
        return known.status
    turn_at = None if state.decision is None else state.decision.turn_at
    ends = [*(each.until for each in state.record.avoided), -inf if turn_at is None else turn_at]
    until = min((each for each in ends if each > now), default=inf)
    state.profile.shown = Shown(_status_of(state, progress, now), inputs, until)
    return state.profile.shown.status


_NOT_SHOWN: Final = {
    TrackedJob: {
        "log": "its progress is looked at",
        "rescale": "its record is looked at; the rest changes from tick to tick",
        "profile": "what is stored, and what is made",
        "gang": "a part",
        "forecasts": "a part",
        "most_memory": "for later runs",
    },
    JobPods: {
        "seen": "what it has seen",
        "run": "only whether there is one",
        "here": "only whether it is placed",
        "uids": "only whether it is placed",
    },
    Forecasts: {"with_earlier": "its progress is looked at"},
}
"""Fields of a job's state that no status is made of, and why. All others count as such."""

_shown_fields: Final = attrgetter(
    *(
        part + each.name
        for part, of in (("", TrackedJob), ("gang.", JobPods), ("forecasts.", Forecasts))
        for each in fields(of)
        if each.name not in _NOT_SHOWN[of]
    )
)


def _status_inputs(state: TrackedJob, progress: TrainingProgress) -> tuple[object, ...]:
    """All that a status is made of. Each value is immutable."""
    rescale = state.rescale
    moving = (None, False) if rescale is None else (rescale.record, rescale.needs_checkpoint)
    return progress, state.gang.run is None, *moving, *_shown_fields(state)


def _status_of(state: TrackedJob, progress: TrainingProgress, now: float) -> ProfileStatus:
    forecast = state.shown_forecast
    target, record = state.rescaling_to, state.record
    saved_at, phase, goal = progress.checkpoint_at, phase_of(state), goal_text(state.job.goal)
    before = state.profile.status if state.profile.shown is None else state.profile.shown.status
    known = before.conditions if before else ()
    conditions = _conditions_of(state, progress, phase, known, now)
    # What was saved ends where the goal is met, whatever the job does from then on.
    was_met = any(
        each.type is ConditionType.GOAL_MET and each.status is Truth.TRUE and each in known
        for each in conditions
    )
    return ProfileStatus(
        phase=phase,
        conditions=conditions,
        reason=_reason(state, now),
        interval_id=state.interval_id,
        decided_at=_second(state.decided_at),
        ps=state.job.counts.ps,
        workers=state.job.counts.workers,
        target_ps=target.ps if target else None,
        target_workers=target.workers if target else None,
        loss=_significant(current_loss(progress)),
        goal=goal,
        metric=_metric_text(state, progress),
        deadline=deadline_text(state),
        declared_end=declared_end(state),
        progress_percent=None if forecast is None else _percent(forecast),
        steps_per_second=_significant(_present_speed(state, progress)),
        remaining_seconds=_remaining_seconds(state, forecast),
        rescales=record.rescales,
        books=before.books if before and was_met else _books(state),
        last_rescaled_at=_second(record.last_rescaled_at),
        rescale=None if state.rescale is None else pack_rescale(state.rescale.record),
        checkpoint_step=progress.checkpoint_step,
        checkpointed_at=None if saved_at is None else format_instant(saved_at),
        trained_seconds=round(progress.trained_seconds, 1),
        complaint=progress.diagnostic or "",
        failed_counts=tuple(str(each) for each in record.failed_counts),
        earlier_runs=0 if forecast is None else forecast.earlier_runs,
        recommended=_recommended(state),
        saves_on_stop=lifecycle.saving_text(record, state.job.saves_on_stop, format_second),
        straggler=state.blocks.text(BlockReason.STRAGGLER),
        avoided_nodes=tuple(
            AvoidedNode(each.node, format_second(each.until))
            for each in record.avoided
            if each.until > now
        ),
        node_kind=None if record.binding is None else NodeKind(*record.binding),
    )


# Conditions, by the conventions of the Kubernetes API. Placed: all pods of the job have nodes.
# Progressing: it trains. Forecast: its remaining time is predicted. GoalMet: its goal is met.
# MemoryPressure: the memory of one of its pods is near its limit, or grows towards it.
# lastTransitionTime is when the status became what it is; a new reason leaves it as it was.
_TRAINS: Final = frozenset(
    {Phase.TRAINING, Phase.PROFILING, Phase.AT_TARGET, Phase.WAITING_FOR_CHECKPOINT}
)
_ENDED: Final = frozenset({Phase.COMPLETED, Phase.FAILED})


class _Finding(NamedTuple):
    """A condition as it should be now."""

    status: Truth
    reason: str
    message: str


def _conditions_of(
    state: TrackedJob,
    progress: TrainingProgress,
    phase: Phase,
    before: Sequence[Condition],
    now: float,
) -> tuple[Condition, ...]:
    """The conditions of a managed job.

    ``before`` are those that its profile shows: what is not known yet after a restart stays."""
    known, goal = {each.type: each for each in before}, goal_text(state.job.goal)
    found = {
        ConditionType.FORECAST: _forecast(state, known.get(ConditionType.FORECAST)),
        ConditionType.PLACED: _placed(state, phase),
        ConditionType.PROGRESSING: _progressing(state, phase),
        ConditionType.GOAL_MET: _goal_met(state, progress, goal, known.get(ConditionType.GOAL_MET)),
    }
    memory = _memory(state, phase, known.get(ConditionType.MEMORY_PRESSURE))
    if memory is not None:
        found[ConditionType.MEMORY_PRESSURE] = memory
    return tuple(_merged(found, known, now))


def unmanaged_conditions(
    why: str, before: Sequence[Condition], now: float
) -> tuple[Condition, ...]:
    """The conditions of a job that is left alone: nothing is known of it."""
    known = {each.type: each for each in before}
    found = _Finding(Truth.UNKNOWN, Phase.LEFT_ALONE.value, why)
    return tuple(_merged(dict.fromkeys(ConditionType, found), known, now))


def _merged(
    found: dict[ConditionType, _Finding], known: dict[ConditionType, Condition], now: float
) -> Iterator[Condition]:
    for name, (status, reason, message) in found.items():
        before = known.get(name)
        same = before is not None and before.status is status
        since = before.last_transition_time if before and same else format_second(now)
        yield Condition(name, status, reason, message, since)


def _forecast(state: TrackedJob, before: Condition | None) -> _Finding:
    forecast = state.shown_forecast
    if forecast is not None:
        if forecast.goal_met:
            return _Finding(Truth.TRUE, "GoalMet", "nothing remains: its goal is met")
        if forecast.unlikely:
            message = f"{forecast.unlikely}; remainingSeconds is the time to its declared end"
            return _Finding(Truth.TRUE, "GoalUnlikely", message)
        is_earlier = forecast.curve is None and forecast.earlier_runs > 0
        reason = "FromEarlierRuns" if is_earlier else "FromTraining"
        return _Finding(Truth.TRUE, reason, "its remaining time is predicted: remainingSeconds")
    if isinstance(state.forecasts.current, NotReady):
        return _Finding(Truth.FALSE, "NotReady", str(state.forecasts.current))
    return _kept(before) or _Finding(
        Truth.UNKNOWN, "NotDecided", "no interval has decided on it yet"
    )


def _placed(state: TrackedJob, phase: Phase) -> _Finding:
    if state.gang.is_placed and phase not in _ENDED:
        return _Finding(Truth.TRUE, "AllPodsPlaced", "all its pods have nodes")
    if phase is Phase.WAITING:
        return _Finding(
            Truth.FALSE,
            phase.value,
            state.blocks.text(BlockReason.NO_NODES) or "not all its pods have nodes",
        )
    return _Finding(Truth.FALSE, phase.value, "not all pods of its present counts have nodes")


def _progressing(state: TrackedJob, phase: Phase) -> _Finding:
    if phase is Phase.FAILING:
        return _Finding(Truth.FALSE, phase.value, str(state.failure))
    if phase in _TRAINS:
        return _Finding(Truth.TRUE, phase.value, "its pods train")
    return _Finding(Truth.FALSE, phase.value, "its pods do not train in this phase")


def _goal_met(
    state: TrackedJob, progress: TrainingProgress, goal: str, before: Condition | None
) -> _Finding:
    met, unmet = f"{goal} is met", f"{goal} is not met yet"
    missed = f"{goal} was not met when the job ended"
    has_trained = progress.epoch is not None or progress.step is not None
    if state.training_job.outcome is not None and has_trained and state.job.goal is not None:
        # No interval follows that would see the end of its log.
        was_met = before is not None and before.message == met
        if was_met or goal_is_met(state.job.goal, progress):
            return _Finding(Truth.TRUE, "GoalMet", met)
        return _Finding(Truth.FALSE, "NotMet", missed)
    if isinstance(state.forecasts.current, Forecast):
        if state.forecasts.current.goal_met:
            return _Finding(Truth.TRUE, "GoalMet", met)
        return _Finding(Truth.FALSE, "NotMet", unmet)
    if before is not None and before.message in (met, unmet, missed):
        return _Finding(before.status, before.reason, before.message)
    return _Finding(Truth.FALSE, "NotMet", unmet)


def _memory(state: TrackedJob, phase: Phase, before: Condition | None) -> _Finding | None:
    """``None`` where nothing is known of its memory."""
    if state.memory and phase not in _ENDED:
        return _Finding(Truth.TRUE, "NearLimit", state.memory)
    if state.memory is None and phase not in _ENDED:
        return _kept(before)
    return _Finding(Truth.FALSE, "FarFromLimit", "none of its pods is near its memory limit")


def _kept(before: Condition | None) -> _Finding | None:
    if before is None or before.reason == Phase.LEFT_ALONE.value:
        return None
    return _Finding(before.status, before.reason, before.message)


def _metric_text(state: TrackedJob, progress: TrainingProgress) -> str:
    """The metric that the goal is about, by the log's own name for it, and its newest value."""
    found = current_value(state.job.goal, progress)
    return "" if found is None else f"{found[0]} {found[1]:.4g}"


def urgent(status: ProfileStatus) -> tuple[object, ...]:
    """Return what a user should see at once; the rest can wait for a regular write."""
    decided = (status.phase, status.reason, status.interval_id, status.complaint, status.goal)
    recommended = status.recommended and (status.recommended.ps, status.recommended.workers)
    counts = (status.ps, status.workers, status.target_ps, status.target_workers, recommended)
    slow = status.straggler, status.avoided_nodes, status.node_kind
    met = [each.status for each in status.conditions if each.type is ConditionType.GOAL_MET]
    return *decided, *counts, status.rescale, status.rescales, *slow, *met


def phase_of(state: TrackedJob) -> Phase:
    """The phase that the job's profile shows."""
    if state.training_job.outcome is not None:
        return Phase.COMPLETED if state.training_job.outcome == "Succeeded" else Phase.FAILED
    if state.rescale is not None and not _is_about_to_begin(state.rescale):
        return PHASES[state.rescale.record.step]
    if state.training_job.suspended:
        pause = state.pause
        if pause is None or pause.is_final:
            return Phase.SUSPENDED
        is_turn = pause is PauseReason.POLICY and bool(state.record.turns)
        return Phase.WAITING_FOR_ITS_TURN if is_turn else Phase.PAUSED
    if state.failure is not None:
        return Phase.FAILING
    if state.gang.run is None:
        return Phase.WAITING
    if isinstance(state.forecasts.current, Forecast) and state.forecasts.current.goal_met:
        return Phase.AT_TARGET
    return Phase.TRAINING if state.record.profiling_since is None else Phase.PROFILING


_PAUSED: Final = {
    PauseReason.GOAL: "suspended: its goal is met",
    PauseReason.POLICY: "paused by the policy until it is its turn",
}


def _is_about_to_begin(rescale: Rescale) -> bool:
    """Decided, not begun, and with no checkpoint to wait for: the next tick begins it."""
    return rescale.record.step is Step.CHECKPOINT and not rescale.needs_checkpoint


def _reason(state: TrackedJob, now: float) -> str:
    """Return why it stands where it does. What its pods' status knows comes first."""
    failure, reason = state.failure, _decided_reason(state, now)
    if failure is None:
        return reason
    if phase_of(state) is Phase.FAILING:
        return str(failure)
    is_over = state.training_job.outcome is not None
    return f"{reason}; {failure}" if is_over else f"{failure}; {reason}"


def _decided_reason(state: TrackedJob, now: float) -> str:
    if state.training_job.outcome is not None:
        return state.training_job.message
    if state.rescale is not None:
        record = state.rescale.record
        why = f"{record.change}: {record.why}"
        return f"returning to {record.before} ({why})" if record.rolling_back else why
    if state.training_job.suspended:
        return _why_suspended(state, now)
    waits = state.blocks.text(BlockReason.NO_NODES)
    if waits:
        return waits
    if state.gang.run is not None and state.record.profiling_since is not None:
        return f"measuring its speed at {state.job.counts}"
    if state.decision is not None:
        if state.decision.recommended is not None:
            return str(state.decision.recommended)
        held = next((str(each) for each in state.blocks if each.holds), "")
        return held or f"{state.decision.reason}{_prospects(state)}"
    return str(state.forecasts.current) if isinstance(state.forecasts.current, NotReady) else ""


def _why_suspended(state: TrackedJob, now: float) -> str:
    pause, decision = state.pause, state.decision
    if pause is None or pause is PauseReason.GANG:
        return why_suspended(state.job)
    if pause is not PauseReason.POLICY or decision is None or not decision.reason:
        return _PAUSED[pause]
    return "; ".join([f"{_PAUSED[pause]}: {decision.reason}", *_turn_texts(state, decision, now)])


def _turn_texts(state: TrackedJob, decision: Decision, now: float) -> Iterator[str]:
    """Return what a job has received of its share of the time, and when its next turn is expected,
    unless that has passed."""
    record = state.record
    if decision.time_share <= 0:
        return
    by_kind = sorted((kind, seconds) for kind, seconds in record.received.items() if kind)
    kinds = ", ".join(f"{kind} {duration(seconds)}" for kind, seconds in by_kind)
    received = duration(record.received_seconds)
    yield f"its share is {decision.time_share:.0%}, it has run for {received}" + (
        f" ({kinds})" if kinds else ""
    )
    if decision.turn_at is not None and decision.turn_at > now:
        yield f"its turn is expected at {format_second(decision.turn_at)}"


def _prospects(state: TrackedJob) -> str:
    """Return what the reason of a decision adds of the job's goal and deadline."""
    forecast = state.shown_forecast
    unlikely = "" if forecast is None or not forecast.unlikely else f"; {forecast.unlikely}"
    return f"{unlikely}{_lateness(state)}{_basis(state)}"


def _lateness(state: TrackedJob) -> str:
    """Return what the reason of a decision adds where the deadline is not met."""
    found = None if state.decision is None else state.decision.deadline
    if found is None or not found.is_at_risk:
        return ""
    return "; its deadline is at risk" if found.possible else "; no counts meet its deadline"


def deadline_text(state: TrackedJob) -> str:
    """The deadline, and whether it is met by the last decision; empty without one."""
    if state.job.finish_by is None:
        return ""
    by = format_second(state.job.finish_by)
    found = None if state.decision is None else state.decision.deadline
    if found is None or found.finish_by != state.job.finish_by or state.decided_at is None:
        return by
    if found.seconds <= 0:
        return f"{by}: it has passed"
    if not isfinite(found.late_seconds):
        forecast = state.forecasts.current
        until = forecast.time_to_goal if isinstance(forecast, Forecast) else None
        chance = "less than 90 %" if until is None else f"{until.in_run:.0%}"
        return f"{by}: at risk: its goal is met before its run ends with a probability of {chance}"
    late = f"{found.late_seconds:.0f} s with a probability of 90 %"
    left = f"{found.seconds:.0f} s are left"
    if found.fastest is None:
        return f"{by}: met at {found.counts}, which need at most {late}; {left}"
    if not found.is_at_risk:
        return f"{by}: {found.counts} need up to {late}, and {left}; its counts are to be decided"
    if found.possible:
        return (
            f"{by}: at risk: {found.counts} need up to {late}, and {left}; {found.fastest} would "
            "meet it if they could be had"
        )
    needed = found.fastest_seconds
    return f"{by}: no counts meet it: {found.fastest} would need {needed:.0f} s, and {left}"


def declared_end(state: TrackedJob) -> str:
    """The declared end of a run, and what it means for a goal in one value; else empty."""
    forecast = state.shown_forecast
    if forecast is None or not isinstance(forecast.curve, LossCurve):
        return ""
    schedule = forecast.curve.schedule
    if schedule is None:
        return ""
    if forecast.time_to_goal is None or not isinstance(state.job.goal, LossGoal | TargetMetric):
        return ""
    end, unit = schedule.end, "epochs" if forecast.curve.in_epochs else "steps"
    if forecast.unlikely:
        return f"after {counted(end, unit)}; {forecast.unlikely}"
    met = forecast.time_to_goal.in_run
    return f"after {counted(end, unit)}; its goal is met by then with a probability of {met:.0%}"


def _basis(state: TrackedJob) -> str:
    """Return what a forecast rests on, where it is not the job's own losses."""
    forecast = state.forecasts.current
    if not isinstance(forecast, Forecast) or forecast.goal_met or forecast.curve is not None:
        return ""
    runs = forecast.earlier_runs
    return f"; forecast from {runs} earlier run{'s' if runs != 1 else ''}" if runs else ""


def _recommended(state: TrackedJob) -> RecommendationStatus | None:
    found = None if state.decision is None else state.decision.recommended
    if found is None:
        return None
    seconds = (found.seconds_now, found.seconds_then)
    now, then = (round(each) if each is not None and isfinite(each) else None for each in seconds)
    return RecommendationStatus(
        found.counts.ps, found.counts.workers, found.action.value, now, then
    )


def _books(state: TrackedJob) -> BooksStatus | None:
    """Return what moving it has saved; ``None`` where it was never moved, or nothing is known."""
    books = state.books()
    if books is None:
        return None
    return BooksStatus(
        text=books.text(),
        saved_seconds=round(books.saved_seconds),
        saved_fraction=round(books.saved_fraction, 3),
        stopped_seconds=round(books.stopped_seconds),
        redone_seconds=round(books.redone_seconds),
    )


def _present_speed(state: TrackedJob, progress: TrainingProgress) -> float | None:
    if progress.units_per_epoch is not None:
        return None  # its log counts no steps
    here = [sample for sample in progress.samples if sample.counts == state.job.counts]
    return max(here, key=lambda sample: sample.at).steps_per_second if here else None


def _remaining_seconds(state: TrackedJob, forecast: Forecast | None) -> int | None:
    if forecast is None:
        return None
    seconds = forecast.at(state.job.counts)
    return round(seconds) if seconds < float("inf") else None


def _percent(forecast: Forecast) -> int:
    """Rounded, but 100 only once the goal is met."""
    return 100 if forecast.goal_met else min(round(100 * forecast.progress_fraction), 99)


def _significant(value: float | None) -> float | None:
    """Four digits: more would be noise, and would change the profile at every tick."""
    return None if value is None else float(f"{value:.4g}")


def _second(instant: float | None) -> str | None:
    return None if instant is None else format_second(instant)
