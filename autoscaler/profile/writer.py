"""Writes the profiles of jobs, when they show something new."""

import time
from collections.abc import Callable, Collection
from math import inf
from operator import attrgetter
from typing import Final, Protocol

import msgspec
from cachetools import TTLCache

from autoscaler.cluster import Observation
from autoscaler.jobs.state import TrackedJob
from autoscaler.profile.events import (
    MOST_REFUSED,
    REFUSED_SECONDS,
    EventRecorder,
    JobEvent,
    events_of,
)
from autoscaler.profile.status import status_of, unmanaged_conditions, urgent
from optimus.jobs import alternating
from optimus.kube.contract import Phase
from optimus.kube.errors import ErrorKind
from optimus.kube.profile_codec import pack
from optimus.kube.profiles import NameTaken, ProfileStatus, TrainingProfile
from optimus.kube.results import Refused, Written
from optimus.kube.stored_settings import ClusterSettings
from optimus.kube.training_jobs import TrainingJob

_NAME_TAKEN_SECONDS: Final = 30.0
"""Back-off before a name that another job's profile holds is asked for again."""


class Profiles(Protocol):
    """Writes profiles; ``optimus.kube.profiles.ProfileWriter`` is one."""

    def create(self, job: TrainingJob) -> TrainingProfile | NameTaken | Refused:
        """The job's profile, made now if it was not there."""

    def delete(self, profile: TrainingProfile) -> Written | Refused:
        """Delete this very profile."""

    def stored(self, profile: TrainingProfile) -> TrainingProfile | Refused:
        """The profile as it is stored now."""

    def write_status(self, profile: TrainingProfile, status: ProfileStatus) -> Written | Refused:
        """Replace the whole status; CONFLICT where the profile has changed since it was read."""


