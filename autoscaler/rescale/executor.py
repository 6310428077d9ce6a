"""Executes the instructions of the rescale state machine and reports back what came of them.

Nothing is remembered here: an answer that is lost is found by the next observation.
"""

import logging
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Protocol

from autoscaler.cluster import Observation
from autoscaler.logs.poller import Run
from autoscaler.managed_jobs import JobState, other_gang
from autoscaler.profile.recorder import ProfileRecorder
from autoscaler.rescale.machine import (
    CheckpointSeen,
    CountsFailed,
    CountsFound,
    EmitEvent,
    End,
    Event,
    FindCounts,
    Instruction,
    JobGone,
    Observe,
    Observed,
    ObservedJob,
    ObservedPods,
    Patch,
    PatchAnswered,
    PatchResult,
    PlacementFailed,
    ProfileWritten,
    RescaleConfig,
    ResizeAndResume,
    Step,
    Suspend,
    Tick,
    Unmark,
    UserIntent,
    WriteProfile,
    advance,
)
from optimus.jobs import Counts, JobKey
from optimus.kube.errors import ErrorKind
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, Written
from optimus.kube.training_jobs import TrainingJob
from optimus.progress.log import ProgressLog
from optimus.rescale.purpose import RescalePurpose

_LOG = logging.getLogger(__name__)
_MOST_INSTRUCTIONS = 32
"""Far more than one observation can cause: a machine that returns more is in a loop."""


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
        *,
        permanent: bool = False,
    ) -> Written | Refused:
        """Suspend the job, annotate it as suspended by us and set what is left of its limits;
        ``permanent``: it is not to be resumed."""

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

    def read_now(self, log: ProgressLog, run: Run) -> bool:
        """Whether the run's last lines are in; to be called again at the next tick if not."""


class FreeCapacity(Protocol):
    """What is free for one job; ``autoscaler.decide.Headroom`` knows it."""

    def counts_found(self, state: JobState, most: Counts, at: float) -> CountsFound:
        """The most PSs and workers, of each role at most these, that fit beside what is kept for
        other jobs, and whether the target of the job's rescale does."""


