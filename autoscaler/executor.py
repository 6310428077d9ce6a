"""Carries the instructions of rescales out at the API server, and reports what came of them.

Nothing is remembered here: an answer that is lost is found by the next observation.
"""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple, Protocol

from autoscaler.cluster import Observation
from autoscaler.jobs.state import TrackedJob
from autoscaler.logs.poller import JobRun
from autoscaler.profile.events import EventRecorder, JobEvent, rescale_event
from autoscaler.profile.writer import ProfileRecorder
from optimus.jobs import Counts, JobKey
from optimus.kube.errors import ErrorKind
from optimus.kube.pods import Pod, other_gang
from optimus.kube.profile_codec import observed_job, observed_pods
from optimus.kube.results import Refused, Written
from optimus.kube.training_jobs import TrainingJob
from optimus.kube.writer import MAX_RESTARTS
from optimus.progress.log import ProgressLog
from optimus.rescale.execution import run_rescale
from optimus.rescale.machine import RescaleConfig
from optimus.rescale.purpose import RescalePurpose
from optimus.rescale.words import (
    CountsFailed,
    CountsFound,
    End,
    JobGone,
    Notify,
    Observed,
    ObservedPods,
    Outcome,
    Patch,
    PatchAnswered,
    PatchResult,
    PauseReason,
    PlacementFailed,
    ProfileWritten,
    RescaleRecord,
    ResizeAndResume,
    Step,
    Suspend,
    Unmark,
    UserIntent,
)

_LOG = logging.getLogger(__name__)


class Reader(Protocol):
    """Uncached reads; ``optimus.kube.live_reader.LiveReader`` is one."""

    def job(self, kind: str, key: JobKey) -> TrainingJob | Refused:
        """The job as it is stored now."""

    def pods_of(self, job: TrainingJob) -> tuple[Pod, ...] | Refused:
        """Every pod of the job that is there now."""


class Writer(Protocol):
    """The writes to jobs; ``optimus.kube.writer.JobWriter`` is one."""

    def suspend(
        self,
        job: TrainingJob,
        interval_id: str,
        limits: Mapping[str, int],
        pause: PauseReason | None = None,
    ) -> Written | Refused:
        """Suspend the job, annotate it as suspended by us and set what is left of its limits;
        ``pause``: why it is paused, where it is not to be resumed at once."""

    def resize_and_resume(self, job: TrainingJob, counts: Counts) -> Written | Refused:
        """Set the counts, resume, remove the annotation."""

    def unmark(self, job: TrainingJob) -> Written | Refused:
        """Remove the annotation."""


_LATE_INTERVALS: Final = 1.5
"""A checkpoint may have been made right after the read before, and is acted on at the next tick."""

_PLACED_SECONDS: Final = 60.0
"""Beyond its own start time, how long a job's pods may take to be placed. Capacity is reserved for
them: only where that was lost, or kube-scheduler is away, they are not placed at once."""

_MOST_LATE: Final = 4
"""Times the usual time for which a checkpoint counts as fresh."""


class LastReads(Protocol):
    """Reads what pods printed last; ``autoscaler.logs.poller.LogPoller`` does."""

    def read_now(self, log: ProgressLog, run: JobRun) -> bool:
        """Return whether the run's last lines are in; if not, call again at the next tick."""


CountsFn = Callable[[TrackedJob, Counts, float], CountsFound]
"""Finds the most PSs and workers for one job, of each role at most these, that fit beside what is
kept for others, and whether the target of its rescale does; the last argument is now."""


class RescaleAccess(NamedTuple):
    """The parts that rescales are carried out with."""

    reader: Reader
    writer: Writer
    recorder: ProfileRecorder
    events: EventRecorder
    last_reads: LastReads


class Rescales:
    """Advances the rescales in progress."""

    def __init__(self, access: RescaleAccess, config: RescaleConfig) -> None:
        self._access, self._config = access, config
        self._broken_at = -math.inf  # when a read failed last

    def advance(
        self, state: TrackedJob, observation: Observation, find: CountsFn, at: float
    ) -> None:
        """Take one job's rescale as far as it goes now."""
        since, config = state.progress(at).checkpoint_since, self._config_of(state, at)
        executor = self.executor(state, observation, find, at)
        run_rescale(executor, state, -math.inf if since is None else since, at, config)
        if executor.is_broken:
            self._broken_at = at

    def executor(
        self, state: TrackedJob, observation: Observation, find: CountsFn, at: float
    ) -> "JobExecutor":
        """Return what carries out one job's rescale in this tick."""
        return JobExecutor(
            self._access,
            state,
            at,
            observation.pods.get(state.job.uid, ()),
            find,
            since_break_seconds=min(observation.since_break_seconds, at - self._broken_at),
            fresh_seconds=self._config_of(state, at).fresh_seconds,
        )

    def _config_of(self, state: TrackedJob, at: float) -> RescaleConfig:
        """The configuration for one job: a checkpoint is seen as late as its log is read, and
        counts as fresh for so long; within limits, for it is what a stop may lose."""
        fresh_seconds = self._config.fresh_seconds
        late_seconds = _LATE_INTERVALS * state.progress(at).read_interval_seconds
        allowed_seconds = min(late_seconds, _MOST_LATE * fresh_seconds)
        return replace(
            self._config,
            fresh_seconds=max(fresh_seconds, allowed_seconds),
            start_seconds=min(self._config.start_seconds, _PLACED_SECONDS + state.start_seconds),
        )


