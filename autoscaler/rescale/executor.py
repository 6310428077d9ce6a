"""Act: carries out what the rescale state machine asks for, and tells it what came of it.

The machine (``rescale.py``) decides, this does: look, suspend, resize and resume, write the
profile. Nothing here remembers anything; an answer that is lost is found again by the next look.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from autoscaler.job_state import JobState
from autoscaler.observation import Observation
from autoscaler.rescale.machine import Rescale, advance
from autoscaler.rescale.types import (
    Answer,
    Answered,
    CheckpointSeen,
    End,
    Event,
    Instruction,
    JobLook,
    Look,
    Looked,
    NoPlace,
    PodsLook,
    ProfileWritten,
    RescaleRules,
    ResizeAndResume,
    Step,
    Suspend,
    Tell,
    Tick,
    Unmark,
    UserWants,
    WriteProfile,
)
from optimus.jobs import Counts, JobKey, Role
from optimus.kube.errors import ErrorKind
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, Written
from optimus.kube.training_jobs import TrainingJob

_LOG = logging.getLogger(__name__)
_MOST_INSTRUCTIONS = 32
"""Far above what one look can set off; a machine that asked for more would be in a loop."""


class Reader(Protocol):
    """Reads that do not come from a copy; ``optimus.kube.live_reader.LiveReader`` is one."""

    def job(self, kind: str, key: JobKey) -> TrainingJob | Refused:
        """The job as it is stored now."""
        ...

    def pods_of(self, job: TrainingJob) -> tuple[Pod, ...] | Refused:
        """Every pod of the job that is there now."""
        ...


class Writer(Protocol):
    """The writes to jobs; ``optimus.kube.writer.JobWriter`` is one."""

    def suspend(self, job: TrainingJob, interval_id: str) -> Written | Refused:
        """Suspend the job under our mark."""
        ...

    def resize_and_resume(self, job: TrainingJob, counts: Counts) -> Written | Refused:
        """Set the counts, resume, take the mark off."""
        ...

    def unmark(self, job: TrainingJob) -> Written | Refused:
        """Take the mark off."""
        ...


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a rescale needs of its surroundings: a stored profile, a told user, the logs read before
    they go."""

    store: Callable[[JobState], bool]
    tell: Callable[[JobState, Tell], None]
    read_logs: Callable[[JobState], bool]
    ended: Callable[[JobState, End], None]


