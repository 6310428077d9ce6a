"""EmitEvent: profiles are written when they say something new, Events when a user should know."""

import logging
import time
from collections.abc import Callable, Collection
from typing import Final, Protocol, TypeAlias

import msgspec
from cachetools import TTLCache

from autoscaler.job_state import JobState
from autoscaler.metrics import Metrics
from autoscaler.observation import Observation
from autoscaler.profile.codec import pack
from autoscaler.profile.status import status_of
from autoscaler.rescale.machine import EmitEvent, End, Outcome
from optimus.kube.contract import Phase
from optimus.kube.errors import ErrorKind
from optimus.kube.events import EventType, Subject
from optimus.kube.profiles import NameTaken, ProfileStatus, TrainingProfile
from optimus.kube.results import Refused, Written
from optimus.kube.training_jobs import TrainingJob

_LOG = logging.getLogger(__name__)


_REFUSED_SECONDS: Final = 30.0
"""What the API server refused is not asked for again for so long."""
_MOST_REFUSED: Final = 10_000
_NAME_TAKEN_SECONDS: Final = 30.0
"""So long another job's profile of the same name is left in peace before it is asked about
again."""
_Told: TypeAlias = tuple[str, str]
"""Of which job (its UID) for which reason a user was told."""


class Profiles(Protocol):
    """Where profiles are written; ``optimus.kube.profiles.ProfileWriter`` is one."""

    def create(self, job: TrainingJob) -> TrainingProfile | NameTaken | Refused:
        """The job's profile, made now if it was not there."""
        ...

    def delete(self, profile: TrainingProfile) -> Written | Refused:
        """Delete this very profile."""
        ...

    def write_status(self, profile: TrainingProfile, status: ProfileStatus) -> Written | Refused:
        """Replace the whole status."""
        ...


class Events(Protocol):
    """Where Events are written; ``optimus.kube.events.EventWriter`` is one."""

    def emit(
        self, job: Subject, kind: EventType, reason: str, message: str
    ) -> Written | Refused | None:
        """EmitEvent the job's user."""
        ...