@dataclass(slots=True)
class JobExecutor:
    """Carries out one job's rescale in one tick: implements
    ``optimus.rescale.execution.RescaleExecutor``."""

    access: RescaleAccess
    state: TrackedJob
    at: float
    cached: tuple[Pod, ...]
    """Its pods, as the watch shows them."""

    find: CountsFn
    since_break_seconds: float
    """Since a call or watch failed last."""

    fresh_seconds: float
    """Age up to which a checkpoint lets the job be stopped."""

    is_broken: bool = False
    """Whether a read failed."""

    def user_intent(self, record: RescaleRecord) -> UserIntent:
        """Return what the job's user wants, by its annotations."""
        state = self.state
        return UserIntent(
            state.must_wait_for_checkpoint(record, self.at),
            state.why_unwanted(record.before, record.target),
            state.may_stop,
        )

    def write_profile(self, record: RescaleRecord) -> ProfileWritten:
        """Write the job's profile."""
        del record  # the recorder takes the state's, which is this one
        is_written = self.access.recorder.store(self.state, self.at)
        return ProfileWritten(is_written, self.at, self.state.profile.unwritten)

    def observe(self, *, uncached: bool) -> Observed | JobGone | None:
        """Read from the API server, or from the caches where these are good enough."""
        # A watch may lag behind our own writes, also those of the step just entered.
        rescale = self.state.rescale
        if uncached or (rescale is not None and rescale.record.step is not Step.CHECKPOINT):
            return self._read()
        pods = _observed_pods(self.cached, self.state, self.at)
        return Observed(self.at, observed_job(self.state.training_job), pods)

    def _read(self) -> Observed | JobGone | None:
        # Pods first: pods listed after the job could belong to a resume that the job read before
        # does not show.
        state, reader = self.state, self.access.reader
        pods = reader.pods_of(state.training_job)
        if isinstance(pods, Refused):
            self._unread(pods)
            return None
        job = reader.job(state.training_job.kind, state.training_job.key)
        if isinstance(job, Refused) and job.kind is not ErrorKind.NOT_FOUND:
            self._unread(job)
            return None
        if isinstance(job, Refused) or job.uid != state.training_job.uid:
            return JobGone()
        state.refresh(job)
        since = 0.0 if self.is_broken else self.since_break_seconds
        return Observed(self.at, observed_job(job), _observed_pods(pods, state, self.at), since)

    def _unread(self, refused: Refused) -> None:
        _LOG.warning("%s", refused)
        self.is_broken |= refused.kind is ErrorKind.TRANSIENT

    def find_counts(self, most: Counts) -> CountsFound:
        """Find counts that fit now."""
        return self.find(self.state, most, self.at)

    def suspend(self, patch: Suspend) -> PatchAnswered | None:
        """Suspend the job, once its last lines are read: its logs go with its pods."""
        # With a checkpoint that is too old by now the state machine waits for the next one.
        is_current = not self._has_changed(patch)
        if is_current and (not self._has_last_lines() or self._checkpoint_aged()):
            return None
        job, at, writer = self.state.training_job, self.at, self.access.writer
        limits = limits_left(job, at, patch.restarts)
        suspend = partial(writer.suspend, job, patch.by, limits, patch.pause)
        answer = self._write(patch, suspend, f"suspended ({patch.by})")
        if limits and answer.result is PatchResult.DONE:
            self.access.events.emit(job, _limits_event(job, limits))
        return answer

    def resize_and_resume(self, patch: ResizeAndResume) -> PatchAnswered:
        """Set the counts and resume."""
        writer, job = self.access.writer, self.state.training_job
        resume = partial(writer.resize_and_resume, job, patch.counts)
        return self._write(patch, resume, f"resumed at {patch.counts}")

    def unmark(self, patch: Unmark) -> PatchAnswered:
        """Remove the annotation."""
        unmark = partial(self.access.writer.unmark, self.state.training_job)
        return self._write(patch, unmark, "annotation suspended-by removed")

    def _has_changed(self, patch: Patch) -> bool:
        return self.state.training_job.resource_version != patch.resource_version

    def _write(
        self, patch: Patch, write: Callable[[], Written | Refused], done: str
    ) -> PatchAnswered:
        """Write a patch, unless the job has changed since it was decided."""
        if self._has_changed(patch):
            return PatchAnswered(self.at, PatchResult.CONFLICT)
        outcome = write()
        if isinstance(outcome, Written):
            _LOG.info("job %s: %s", self.state.job.key, done)
            return PatchAnswered(self.at, PatchResult.DONE)
        _LOG.warning("%s", outcome)
        result = _PATCH_RESULTS.get(outcome.kind, PatchResult.REFUSED)
        return PatchAnswered(self.at, result, outcome.sentence)

    def _has_last_lines(self) -> bool:
        """Return whether the job may be stopped as far as its log is concerned."""
        rescale, run = self.state.rescale, self.state.gang.run
        if rescale is None or run is None or not self.state.job.managed:
            return True
        if rescale.record.purpose is RescalePurpose.RESTART:
            return True  # the operator does not wait either
        return self.access.last_reads.read_now(self.state.log, run)

    def _checkpoint_aged(self) -> bool:
        """Return whether the last lines show that the checkpoint is too old to stop the job now."""
        rescale = self.state.rescale
        since = self.state.progress(self.at).checkpoint_since
        if rescale is None or not rescale.needs_checkpoint or rescale.record.rolling_back:
            return False
        return since is None or self.at - since > 2 * self.fresh_seconds

    def notify(self, told: Notify) -> None:
        """Put an Event on the job."""
        self.access.events.emit(self.state.training_job, rescale_event(told))

    def placement_failed(self, failed: PlacementFailed) -> None:
        """Record it."""
        self.state.placement_failed(failed, self.at)

    def counts_failed(self, failed: CountsFailed) -> None:
        """Record it."""
        self.state.counts_failed(failed.why, everywhere=failed.everywhere)

    def end(self, end: End) -> None:
        """Record it, and report it."""
        state, events, trusted = self.state, self.access.events, self.state.saves_on_stop
        start = state.run_start(self.at) if end.outcome is Outcome.REACHED else None
        state.rescale_ended(end, self.at, start)
        events.rescale_ended(state, end, start, trusted=trusted)
        was_preempted = end.record.pause is PauseReason.GANG and not state.preempted_by
        if was_preempted and not state.job.managed:
            self.access.recorder.discard(state)


