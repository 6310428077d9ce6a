"""API objects turned into the values of a job's life, and back.

1. What the autoscaler keeps in a job's profile, for the one after it and for its users' questions.
   ``state`` holds the log's state (losses, samples, how far each pod was read) and the job's
   record. The autoscaler alone writes it; ``learned`` is what the command line and the page of a
   standby make of it.
2. A rescale in progress as the profile stores it, and the phase that its step is shown as.
3. What a rescale observes of a job and its pods.
"""

import logging
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec

from optimus.errors import NotReady
from optimus.jobs import NO_COUNTS, Counts, Job, Role
from optimus.kube.contract import Phase
from optimus.kube.errors import Malformed
from optimus.kube.pods import Pod
from optimus.kube.profiles import RescaleStatus
from optimus.kube.times import format_instant, parse_instant
from optimus.kube.training_jobs import TrainingJob
from optimus.lifecycle import JobRecord
from optimus.progress.log import ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.state import LogState
from optimus.progress.types import LossPoint, TrainingProgress
from optimus.rescale.purpose import RescalePurpose
from optimus.rescale.words import ObservedPods, PauseReason, RescaleRecord, SeenJob, Step

if TYPE_CHECKING:  # loaded where something is fitted
    from optimus.models.forecast import Forecast

_LOG = logging.getLogger(__name__)

_MOST_BYTES: Final = 4_000_000

MOST_STORED: Final = 256 * 1024
"""Characters of the saved state. The API server refuses objects of more than some 1.5 MB."""


StoredSettings = dict[str, Any]


class SavedState(msgspec.Struct, frozen=True):
    """The profile's ``state``."""

    log: LogState = msgspec.field(default_factory=LogState)
    record: JobRecord = msgspec.field(default_factory=JobRecord)
    decided_by: StoredSettings | None = None
    """The settings by which the job's counts are decided (``kube.stored_settings``)."""


class _StoredState(msgspec.Struct, frozen=True, rename={"record": "deeds"}):
    """The saved state under the names that are stored."""

    log: LogState = msgspec.field(default_factory=LogState)
    record: dict[str, Any] = {}
    decided_by: StoredSettings | None = None


_STORED_NAMES: Final = {
    "checkpoint_missed": "waited_in_vain",
    "placement_failures": "setbacks",
    "gang_uids": "whole",
}
"""Stored names of the fields of ``JobRecord`` that are not their own: stored profiles stay
readable."""

_NAMES: Final = {stored: name for name, stored in _STORED_NAMES.items()}


def pack(saved: SavedState, job: object = "") -> str:
    """JSON, compressed, in base64: short, since `kubectl describe` prints it.

    A state that would be too large for the API server is stored without what the log has shown: a
    profile that cannot be written would hold up the job."""
    text = _packed(saved)
    if len(text) <= MOST_STORED:
        return text
    _LOG.warning(
        "job %s: its saved state has %d kB, %d at most are stored: its samples are left out",
        job,
        len(text) // 1024,
        MOST_STORED // 1024,
    )
    return _packed(msgspec.structs.replace(saved, log=LogState()))


def _packed(saved: SavedState) -> str:
    fields = msgspec.to_builtins(saved.record)
    record = {_STORED_NAMES.get(name, name): value for name, value in fields.items()}
    stored = _StoredState(saved.log, record, saved.decided_by)
    return b64encode(zlib.compress(msgspec.json.encode(stored))).decode()


def unpack(state: str | None, job: object, at: float) -> SavedState:
    """The saved state in a profile; an unreadable one (of another version, or edited) is dropped.

    ``at`` is now: what was stored under a clock that was set back since is not in the future.
    """
    if state is None:
        return SavedState()
    try:
        # Bounded: a compressed text of unlimited length was not written here.
        text = zlib.decompressobj().decompress(b64decode(state, validate=True), _MOST_BYTES)
        stored = msgspec.json.decode(text, type=_StoredState)
        fields = {_NAMES.get(name, name): value for name, value in stored.record.items()}
        record = msgspec.convert(fields, JobRecord)
        return SavedState(_sharing(stored.log), _until(record, at), stored.decided_by)
    except (ValueError, zlib.error, msgspec.MsgspecError) as error:
        _LOG.warning(
            "job %s: saved state cannot be decoded, its speed is measured again: %s", job, error
        )
        return SavedState()


@dataclass(frozen=True)
class Learned:
    """The training of a job as its profile tells it at an instant.

    Earlier runs of the job's workload are not in its profile, and are not used."""

    job: Job
    progress: TrainingProgress
    record: JobRecord
    decided_by: StoredSettings | None = None

    @cached_property
    def forecast(self) -> "Forecast | NotReady":
        """A fit to the job's own losses and speeds."""
        from optimus.models.expectation import expect_job, presentable
        from optimus.models.forecast import forecast_job

        found = forecast_job(self.job, self.progress)
        if isinstance(found, NotReady):
            expected = expect_job(self.job, self.progress, found)
            return presentable(self.job, self.progress, expected) or found
        return found


def learned(state: str, job: Job, at: float) -> Learned:
    """The training that a profile's ``state`` has; ``at`` is now."""
    saved = unpack(state, job.key, at)
    progress = ProgressLog.from_state(LogFormatOptions.of(job), saved.log).progress(at)
    return Learned(job, progress, saved.record, saved.decided_by)


