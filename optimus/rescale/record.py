"""What a rescale that has ended leaves in its job's record."""

from optimus.jobs import NO_COUNTS
from optimus.lifecycle import EndedRescale
from optimus.rescale.purpose import RescalePurpose
from optimus.rescale.words import End, Outcome, PauseReason, Step

_HAPPENED = (Outcome.REACHED, Outcome.ROLLED_BACK, Outcome.PAUSED)


def ended_rescale(end: End, at: float) -> EndedRescale:
    """The rescale as the record of its job sees it."""
    record = end.record
    purpose = record.purpose
    is_turn = record.pause is not None and not record.pause.is_final
    is_profiling = purpose is RescalePurpose.PROFILING
    return EndedRescale(
        at=at,
        before=record.before,
        target=record.target,
        happened=end.outcome in _HAPPENED,
        reached=end.outcome is Outcome.REACHED,
        # Profiling runs have a limit of their own; of a recovery nobody knows what was before it.
        is_counted=not (is_profiling or purpose is RescalePurpose.RECOVERY)
        and not (is_turn and record.target in (NO_COUNTS, record.before)),
        is_profiling=is_profiling,
        measures=purpose.measures,
        is_chosen=purpose.is_chosen,
        replaces=purpose is RescalePurpose.STRAGGLER,
        is_pause=end.outcome is Outcome.PAUSED,
        is_turn=purpose is RescalePurpose.TURN and not record.resumes,
        suspended_at_target=_was_suspended_at_target(end),
        price_seconds=end.price_seconds,
        redone_seconds=end.redone_seconds,
        start_seconds=end.start_seconds,
    )


def _was_suspended_at_target(end: End) -> bool:
    """Return whether the job was suspended at its goal: also where its user resumed it at once."""
    if end.record.pause is not PauseReason.GOAL or end.record.resumes:
        return False
    by_user = end.outcome is Outcome.USER and end.record.step in (Step.EMPTY, Step.YIELD)
    return by_user or end.outcome is Outcome.PAUSED