def _limits_event(job: TrainingJob, limits: Mapping[str, int]) -> JobEvent:
    had = {
        "activeDeadlineSeconds": job.active_deadline_seconds,
        "backoffLimit": job.backoff_limit,
        MAX_RESTARTS: job.max_restarts,
    }
    texts = (f"{name} is {left}, of {had[name]}" for name, left in limits.items())
    message = (
        f"{', '.join(texts)}: the operator restarts these counts after a suspension, and "
        "what the job has used of them stays used"
    )
    return JobEvent("LimitsCarriedOver", message)


def limits_left(job: TrainingJob, at: float, restarts: int) -> dict[str, int]:
    """The limits that a suspension at an instant has to change, with what is left of them:
    the operator counts active seconds and restarts from 0 after each resume."""
    left: dict[str, int] = {}
    if job.active_deadline_seconds is not None and job.started_at is not None:
        active_seconds = max(at - job.started_at, 0.0)
        left_seconds = math.ceil(job.active_deadline_seconds - active_seconds)
        left["activeDeadlineSeconds"] = max(left_seconds, 1)
    for name, most in ("backoffLimit", job.backoff_limit), (MAX_RESTARTS, job.max_restarts):
        if most and restarts > 0:
            left[name] = max(most - restarts, 1)
    return left


_PATCH_RESULTS = {
    ErrorKind.CONFLICT: PatchResult.CONFLICT,
    ErrorKind.TRANSIENT: PatchResult.UNKNOWN,
    ErrorKind.THROTTLED: PatchResult.UNKNOWN,
    ErrorKind.EXPIRED: PatchResult.UNKNOWN,  # what was read is old: it is read again
    ErrorKind.NOT_LEADING: PatchResult.UNKNOWN,  # the next leader, or this one again, goes on
    ErrorKind.FORBIDDEN: PatchResult.DENIED,
    # The next observation shows that it is gone.
    ErrorKind.NOT_FOUND: PatchResult.CONFLICT,
}


def _observed_pods(pods: tuple[Pod, ...], state: TrackedJob, at: float) -> ObservedPods:
    observed = observed_pods(pods, sum(role.count for role in state.job.fixed))
    run = state.gang.run
    # The watch may still show the pods of the run before, with their log.
    is_theirs = run is not None and any(pod.uid == run.name for pod in pods)
    trains = is_theirs and run is not None and state.log.trains_in(run.name)
    unloaded = state.why_unloaded(at) if is_theirs else ""
    is_mixed = other_gang(pods, state.job.counts) is not None
    return replace(observed, trains=trains, is_mixed=is_mixed, unloaded=unloaded)
