"""Where a job stays once its speed is measured.

Profiling runs move a young job away from the counts that its user wrote, at the cost of a bounded
piece of training.
1. With a forecast the next interval decides the job's counts. 2. Without one it goes back to its
  user's, an interval
later and after a checkpoint. 3. A job whose log has never shown a checkpoint could not be moved any
more: it goes one of these two ways at once and without waiting, and where the forecast says only if
that is no slower than its user's."""

import math
from collections.abc import Collection
from dataclasses import replace

from autoscaler.job_state import JobState
from optimus.allocation.placement_failures import why_barred, why_resting
from optimus.interval import Action, Decision, profiling
from optimus.interval.plan import action_between
from optimus.interval.profiling import Measured, ProfilingRules, no_run_follows
from optimus.jobs import Counts, RescaleRule
from optimus.models.forecast import Forecast


class AfterProfiling:
    """Brings jobs that were measured to where they stay."""

    def __init__(self, rules: ProfilingRules) -> None:
        self._rules = rules
        self._unforecast: set[str] = set()

    def settle(self, state: JobState, decision: Decision, at: float) -> Decision:
        """The interval's decision on a job, or the way home in its place."""
        home = home_of(state)
        if home is None or state.rescale is not None or state.record.profiling_since is not None:
            return decision
        setbacks = state.record.setbacks
        failed = why_barred(setbacks, home) is not None and why_resting(setbacks, at) is not None
        if failed or state.awaits_checkpoint(at):
            return decision
        why = (
            _why_last_move(state, decision, home)
            if _is_mute(state, at)
            else self._why(state, decision, at)
        )
        if why is None or home == state.job.counts:
            return decision
        reason = f"its speed is measured; {why}: it goes back to its user's {home}"
        return replace(
            decision, counts=home, action=action_between(state.job.counts, home), reason=reason
        )

    def keep(self, uids: Collection[str]) -> None:
        """Forget all jobs but these."""
        self._unforecast.intersection_update(uids)

    def may_lose(self, state: JobState, target: Counts, at: float) -> bool:
        """Whether the job may be restarted without a checkpoint, as its run is as short as what
        profiling may lose."""
        moved_at = state.record.measured_at
        is_short = moved_at is not None and at - moved_at < self._rules.trained_limit_seconds
        return is_short and home_of(state) is not None and sum(target) > 0 and _is_mute(state, at)

    def _why(self, state: JobState, decision: Decision, at: float) -> str | None:
        """It is given one interval more: a restart less where the forecast was just about to be
        ready."""
        measured = Measured({decision.uid: state.progress(at)}, {decision.uid: state.history(at)})
        if decision.action is not Action.KEEP or isinstance(state.forecast, Forecast):
            return None
        if not no_run_follows(state.job, measured, self._rules):
            return None
        if state.job.uid not in self._unforecast:
            self._unforecast.add(state.job.uid)
            return None
        return f"there is no forecast ({state.forecast})"


def _why_last_move(state: JobState, decision: Decision, home: Counts) -> str | None:
    """Where it is or goes now it stays, for want of a checkpoint after which it could be moved
    again."""
    if decision.action is Action.SUSPEND or not state.job.bounds.allow(state.job.counts):
        return None
    if not isinstance(state.forecast, Forecast):
        moves = decision.action is not Action.KEEP
        return (
            None
            if moves
            else f"there is no forecast, and its log shows no checkpoint ({state.forecast})"
        )
    seconds = state.forecast.at
    if seconds(decision.counts) <= seconds(home) or not math.isfinite(seconds(home)):
        return None
    return f"its log shows no checkpoint after which it could leave {decision.counts} again"


def home_of(state: JobState) -> Counts | None:
    """The counts that its user wants of a job that was moved to be measured, if it still is where
    that has put it."""
    return profiling.home_of(state.job, state.record.own_counts, state.record.profiled)


def _is_mute(state: JobState, at: float) -> bool:
    return state.job.rescale is RescaleRule.CHECKPOINT and state.progress(at).checkpoint_at is None
