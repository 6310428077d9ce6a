"""Requests the pods of jobs that have met their goal to end: ``at-target: complete``.

Each pod gets an annotation with the instant, which its containers see as a file where the pod
template has a downward API volume for it. The job then ends by its own means, and the training
operator sets Succeeded. All that is remembered is on the pods.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from autoscaler.jobs.state import TrackedJob
from autoscaler.profile.events import EventRecorder, JobEvent
from optimus.jobs import AtTarget, goal_text
from optimus.kube.contract import Annotation
from optimus.kube.errors import ErrorKind, Malformed
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, Written
from optimus.kube.times import format_second, parse_instant
from optimus.models.forecast import Forecast, goal_is_met

_ANNOTATION: Final = f"the annotation {Annotation.GOAL_MET}"
_MOST_AT_ONCE: Final = 50
"""Maximum number of pods of one job patched in one tick; the others follow in the next."""


class PodAnnotator(Protocol):
    """Writes the annotation; ``optimus.kube.writer.PodWriter`` is one."""

    def set_goal_met(self, pod: Pod, at: str | None) -> Written | Refused:
        """Set it to this instant, or remove it."""


class CompletionRequester:
    """Requests jobs to end, and reports those that do not."""

    def __init__(self, pods: PodAnnotator, events: EventRecorder) -> None:
        self._pods, self._events = pods, events

    def advance(self, state: TrackedJob, pods: Sequence[Pod], now: float) -> None:
        """Bring the annotations of one job's pods up to date."""
        staying = [pod for pod in pods if not pod.leaving and not pod.finished]
        annotated = [pod for pod in staying if pod.goal_met]
        state.completion_requested_at = min((_instant(pod, now) for pod in annotated), default=None)
        if state.rescale is not None or state.training_job.suspended:
            return
        if _is_revoked(state, now):
            self._write(state, annotated, None)
        elif _is_wanted(state) and not state.held and not state.gang.is_ending:
            unannotated = [pod for pod in staying if not pod.goal_met]
            done = self._write(state, unannotated, format_second(now))
            if done and state.completion_requested_at is None:
                state.completion_requested_at = now
                goal = goal_text(state.job.goal)
                message = f"{goal} is met: its pods are notified by {_ANNOTATION}"
                self._events.emit_once(state.training_job, JobEvent("GoalMet", message))
            if state.is_overdue(now):
                message = (
                    f"it was notified {state.limits.completion_seconds:.0f} s ago and has not"
                    " ended; it continues as with at-target: continue. Its script has to end with"
                    f" exit code 0 once the file of {_ANNOTATION} has content"
                )
                self._events.emit_once(state.training_job, JobEvent("NotCompleted", message))

    def _write(self, state: TrackedJob, pods: Sequence[Pod], at: str | None) -> int:
        """Set or remove the annotation of these pods; returns of how many."""
        done = 0
        for pod in pods[:_MOST_AT_ONCE]:
            outcome = self._pods.set_goal_met(pod, at)
            if isinstance(outcome, Refused):
                self._events.refused(outcome)
                if outcome.kind is not ErrorKind.TRANSIENT:
                    message = f"its pods cannot be notified that its goal is met: {outcome}"
                    self._events.emit_once(state.training_job, JobEvent("NotCompleted", message))
                break
            done += 1
        return done


def _is_wanted(state: TrackedJob) -> bool:
    """Return whether the job is to end: its goal is met, and its user wants that."""
    is_met = isinstance(state.forecasts.current, Forecast) and state.forecasts.current.goal_met
    return is_met and state.job.at_target is AtTarget.COMPLETE


def _is_revoked(state: TrackedJob, now: float) -> bool:
    """Return whether it is not to end any more, as its user has changed the goal or more.

    Without a forecast what its log shows says that; before the log is read nothing does."""
    if state.job.at_target is not AtTarget.COMPLETE:
        return True
    forecast = state.forecasts.current
    if isinstance(forecast, Forecast):
        return not forecast.goal_met
    goal, progress = state.job.goal, state.progress(now)
    is_read = progress.step is not None or progress.epoch is not None
    return goal is not None and is_read and not goal_is_met(goal, progress)


def _instant(pod: Pod, now: float) -> float:
    """Return since when a pod has been annotated; a value that is no instant counts from now on."""
    try:
        return min(parse_instant(pod.goal_met), now)
    except Malformed:
        return now