class ProfileRecorder:
    """Writes profiles; ``timer`` times the back-off after a refusal, and how long writes take."""

    def __init__(
        self,
        profiles: Profiles,
        events: EventRecorder,
        *,
        spacing_seconds: float,
        instance: str = "",
        settings: ClusterSettings | None = None,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        """``instance`` is the autoscaler that writes; its ``settings`` are stored with each job,
        for the command line's answers."""
        self._profiles, self._events, self._instance = profiles, events, instance
        self._decided_by = None if settings is None else settings.stored()
        self._spacing_seconds, self._timer = spacing_seconds, timer
        self._job_uids: Collection[str] | None = None
        """The UIDs of all jobs; unknown before the first observation."""
        self._refused_lately: TTLCache[str, None] = TTLCache(
            MOST_REFUSED, REFUSED_SECONDS, timer=timer
        )

    def report(self, state: TrackedJob, now: float) -> None:
        """Tell what is new, and write the job's profile if it shows something new or is old."""
        if state.profile.discarded:
            return
        status = status_of(state, now)
        self._events.report(state, status, now)
        known, written_at = state.profile.status, state.profile.written_at
        if known is not None and written_at is not None:
            if status is known:
                return
            is_old = now - written_at >= self._spacing_seconds and status != known
            if not is_old and urgent(status) == urgent(known):
                return
        self.store(state, now, status)

    def store(self, state: TrackedJob, now: float, status: ProfileStatus | None = None) -> bool:
        """Write the job's profile now; returns whether it is written."""
        own = state.profile
        if state.job.uid in self._refused_lately or own.superseded_by is not None:
            return False
        status = status or status_of(state, now)
        is_known = own.stored is not None
        profile = own.stored or self._create(state, now)
        if profile is None:
            return False
        is_unread = profile.resource_version != own.refused_version
        if not is_known and is_unread and self._is_newer(state, profile):
            # Made after the caches were read: what it stores must not be overwritten unread.
            own.superseded_by = profile
            return False
        own.stored = profile
        # The saved state is packed only now: it is by far the largest part, and most ticks write
        # nothing.
        saved = state.saved
        if self._decided_by is not None:
            saved = msgspec.structs.replace(saved, decided_by=self._decided_by)
        full = msgspec.structs.replace(
            status, state=pack(saved, state.job.key), written_by=self._instance
        )
        outcome = self._write(state, profile, full)
        if isinstance(outcome, Written):
            own.status, own.written_at, own.unwritten = status, now, ""
            return True
        own.unwritten = str(outcome)
        self._events.refused(outcome)
        if outcome.kind in (ErrorKind.NOT_FOUND, ErrorKind.INVALID):
            own.refused_version = profile.resource_version
            own.stored = None  # deleted, or another one by now: created again at the next write
            if not is_known:  # read a moment ago: it is what is written that is refused
                self._refused_lately[state.job.uid] = None
        return False

    def discard(self, state: TrackedJob) -> None:
        """Delete the profile of a job that is not managed: its pause for a gang is over."""
        profile = state.profile.stored
        if profile is None:
            return
        outcome = self._profiles.delete(profile)
        if isinstance(outcome, Refused):
            self._events.refused(outcome)
        state.profile.discarded = profile.uid
        if state.training_job.left_alone:
            self._events.retry_later(state.training_job, "LeftAlone")

    def _write(
        self, state: TrackedJob, profile: TrainingProfile, status: ProfileStatus
    ) -> Written | Refused:
        outcome = self._profiles.write_status(profile, status)
        if isinstance(outcome, Refused) and outcome.kind is ErrorKind.CONFLICT:
            found = self._profiles.stored(profile)
            if isinstance(found, Refused):
                return found
            if found.uid != profile.uid or self._is_newer(state, found):
                # What this process remembers of the job is older than what is stored.
                state.profile.superseded_by = found
                return outcome
            # Labels have changed, or the answer to the last write was lost.
            profile = found
            outcome = self._profiles.write_status(profile, status)
        if isinstance(outcome, Written):
            version = outcome.resource_version
            state.profile.stored = msgspec.structs.replace(profile, resource_version=version)
        return outcome

    def _is_newer(self, state: TrackedJob, profile: TrainingProfile) -> bool:
        """Return whether the profile stores what this state does not know."""
        if profile.status == ProfileStatus():
            return False
        return state.profile.written_at is None or profile.status.written_by != self._instance

    def _create(self, state: TrackedJob, now: float) -> TrainingProfile | None:
        taken_at = state.profile.name_taken_at
        if taken_at is not None and now - taken_at < _NAME_TAKEN_SECONDS:
            return None
        created = self._profiles.create(state.training_job)
        if isinstance(created, TrainingProfile):
            return created
        state.profile.unwritten = str(created)
        if isinstance(created, NameTaken):
            # The first time it may be that of a job of this name that was deleted a moment ago.
            if taken_at is not None and not self._delete_leftover(created):
                until = "this job is not managed until that one is deleted"
                event = JobEvent("ProfileNameTaken", f"{created}; {until}")
                self._events.emit_once(state.training_job, event)
            state.profile.name_taken_at = now
        else:
            self._events.refused(created)
        return None

    def _delete_leftover(self, taken: NameTaken) -> bool:
        """Delete the profile of a job that is gone; false where that job exists."""
        if self._job_uids is None or taken.holder.job.uid in self._job_uids:
            return False
        outcome = self._profiles.delete(taken.holder)
        if isinstance(outcome, Refused):
            self._events.refused(outcome)
            return False
        return True

    def left_alone(
        self, observation: Observation, moving: Collection[str], seconds: float = inf
    ) -> int:
        """Report to the users of jobs that are left alone why; returns how many there are.

        ``moving`` are jobs in a rescale that must be ended first: their profiles are not touched.
        What is not written within ``seconds`` is written at the next tick."""
        self._job_uids, began = observation.jobs.keys(), self._timer()
        open_jobs = [each for each in observation.jobs.values() if not each.outcome]
        alone = {
            each.uid
            for each in open_jobs
            if each.left_alone and not each.deleted and each.uid not in moving
        }
        said = {each.uid: events_of(each, observation.pods.get(each.uid, ())) for each in open_jobs}
        told = [each for each in open_jobs if each.uid in alone or said[each.uid]]
        for training_job in alternating(told, attrgetter("namespace")):
            if self._timer() - began > seconds:
                break
            if training_job.uid in alone:
                self._report_left_alone(training_job, observation)
            for event in said[training_job.uid]:
                self._events.emit_once(training_job, event)
        self._events.forget_others(observation.jobs)
        return len(alone)

    def _report_left_alone(self, training_job: TrainingJob, observation: Observation) -> None:
        reason = training_job.left_alone or ""
        if not self._events.emit_once(training_job, JobEvent("LeftAlone", reason)):
            return
        known = observation.profiles.get(training_job.uid)
        profile = known or self._profiles.create(training_job)
        outcome: object = profile
        if isinstance(profile, TrainingProfile):
            status = msgspec.structs.replace(
                profile.status,
                phase=Phase.LEFT_ALONE,
                conditions=unmanaged_conditions(reason, profile.status.conditions, observation.at),
                reason=reason,
                written_by=self._instance,
            )
            outcome = self._profiles.write_status(profile, status)
        if isinstance(outcome, Refused):
            self._events.refused(outcome)
        if not isinstance(outcome, Written):
            self._events.retry_later(training_job, "LeftAlone")