class RescaleExecutor:
    """Moves the rescales that are under way."""

    def __init__(self, reader: Reader, writer: Writer, hooks: Hooks, rules: RescaleRules) -> None:
        self._reader = reader
        self._writer = writer
        self._hooks = hooks
        self._rules = rules

    def move(self, state: JobState, observation: Observation, at: float) -> None:
        """Take one job's rescale as far as it goes now."""
        since = state.progress(at).checkpoint_since
        events: deque[Event] = deque([CheckpointSeen(since)] if since is not None else [])
        events.append(Tick(at))
        for _ in range(_MOST_INSTRUCTIONS):
            if not events or state.rescale is None:
                return
            # What the user wrote is taken in before each step: the last word is his.
            state.rescale, _ = advance(
                state.rescale, _user_wants(state, state.rescale, at), self._rules
            )
            state.rescale, instructions = advance(state.rescale, events.popleft(), self._rules)
            events.extend(self._carry_out(state, instructions, observation, at))

    def _carry_out(
        self,
        state: JobState,
        instructions: Sequence[Instruction],
        observation: Observation,
        at: float,
    ) -> list[Event]:
        events: list[Event] = []
        for instruction in instructions:
            event = self._do(state, instruction, observation, at)
            if event is not None:
                events.append(event)
        return events

    def _do(
        self, state: JobState, instruction: Instruction, observation: Observation, at: float
    ) -> Event | None:
        match instruction:
            case WriteProfile():
                return ProfileWritten(at, self._hooks.store(state))
            case Look(uncached=uncached):
                # A copy may lag behind our own writes: after a suspension only the API server
                # itself is believed.
                if uncached or (
                    state.rescale is not None and state.rescale.record.step is not Step.CHECKPOINT
                ):
                    return self._look(state, at)
                pods = observation.pods.get(state.job.uid, ())
                return Looked(at, job_look(state.seen), pods_look(pods, state))
            case Tell():
                self._hooks.tell(state, instruction)
            case NoPlace(waited_seconds=waited_seconds):
                state.found_no_place(waited_seconds, at)
            case End():
                state.rescale_ended(instruction, at)
                self._hooks.ended(state, instruction)
            case _:
                return self._write(state, instruction, at)
        return None

    def _look(self, state: JobState, at: float) -> Event | None:
        # Pods first: pods listed after the job could belong to a resume that the job read before
        # does not show.
        pods = self._reader.pods_of(state.seen)
        if isinstance(pods, Refused):
            _LOG.warning("%s", pods)
            return None
        job = self._reader.job(state.seen.kind, state.seen.key)
        if isinstance(job, Refused):
            if job.kind is ErrorKind.NOT_FOUND:
                return Looked(at, None, pods_look(pods, state))
            _LOG.warning("%s", job)
            return None
        if job.uid != state.seen.uid:
            return Looked(at, None, pods_look(pods, state))
        state.renew(job)
        return Looked(at, job_look(job), pods_look(pods, state))

    def _write(
        self, state: JobState, instruction: Suspend | ResizeAndResume | Unmark, at: float
    ) -> Event | None:
        if state.seen.resource_version != instruction.resource_version:
            return Answered(at, Answer.CONFLICT)
        match instruction:
            case Suspend(by=by):
                if not self._hooks.read_logs(state):
                    return None  # at the next tick
                outcome = self._writer.suspend(state.seen, by)
            case ResizeAndResume(counts=counts):
                outcome = self._writer.resize_and_resume(state.seen, counts)
            case Unmark():
                outcome = self._writer.unmark(state.seen)
        if isinstance(outcome, Written):
            _LOG.info("job %s: %s", state.job.key, _said(instruction))
            return Answered(at, Answer.DONE)
        _LOG.warning("%s", outcome)
        return Answered(at, _ANSWERS.get(outcome.kind, Answer.REFUSED), outcome.sentence)


_ANSWERS = {
    ErrorKind.CONFLICT: Answer.CONFLICT,
    ErrorKind.TRANSIENT: Answer.UNKNOWN,
    ErrorKind.THROTTLED: Answer.UNKNOWN,
    ErrorKind.FORBIDDEN: Answer.DENIED,
    # The next look tells that it is gone.
    ErrorKind.NOT_FOUND: Answer.CONFLICT,
}


def _said(instruction: Suspend | ResizeAndResume | Unmark) -> str:
    match instruction:
        case Suspend(by=by):
            return f"suspended ({by})"
        case ResizeAndResume(counts=counts):
            return f"resumed at {counts}"
        case Unmark():
            return "left to its user"


def _user_wants(state: JobState, rescale: Rescale, at: float) -> UserWants:
    record = rescale.record
    return UserWants(
        state.must_wait_for_checkpoint(record, at), state.why_against(record.before, record.target)
    )


def job_look(job: TrainingJob) -> JobLook:
    """The job as the state machine sees it."""
    counts = job.job.counts if job.job is not None else Counts(0, 0)
    finished = job.outcome is not None or job.deleted or job.job is None
    return JobLook(
        job.suspended,
        job.suspended_by,
        "Suspended" in job.conditions,
        counts,
        job.resource_version,
        finished,
    )


def pods_look(pods: Sequence[Pod], state: JobState) -> PodsLook:
    """The job's pods as the state machine sees them."""
    staying = [pod for pod in pods if not pod.leaving]
    started = [pod for pod in staying if pod.phase in ("Running", "Succeeded")]
    fixed = sum(role.count for role in state.job.fixed)
    fixed_started = sum(
        pod.replica is not None and pod.replica.role not in _RESIZED for pod in started
    )
    return PodsLook(
        left=len(pods),
        bound=_counts([pod for pod in staying if pod.node is not None]),
        started=_counts(started),
        fixed_missing=max(fixed - fixed_started, 0),
    )


_RESIZED = (Role.PS, Role.WORKER)


def _counts(pods: Sequence[Pod]) -> Counts:
    roles = [pod.replica.role for pod in pods if pod.replica is not None]
    return Counts(roles.count(Role.PS), roles.count(Role.WORKER))