class ProfileRecorder:
    """Writes profiles and Events."""

    def __init__(
        self,
        profiles: Profiles,
        events: Events,
        metrics: Metrics,
        *,
        spacing_seconds: float,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        """``timer`` times how long what was refused is left in peace."""
        self._profiles = profiles
        self._events = events
        self._metrics = metrics
        self._spacing_seconds = spacing_seconds
        self._living: Collection[str] | None = None
        """The UIDs of all jobs; unknown before the first look."""
        self._told: dict[_Told, str] = {}
        self._refused_lately: TTLCache[str | _Told, None] = TTLCache(
            _MOST_REFUSED, _REFUSED_SECONDS, timer=timer
        )

    def report(self, state: JobState, now: float) -> None:
        """Write the job's profile if that says something new to its user, or is old; tell of a log
        of no use."""
        status = status_of(state, now)
        if status.complaint:
            self._tell_once(state.seen, "LogNotUnderstood", status.complaint)
        if state.stored is not None and state.stored_at is not None:
            is_old = now - state.stored_at >= self._spacing_seconds and status != state.stored
            if not is_old and _news(status) == _news(state.stored):
                return
        self.store(state, now, status)

    def store(self, state: JobState, now: float, status: ProfileStatus | None = None) -> bool:
        """Write the job's profile now; tells whether it is written."""
        if state.job.uid in self._refused_lately:
            return False
        status = status or status_of(state, now)
        is_known = state.profile is not None
        profile = state.profile or self._create(state, now)
        if profile is None:
            return False
        state.profile = profile
        # The saved state is copied only now: it is by far the largest part, and most looks write
        # nothing.
        outcome = self._profiles.write_status(
            profile, msgspec.structs.replace(status, state=pack(state.saved))
        )
        if isinstance(outcome, Written):
            state.stored, state.stored_at = status, now
            return True
        self._refused(outcome)
        if outcome.kind in (ErrorKind.NOT_FOUND, ErrorKind.INVALID):
            state.profile = None  # deleted, or another one by now: made anew at the next write
            if not is_known:  # read a moment ago: it is what is written that is refused
                self._refused_lately[state.job.uid] = None
        return False

    def _create(self, state: JobState, now: float) -> TrainingProfile | None:
        if state.name_taken_at is not None and now - state.name_taken_at < _NAME_TAKEN_SECONDS:
            return None
        created = self._profiles.create(state.seen)
        if isinstance(created, TrainingProfile):
            return created
        if isinstance(created, NameTaken):
            # The first time it may be that of a job of this name that was deleted a moment ago.
            if state.name_taken_at is not None and not self._clear(created):
                until = "this job is left alone until that one is gone"
                self._tell_once(state.seen, "ProfileNameTaken", f"{created}; {until}")
            state.name_taken_at = now
        else:
            self._refused(created)
        return None

    def _clear(self, taken: NameTaken) -> bool:
        """Take away what a job that is gone left under the name; false where that job lives."""
        if self._living is None or taken.holder.job.uid in self._living:
            return False
        outcome = self._profiles.delete(taken.holder)
        if isinstance(outcome, Refused):
            self._refused(outcome)
            return False
        return True

    def emit(self, state: JobState, message: EmitEvent) -> None:
        """An Event that a rescale asks for."""
        self._emit(
            state.seen,
            EventType.WARNING if message.warning else EventType.NORMAL,
            message.reason,
            message.message,
        )

    def rescale_ended(self, state: JobState, end: End) -> None:
        """EmitEvent how a rescale ended."""
        self._metrics.rescales.labels(end.outcome.value).inc()
        _LOG.info(
            "job %s: rescale %s ended: %s (%s)",
            state.job.key,
            end.record.id,
            end.outcome.value,
            end.reason,
        )
        if end.outcome is Outcome.REACHED:
            message = f"{end.record.change}: {end.reason}"
            self._emit(state.seen, EventType.NORMAL, "Rescaled", message)
        elif end.outcome is Outcome.SUSPENDED:
            resume = "to let it go on all the same, set runPolicy.suspend to false"
            self._emit(
                state.seen, EventType.NORMAL, "SuspendedAtTarget", f"its goal is met; {resume}"
            )
        elif end.outcome in (Outcome.ABANDONED, Outcome.USER):
            self._emit(state.seen, EventType.NORMAL, "RescaleEnded", end.reason)

    def left_alone(self, observation: Observation, moving: Collection[str]) -> int:
        """EmitEvent the users of jobs that are left alone why; returns how many there are.

        ``moving`` are jobs in a rescale that must be ended first: their profiles are not touched.
        """
        self._living = observation.jobs.keys()
        alone = [
            seen
            for seen in observation.jobs.values()
            if seen.left_alone and not seen.outcome and not seen.deleted and seen.uid not in moving
        ]
        for seen in alone:
            assert seen.left_alone is not None
            if self._tell_once(seen, "LeftAlone", seen.left_alone):
                self._write_left_alone(seen, observation.profiles.get(seen.uid))
        for seen in observation.jobs.values():
            if seen.hints and not seen.outcome:
                self._tell_once(
                    seen, "UnknownAnnotation", "; ".join(str(hint) for hint in seen.hints)
                )
        self._told = {
            key: message for key, message in self._told.items() if key[0] in observation.jobs
        }
        return len(alone)

    def _write_left_alone(self, seen: TrainingJob, known: TrainingProfile | None) -> None:
        profile = known or self._profiles.create(seen)
        if not isinstance(profile, TrainingProfile):
            if isinstance(profile, Refused):
                self._refused(profile)
            self._again_later((seen.uid, "LeftAlone"))
            return
        status = msgspec.structs.replace(
            profile.status, phase=Phase.LEFT_ALONE, reason=seen.left_alone or ""
        )
        outcome = self._profiles.write_status(profile, status)
        if isinstance(outcome, Refused):
            self._refused(outcome)
            self._again_later((seen.uid, "LeftAlone"))

    def half_bound(self, seen: TrainingJob, waited_seconds: float, *, runs: bool) -> None:
        """Warn of a job that holds only a part of its gang; ``runs``: some pod of it that trains
        does."""
        what = (
            (
                "those run on: make room for the others, or suspend and resume the job once it has "
                "saved a checkpoint"
            )
            if runs
            else "hold it while it does not train: make room, or delete the job"
        )
        self._tell_once(
            seen,
            "HalfPlaced",
            f"for {waited_seconds:.0f} s only some of its pods have a node, and {what}",
        )

    def _tell_once(self, seen: TrainingJob, reason: str, message: str) -> bool:
        key = (seen.uid, reason)
        if self._told.get(key) == message or key in self._refused_lately:
            return False
        if not self._emit(seen, EventType.WARNING, reason, message):
            self._again_later(key)
            return False
        self._told[key] = message
        return True

    def _again_later(self, key: _Told) -> None:
        self._told.pop(key, None)
        self._refused_lately[key] = None

    def _emit(self, seen: TrainingJob, kind: EventType, reason: str, message: str) -> bool:
        """Returns false where the API server refused it."""
        level = logging.WARNING if kind is EventType.WARNING else logging.INFO
        _LOG.log(level, "job %s: %s: %s", seen.key, reason, message)
        outcome = self._events.emit(seen, kind, reason, message)
        if isinstance(outcome, Refused):
            self._refused(outcome)
        return not isinstance(outcome, Refused)

    def _refused(self, outcome: Refused) -> None:
        self._metrics.refusals.labels(outcome.kind.value).inc()
        _LOG.warning("%s", outcome)


def _news(status: ProfileStatus) -> tuple[object, ...]:
    """What a user should see at once; everything else can wait for the next regular write."""
    return (
        status.phase,
        status.reason,
        status.interval_id,
        status.ps,
        status.workers,
        status.target_ps,
        status.target_workers,
        status.rescale,
        status.rescales,
        status.complaint,
        status.goal,
    )
