"""Updates a job's record when a rescale has ended."""

from dataclasses import replace

from optimus.allocation.problem import MOST_MOVES, is_forced
from optimus.jobs import NO_COUNTS
from optimus.lifecycle import JobRecord
from optimus.rescale.purpose import RescalePurpose
from optimus.rescale.words import End, Outcome, PauseReason, Step


def rescale_ended(record: JobRecord, end: End, at: float) -> JobRecord:
    """The record of a job after a rescale has ended at the instant ``at``."""
    rescale, happened = end.record, end.happened
    purpose, is_reached = rescale.purpose, end.outcome is Outcome.REACHED
    replaces, is_profiling = (
        purpose is RescalePurpose.STRAGGLER,
        purpose is RescalePurpose.PROFILING,
    )
    is_own = purpose.is_chosen and (replaces or not is_forced(rescale.before, rescale.target))
    counts = happened and _is_counted(end)
    settles = is_reached and not purpose.measures and not replaces
    is_turn = happened and purpose is RescalePurpose.TURN and not rescale.resumes
    price, redone_seconds = end.price_seconds, end.redone_seconds
    stopped_seconds = None if price is None else max(price - redone_seconds, 0.0)
    return replace(
        record,
        rescales=record.rescales + (counts or (happened and is_profiling)),
        last_rescaled_at=at if counts else record.last_rescaled_at,
        prices=_with_last(record.prices, stopped_seconds),
        starts=_with_last(record.starts, end.start_seconds),
        moves=_latest(record.moves, at, happened and is_own),
        profiling_since=at if is_profiling and is_reached else None,
        measured_at=at if is_profiling and happened else record.measured_at,
        own_counts=None if settles else record.own_counts,
        checkpoint_missed=record.checkpoint_missed and not happened,
        suspended_at_target=record.suspended_at_target or _was_suspended_at_target(end),
        replacements=_latest(record.replacements, at, happened and replaces),
        # A cached copy may still show the counts before.
        rescaled_counts=(rescale.before, rescale.target),
        turns=_latest(record.turns, at, is_turn),
        pauses=record.pauses + (end.outcome is Outcome.PAUSED),
        stopped_seconds=record.stopped_seconds + (stopped_seconds or 0.0),
        redone_seconds=record.redone_seconds + min(redone_seconds, price or 0.0),
    )


def _is_counted(end: End) -> bool:
    """Return whether it counts against the rate of the job's rescales: profiling runs have a limit
    of their own, and of a recovery nobody knows what was before it."""
    record = end.record
    if record.purpose in {RescalePurpose.PROFILING, RescalePurpose.RECOVERY}:
        return False
    is_paused = record.pause is not None and not record.pause.is_final
    return not (is_paused and record.target in (NO_COUNTS, record.before))


def _was_suspended_at_target(end: End) -> bool:
    """Return whether the job was suspended at its goal: also where its user resumed it at once."""
    if end.record.pause is not PauseReason.GOAL or end.record.resumes:
        return False
    by_user = end.outcome is Outcome.USER and end.record.step in (Step.EMPTY, Step.YIELD)
    return by_user or end.outcome is Outcome.PAUSED


def _with_last(measured: tuple[float, ...], seconds: float | None) -> tuple[float, ...]:
    return measured if seconds is None else (*measured, seconds)[-9:]


def _latest(instants: tuple[float, ...], at: float, is_one: bool) -> tuple[float, ...]:
    return (*instants, at)[-MOST_MOVES:] if is_one else instants