class RescaleExecutor:
    """Advances the rescales in progress."""

    def __init__(
        self,
        reader: Reader,
        writer: Writer,
        recorder: ProfileRecorder,
        last_reads: LastReads,
        config: RescaleConfig,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._recorder = recorder
        self._last_reads = last_reads
        self._config = config
        self._broken_at = -math.inf

    def advance(
        self, state: JobState, observation: Observation, free: FreeCapacity, at: float
    ) -> None:
        """Take one job's rescale as far as it goes now."""
        since, config = state.progress(at).checkpoint_since, self._config_of(state, at)
        events: deque[Event] = deque([CheckpointSeen(-math.inf if since is None else since)])
        events.append(Tick(at))
        for _ in range(_MOST_INSTRUCTIONS):
            if not events or state.rescale is None:
                return
            # The user's intent is taken in before each step: whatever was written last counts.
            record = state.rescale.record
            intent = UserIntent(
                state.must_wait_for_checkpoint(record, at),
                state.why_unwanted(record.before, record.target),
                state.may_stop,
            )
            state.rescale, _ = advance(state.rescale, intent, config)
            state.rescale, instructions = advance(state.rescale, events.popleft(), config)
            for instruction in instructions:
                event = self._execute(state, instruction, observation, free, at)
                if event is not None:
                    events.append(event)

    def _execute(
        self,
        state: JobState,
        instruction: Instruction,
        observation: Observation,
        free: FreeCapacity,
        at: float,
    ) -> Event | None:
        match instruction:
            case WriteProfile():
                return ProfileWritten(self._recorder.store(state, at), at, state.unwritten)
            case Observe(uncached=uncached):
                # A watch may lag behind our own writes, also those of the step just entered.
                if uncached or (
                    state.rescale is not None and state.rescale.record.step is not Step.CHECKPOINT
                ):
                    return self._observe(state, observation, at)
                pods = observation.pods.get(state.job.uid, ())
                return Observed(at, ObservedJob.of(state.training_job), _observed_pods(pods, state))
            case FindCounts(most=most):
                return free.counts_found(state, most, at)
            case EmitEvent():
                self._recorder.emit(state, instruction)
            case PlacementFailed():
                state.placement_failed(instruction, at)
            case CountsFailed(why=why):
                state.counts_failed(why)
            case End():
                state.rescale_ended(instruction, at)
                self._recorder.rescale_ended(state, instruction)
            case _:
                return self._patch(state, instruction, at)
        return None

    def _observe(self, state: JobState, observation: Observation, at: float) -> Event | None:
        # Pods first: pods listed after the job could belong to a resume that the job read before
        # does not show.
        pods = self._reader.pods_of(state.training_job)
        if isinstance(pods, Refused):
            self._unread(pods, at)
            return None
        job = self._reader.job(state.training_job.kind, state.training_job.key)
        if isinstance(job, Refused):
            if job.kind is ErrorKind.NOT_FOUND:
                return JobGone()
            self._unread(job, at)
            return None
        if job.uid != state.training_job.uid:
            return JobGone()
        state.refresh(job)
        since_break_seconds = min(observation.since_break_seconds, at - self._broken_at)
        observed = _observed_pods(pods, state)
        return Observed(at, ObservedJob.of(job), observed, since_break_seconds)

    def _unread(self, refused: Refused, at: float) -> None:
        _LOG.warning("%s", refused)
        if refused.kind is ErrorKind.TRANSIENT:
            self._broken_at = at

    def _patch(self, state: JobState, instruction: Patch, at: float) -> Event | None:
        if state.training_job.resource_version != instruction.resource_version:
            return PatchAnswered(at, PatchResult.CONFLICT)
        match instruction:
            case Suspend(by=by, restarts=restarts):
                # The pods' logs go with the pods.
                if not self._has_last_lines(state):
                    return None
                if self._checkpoint_aged(state, at):
                    return None  # the state machine waits for the next one
                done = f"suspended ({by})"
                outcome = self._suspend(state, by, restarts, at)
            case ResizeAndResume(counts=counts):
                done = f"resumed at {counts}"
                outcome = self._writer.resize_and_resume(state.training_job, counts)
            case Unmark():
                done, outcome = (
                    "annotation suspended-by removed",
                    self._writer.unmark(state.training_job),
                )
        if isinstance(outcome, Written):
            _LOG.info("job %s: %s", state.job.key, done)
            return PatchAnswered(at, PatchResult.DONE)
        _LOG.warning("%s", outcome)
        result = _PATCH_RESULTS.get(outcome.kind, PatchResult.REFUSED)
        return PatchAnswered(at, result, outcome.sentence)

    def _suspend(self, state: JobState, by: str, restarts: int, at: float) -> Written | Refused:
        job = state.training_job
        limits = limits_left(job, at, restarts)
        permanent = state.rescale is not None and state.rescale.record.stays_suspended
        outcome = self._writer.suspend(job, by, limits, permanent=permanent)
        if limits and isinstance(outcome, Written):
            had = {
                "activeDeadlineSeconds": job.active_deadline_seconds,
                "backoffLimit": job.backoff_limit,
            }
            texts = (f"runPolicy.{name} is {left}, of {had[name]}" for name, left in limits.items())
            message = (
                f"{', '.join(texts)}: the operator restarts these counts after a suspension, and "
                "what the job has used of them stays used"
            )
            self._recorder.emit(state, EmitEvent(False, "LimitsCarriedOver", message))
        return outcome

    def _has_last_lines(self, state: JobState) -> bool:
        """Whether the job may be stopped as far as its log is concerned."""
        rescale, run = state.rescale, state.run
        if rescale is None or run is None or rescale.record.purpose is RescalePurpose.RESTART:
            return True  # the operator does not wait either
        return self._last_reads.read_now(state.log, run)

    def _checkpoint_aged(self, state: JobState, at: float) -> bool:
        """Whether the last lines show that the checkpoint is too old to stop the job now."""
        rescale, since = state.rescale, state.progress(at).checkpoint_since
        if rescale is None or not rescale.needs_checkpoint or rescale.record.rolling_back:
            return False
        return since is None or at - since > 2 * self._config_of(state, at).fresh_seconds

    def _config_of(self, state: JobState, at: float) -> RescaleConfig:
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


def limits_left(job: TrainingJob, at: float, restarts: int) -> dict[str, int]:
    """The fields of ``runPolicy`` that a suspension at an instant has to change, with what is left
    of them: the operator counts active seconds and restarts from 0 after each resume."""
    left: dict[str, int] = {}
    if job.active_deadline_seconds is not None and job.started_at is not None:
        active_seconds = max(at - job.started_at, 0.0)
        left_seconds = math.ceil(job.active_deadline_seconds - active_seconds)
        left["activeDeadlineSeconds"] = max(left_seconds, 1)
    if job.backoff_limit and restarts > 0:
        left["backoffLimit"] = max(job.backoff_limit - restarts, 1)
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


def _observed_pods(pods: tuple[Pod, ...], state: JobState) -> ObservedPods:
    observed = ObservedPods.of(pods, sum(role.count for role in state.job.fixed))
    run = state.run
    # The watch may still show the pods of the run before, with their log.
    is_theirs = run is not None and any(pod.uid == run.name for pod in pods)
    trains = is_theirs and run is not None and state.log.trains_in(run.name)
    is_mixed = other_gang(pods, state.job.counts) is not None
    return replace(observed, trains=trains, is_mixed=is_mixed)