def _sharing(log: LogState) -> LogState:
    """The same with one object for equal weights and learning rates: decoded, each of thousands of
    losses has its own, a sixth of what a job takes in memory."""
    seen: dict[float, float] = {}

    def shared(points: list[LossPoint]) -> list[LossPoint]:
        return [
            LossPoint(
                point.loss,
                point.epoch,
                point.step,
                seen.setdefault(point.weight, point.weight),
                None
                if point.learning_rate is None
                else seen.setdefault(point.learning_rate, point.learning_rate),
            )
            for point in points
        ]

    series = [replace(each, points=shared(each.points)) for each in log.series]
    return replace(log, losses=shared(log.losses), series=series)


def _until(record: JobRecord, at: float) -> JobRecord:
    failures = record.placement_failures
    return replace(
        record,
        last_rescaled_at=_past(record.last_rescaled_at, at),
        moves=tuple(min(move, at) for move in record.moves),
        replacements=tuple(min(replacement, at) for replacement in record.replacements),
        profiling_since=_past(record.profiling_since, at),
        measured_at=_past(record.measured_at, at),
        served_since=_past(record.served_since, at),
        placement_failures=tuple(replace(failure, at=min(failure.at, at)) for failure in failures),
    )


def _past(instant: float | None, at: float) -> float | None:
    return None if instant is None else min(instant, at)


# --- a rescale as the profile stores it

PHASES: Final = {
    Step.CHECKPOINT: Phase.WAITING_FOR_CHECKPOINT,
    Step.SUSPEND: Phase.SUSPENDING,
    Step.EMPTY: Phase.SUSPENDING,
    Step.RESUME: Phase.RESIZING,
    Step.START: Phase.STARTING,
    Step.VERIFY: Phase.STARTING,
    Step.YIELD: Phase.TRAINING,
}
"""The phase as which each step of a rescale is shown."""


def pack_rescale(record: RescaleRecord) -> RescaleStatus:
    """The rescale as the profile shows it."""
    returns_to = record.returns_to
    return RescaleStatus(
        id=record.id,
        started_at=format_instant(record.started_at),
        from_ps=record.before.ps,
        from_workers=record.before.workers,
        to_ps=record.target.ps,
        to_workers=record.target.workers,
        why=record.why,
        step=record.step_text,
        step_at=format_instant(record.step_at),
        purpose=record.purpose,
        restarts=record.restarts,
        failure=record.failure,
        return_ps=None if returns_to is None else returns_to.ps,
        return_workers=None if returns_to is None else returns_to.workers,
        pause=record.pause or "",
    )


def unpack_rescale(stored: RescaleStatus | None, job: object, at: float) -> RescaleRecord | None:
    """The rescale in a profile; ``None`` without one, or where it cannot be read; ``at`` is now."""
    if stored is None:
        return None
    try:
        started_at = min(parse_instant(stored.started_at), at)
        record = RescaleRecord(
            stored.id,
            started_at,
            stored.origin,
            stored.target,
            stored.why,
            Step.CHECKPOINT,
            min(parse_instant(stored.step_at), at) if stored.step_at else started_at,
            purpose=_purpose_of(stored),
            restarts=stored.restarts,
            failure=stored.failure,
            returns_to=stored.returns_to,
            pause=_pause_of(stored),
        )
        return record.with_step_text(stored.step)
    except (Malformed, ValueError) as error:
        _LOG.warning("job %s: rescale in its profile cannot be decoded, dropped: %s", job, error)
        return None


def _purpose_of(stored: RescaleStatus) -> RescalePurpose:
    is_known = stored.purpose in set(RescalePurpose)
    return RescalePurpose(stored.purpose) if is_known else RescalePurpose.INTERVAL


def _pause_of(stored: RescaleStatus) -> PauseReason | None:
    if stored.pause:
        return PauseReason(stored.pause)
    return PauseReason.GOAL if stored.target == NO_COUNTS else None


# --- what a rescale observes

_MOST_NAMED: Final = 5


def observed_job(job: TrainingJob) -> SeenJob:
    """Return what the state machine needs of a job."""
    return SeenJob(
        job.suspended,
        job.suspended_by,
        "Suspended" in job.conditions,
        job.job.counts if job.job is not None else NO_COUNTS,
        job.resource_version,
        finished=job.outcome is not None or job.deleted or job.job is None,
        failed=job.outcome == "Failed",
    )


def observed_pods(pods: Sequence[Pod], fixed: int) -> ObservedPods:
    """The pods of a job as the state machine sees them; ``fixed`` is its number of fixed ones."""
    staying = [pod for pod in pods if not pod.leaving]
    leaving = [f"{pod.name} on {pod.node or 'no node'}" for pod in pods if pod.leaving]
    started = [pod for pod in staying if pod.phase in ("Running", "Succeeded")]
    fixed_started = sum(
        pod.replica is not None and pod.replica.role not in (Role.PS, Role.WORKER)
        for pod in started
    )
    broken = [pod for pod in staying if pod.container.error]
    worst = max(broken, key=lambda pod: pod.container.restarts, default=None)
    return ObservedPods(
        len(pods),
        _counts(pod for pod in staying if pod.node is not None),
        _counts(started),
        max(fixed - fixed_started, 0),
        restarts=max((pod.container.restarts for pod in staying), default=0),
        all_restarts=sum(pod.container.restarts for pod in staying if pod.running),
        error="" if worst is None else f"{worst.name} ended with {worst.container.error}",
        is_ending=any(pod.has_trained for pod in staying),
        crash_loops=any(pod.container.crash_loops or pod.phase == "Failed" for pod in broken),
        leaving=len(leaving),
        lingering=", ".join(leaving[:_MOST_NAMED]),
    )


def _counts(pods: Iterable[Pod]) -> Counts:
    roles = [pod.replica.role for pod in pods if pod.replica is not None]
    return Counts(roles.count(Role.PS), roles.count(Role.WORKER))
