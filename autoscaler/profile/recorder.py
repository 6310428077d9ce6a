"""Records jobs for their users: profiles when they show something new, Events, one line per end."""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import fields
from functools import cache
from math import inf, isfinite
from operator import attrgetter, is_
from typing import Final, NamedTuple, Protocol, TypeAlias

import msgspec
from cachetools import LRUCache, TTLCache

from autoscaler.cluster import Observation
from autoscaler.managed_jobs import JobState, Shown
from autoscaler.metrics import Metrics
from autoscaler.rescale.machine import EmitEvent, End, Outcome, Rescale, Step, pack_rescale
from optimus.errors import NotReady
from optimus.interval.classify import why_suspended
from optimus.jobs import (
    NO_COUNTS,
    ConvergenceThreshold,
    Counts,
    Goal,
    LossGoal,
    RescaleRule,
    TargetEpochs,
    TargetLoss,
    TargetMetric,
    TargetSteps,
    TwoTargets,
    alternating,
)
from optimus.kube.contract import Annotation, Phase
from optimus.kube.errors import ErrorKind
from optimus.kube.events import EventType, Subject
from optimus.kube.profile_codec import pack
from optimus.kube.profiles import (
    AvoidedNode,
    Condition,
    ConditionType,
    NameTaken,
    ProfileStatus,
    RecommendationStatus,
    TrainingProfile,
    Truth,
)
from optimus.kube.results import Refused, Written
from optimus.kube.stored_settings import ClusterSettings
from optimus.kube.times import format_instant, format_second
from optimus.kube.training_jobs import TrainingJob
from optimus.models.convergence import AnnealedCurve
from optimus.models.forecast import Forecast, current_loss, current_value, goal_from_earlier
from optimus.models.prior import samples_of
from optimus.progress.types import TrainingProgress

_LOG = logging.getLogger(__name__)
_REFUSED_SECONDS: Final = 30.0
"""How long a write that the API server refused is not tried again."""

_MOST_REFUSED: Final = 10_000
_NAME_TAKEN_SECONDS: Final = 30.0
"""Back-off before a name that another job's profile holds is asked for again."""

_COMPLETION_ANNOTATION: Final = f"the annotation {Annotation.GOAL_MET}"
_EventKey: TypeAlias = tuple[str, str]
"""A job's UID and the reason of an Event."""


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


class Events(Protocol):
    """Writes Events; ``optimus.kube.events.EventWriter`` is one."""

    def emit(
        self, job: Subject, kind: EventType, reason: str, message: str
    ) -> Written | Refused | None:
        """Put an Event on the job."""


_TOO_LARGE: Final = (
    "a pod prints more than can be read: every few seconds the last lines of its log are read, and "
    "losses and checkpoints in between are missed; print fewer lines, such as one for every tenth "
    "step"
)


class Writer(NamedTuple):
    """The autoscaler that writes; its ``settings`` are stored with each job, for the command line's
    answers."""

    instance: str = ""
    settings: ClusterSettings | None = None


UNNAMED: Final = Writer()


class ProfileRecorder:
    """Writes profiles and Events; ``timer`` times the back-off after a refusal, and
    how long writes take."""

    def __init__(
        self,
        profiles: Profiles,
        events: Events,
        metrics: Metrics,
        *,
        spacing_seconds: float,
        writer: Writer = UNNAMED,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._profiles, self._instance = profiles, writer.instance
        # They do not change while this process runs: one value for each namespace.
        self._decided_by = None if writer.settings is None else cache(writer.settings.stored)
        self._events = events
        self._metrics = metrics
        self._spacing_seconds, self._timer = spacing_seconds, timer
        self._job_uids: Collection[str] | None = None
        """Of all jobs; unknown before the first observation."""
        self._warned: dict[_EventKey, str] = {}
        self._recommended: LRUCache[str, Counts] = LRUCache(_MOST_REFUSED)
        self._late: LRUCache[str, tuple[float, bool]] = LRUCache(_MOST_REFUSED)
        self._limited_by: LRUCache[str, str] = LRUCache(_MOST_REFUSED)
        self._refused_lately: TTLCache[str | _EventKey, None] = TTLCache(
            _MOST_REFUSED, _REFUSED_SECONDS, timer=timer
        )

    def report(self, state: JobState, now: float) -> None:
        """Write the job's profile if it shows something new or is old; warn of an unusable log."""
        status = status_of(state, now)
        if status.complaint:
            self._warn_once(state.training_job, "LogNotUnderstood", status.complaint)
        if state.progress(now).is_too_large:
            self._warn_once(state.training_job, "LogTooLarge", _TOO_LARGE)
        self._recommend(state)
        self._report_quota(state)
        self._report_deadline(state)
        self._report_unlikely(state)
        if state.refused:
            self._warn_once(state.training_job, "PodsWouldBeRefused", state.refused)
        if state.changed_from is not None:
            self._warn_once(state.training_job, "ReplicasChanged", _changed_text(state))
        self._report_earlier_runs(state, now)
        if state.stored is not None and state.stored_at is not None:
            if status is state.stored:
                return
            is_old = now - state.stored_at >= self._spacing_seconds and status != state.stored
            if not is_old and _urgent(status) == _urgent(state.stored):
                return
        self.store(state, now, status)

    def _report_earlier_runs(self, state: JobState, now: float) -> None:
        """One Event when earlier runs of its workload are used, one when they are dropped."""
        job, key = state.training_job, (state.job.uid, "EarlierRunsUsed")
        if state.record.differs:
            effect = f"earlier runs are not used any more, {_without_earlier_runs(state)}"
            text = f"{state.record.differs}; {effect}"
            self._emit_once(job, EventType.NORMAL, "EarlierRunsDropped", text)
        elif state.earlier and key not in self._warned:
            text = _used_text(state, state.progress(now))
            self._emit_once(job, EventType.NORMAL, "EarlierRunsUsed", text)

    def _recommend(self, state: JobState) -> None:
        """An Event for each recommendation that differs from the one before."""
        decision, uid = state.decision, state.job.uid
        recommended = None if decision is None else decision.recommended
        if recommended is None or not recommended.changes:
            self._recommended.pop(uid, None)
        elif self._recommended.get(uid) != recommended.counts and self._emit(
            state.training_job, EventType.NORMAL, "Recommended", str(recommended)
        ):
            self._recommended[uid] = recommended.counts

    def _report_quota(self, state: JobState) -> None:
        """An Event when a quota limits the job for the first time; the profile has all figures."""
        decision, uid = state.decision, state.job.uid
        if decision is None or not decision.limited_by:
            return
        quota = decision.limited_by
        if self._limited_by.get(uid) != quota and self._emit(
            state.training_job, EventType.NORMAL, "QuotaReached", decision.reason
        ):
            self._limited_by[uid] = quota

    def _report_deadline(self, state: JobState) -> None:
        """An Event when a deadline is not met for the first time, and when no counts meet it."""
        found = None if state.decision is None else state.decision.deadline
        if found is None or not found.is_at_risk:
            return
        key, uid = (found.finish_by, found.possible), state.job.uid
        if self._late.get(uid) != key and self._emit(
            state.training_job, EventType.WARNING, "DeadlineAtRisk", _deadline_text(state)
        ):
            self._late[uid] = key

    def _report_unlikely(self, state: JobState) -> None:
        """One Event when a job is expected to end without having met its goal."""
        forecast, key = state.shown_forecast, (state.job.uid, "GoalUnlikely")
        if forecast is not None and forecast.unlikely and key not in self._warned:
            text = f"{_declared_end(state)}; until then it is treated as any job"
            self._emit_once(state.training_job, EventType.WARNING, "GoalUnlikely", text)

    def store(self, state: JobState, now: float, status: ProfileStatus | None = None) -> bool:
        """Write the job's profile now; returns whether it is written."""
        if state.job.uid in self._refused_lately or state.superseded_by is not None:
            return False
        status = status or status_of(state, now)
        is_known = state.profile is not None
        profile = state.profile or self._create(state, now)
        if profile is None:
            return False
        is_unread = profile.resource_version != state.refused_version
        if not is_known and is_unread and self._is_newer(state, profile):
            # Made after the caches were read: what it stores must not be overwritten unread.
            state.superseded_by = profile
            return False
        state.profile = profile
        # The saved state is packed only now: it is by far the largest part, and most ticks write
        # nothing.
        saved = state.saved
        if self._decided_by is not None:
            decided_by = self._decided_by(state.job.key.namespace)
            saved = msgspec.structs.replace(saved, decided_by=decided_by)
        full = msgspec.structs.replace(
            status, state=pack(saved, state.job.key), written_by=self._instance
        )
        outcome = self._write(state, profile, full)
        if isinstance(outcome, Written):
            state.stored, state.stored_at, state.unwritten = status, now, ""
            return True
        state.unwritten = str(outcome)
        self._refused(outcome)
        if outcome.kind in (ErrorKind.NOT_FOUND, ErrorKind.INVALID):
            state.refused_version = profile.resource_version
            state.profile = None  # deleted, or another one by now: created again at the next write
            if not is_known:  # read a moment ago: it is what is written that is refused
                self._refused_lately[state.job.uid] = None
        return False

    def _write(
        self, state: JobState, profile: TrainingProfile, status: ProfileStatus
    ) -> Written | Refused:
        outcome = self._profiles.write_status(profile, status)
        if isinstance(outcome, Refused) and outcome.kind is ErrorKind.CONFLICT:
            found = self._profiles.stored(profile)
            if isinstance(found, Refused):
                return found
            if found.uid != profile.uid or self._is_newer(state, found):
                # What this process remembers of the job is older than what is stored.
                state.superseded_by = found
                return outcome
            # Labels have changed, or the answer to the last write was lost.
            profile = found
            outcome = self._profiles.write_status(profile, status)
        if isinstance(outcome, Written):
            version = outcome.resource_version
            state.profile = msgspec.structs.replace(profile, resource_version=version)
        return outcome

    def _is_newer(self, state: JobState, profile: TrainingProfile) -> bool:
        """Whether the profile stores what this state does not know: it is another instance's, or
        the state was made from an older copy and has written nothing yet."""
        if profile.status == ProfileStatus():
            return False
        return state.stored_at is None or profile.status.written_by != self._instance

    def _create(self, state: JobState, now: float) -> TrainingProfile | None:
        if state.name_taken_at is not None and now - state.name_taken_at < _NAME_TAKEN_SECONDS:
            return None
        created = self._profiles.create(state.training_job)
        if isinstance(created, TrainingProfile):
            return created
        state.unwritten = str(created)
        if isinstance(created, NameTaken):
            # The first time it may be that of a job of this name that was deleted a moment ago.
            if state.name_taken_at is not None and not self._delete_leftover(created):
                until = "this job is not managed until that one is deleted"
                self._warn_once(state.training_job, "ProfileNameTaken", f"{created}; {until}")
            state.name_taken_at = now
        else:
            self._refused(created)
        return None

    def _delete_leftover(self, taken: NameTaken) -> bool:
        """Delete the profile of a job that is gone; false where that job exists."""
        if self._job_uids is None or taken.holder.job.uid in self._job_uids:
            return False
        outcome = self._profiles.delete(taken.holder)
        if isinstance(outcome, Refused):
            self._refused(outcome)
            return False
        return True

    def emit(self, state: JobState, event: EmitEvent) -> None:
        """Write the Event that a rescale emits."""
        kind = EventType.WARNING if event.warning else EventType.NORMAL
        self._emit(state.training_job, kind, event.reason, event.message)

    def rescale_ended(self, state: JobState, end: End) -> None:
        """Count and log how a rescale ended, and put an Event on the job."""
        self._metrics.rescales.labels(end.outcome.value).inc()
        ending = f"{end.outcome.value} ({end.reason})"
        _LOG.info("job %s: rescale %s ended: %s", state.job.key, end.record.id, ending)
        if end.outcome is Outcome.REACHED:
            message = f"{end.record.change}: {end.reason}"
            self._emit(state.training_job, EventType.NORMAL, "Rescaled", message)
        elif end.outcome is Outcome.SUSPENDED:
            message = "its goal is met; to continue training, set runPolicy.suspend to false"
            self._emit(state.training_job, EventType.NORMAL, "SuspendedAtTarget", message)
        elif end.outcome in (Outcome.ABANDONED, Outcome.USER):
            self._emit(state.training_job, EventType.NORMAL, "RescaleEnded", end.reason)

    def straggler_found(self, state: JobState) -> None:
        """Warn of a worker that is far slower than the others."""
        self._warn_once(state.training_job, "StragglerFound", state.straggler)

    def completion_requested(self, state: JobState) -> None:
        """Say that a job's pods have been requested to end."""
        goal = goal_text(state.job.goal)
        message = f"{goal} is met: its pods are notified by {_COMPLETION_ANNOTATION}"
        self._emit_once(state.training_job, EventType.NORMAL, "GoalMet", message)

    def not_completed(self, state: JobState) -> None:
        """Warn of a job that was requested to end and trains on."""
        message = (
            f"it was notified {state.limits.completion_seconds:.0f} s ago and has not ended; it "
            "continues as with at-target: continue. Its script has to end with exit code 0 once "
            f"the file of {_COMPLETION_ANNOTATION} has content"
        )
        self._warn_once(state.training_job, "NotCompleted", message)

    def completion_not_requested(self, state: JobState, why: Refused) -> None:
        """Warn of a job whose pods cannot be requested to end."""
        self._refused(why)
        if why.kind is not ErrorKind.TRANSIENT:
            message = f"its pods cannot be notified that its goal is met: {why}"
            self._warn_once(state.training_job, "NotCompleted", message)

    def left_alone(
        self, observation: Observation, moving: Collection[str], seconds: float = inf
    ) -> int:
        """Report to the users of jobs that are left alone why; returns how many there are.

        ``moving`` are jobs in a rescale that must be ended first: their profiles are not touched.
        What is not written within ``seconds`` is written at the next tick."""
        self._job_uids, began = observation.jobs.keys(), self._timer()
        open_jobs = [each for each in observation.jobs.values() if not each.outcome]
        alone = {each.uid for each in open_jobs if _is_left_alone(each) and each.uid not in moving}
        said = [each for each in open_jobs if each.uid in alone or each.hints or each.ignored]
        for training_job in alternating(said, attrgetter("namespace")):
            if self._timer() - began > seconds:
                break
            if training_job.uid in alone:
                self._report_left_alone(training_job, observation)
            if training_job.hints:
                hints = "; ".join(str(hint) for hint in training_job.hints)
                self._warn_once(training_job, "UnknownAnnotation", hints)
            if training_job.ignored:
                ignored = "; ".join(str(each) for each in training_job.ignored)
                self._warn_once(training_job, "AnnotationIgnored", ignored)
        self._warned = {
            key: message for key, message in self._warned.items() if key[0] in observation.jobs
        }
        return len(alone)

    def _report_left_alone(self, training_job: TrainingJob, observation: Observation) -> None:
        reason = training_job.left_alone or ""
        if self._warn_once(training_job, "LeftAlone", reason):
            known = observation.profiles.get(training_job.uid)
            self._write_left_alone(training_job, reason, known, observation.at)

    def _write_left_alone(
        self, training_job: TrainingJob, reason: str, known: TrainingProfile | None, at: float
    ) -> None:
        profile = known or self._profiles.create(training_job)
        outcome: object = profile
        if isinstance(profile, TrainingProfile):
            status = msgspec.structs.replace(
                profile.status,
                phase=Phase.LEFT_ALONE,
                conditions=_unmanaged(reason, profile.status.conditions, at),
                reason=reason,
                written_by=self._instance,
            )
            outcome = self._profiles.write_status(profile, status)
        if isinstance(outcome, Refused):
            self._refused(outcome)
        if not isinstance(outcome, Written):
            self._retry_later((training_job.uid, "LeftAlone"))

    def half_bound(self, training_job: TrainingJob, waited_seconds: float, *, runs: bool) -> None:
        """Warn of a job that holds only a part of its gang; ``runs``: a pod that trains does."""
        advice = (
            "the job trains on with them: free capacity for the others, or suspend and resume the "
            "job once it has saved a checkpoint"
            if runs
            else "the job does not train: free capacity for the others, or delete the job"
        )
        message = f"for {waited_seconds:.0f} s only some of its pods have had a node; {advice}"
        self._warn_once(training_job, "HalfPlaced", message)

    def _warn_once(self, training_job: TrainingJob, reason: str, message: str) -> bool:
        return self._emit_once(training_job, EventType.WARNING, reason, message)

    def _emit_once(
        self, training_job: TrainingJob, kind: EventType, reason: str, message: str
    ) -> bool:
        key = (training_job.uid, reason)
        if self._warned.get(key) == message or key in self._refused_lately:
            return False
        if not self._emit(training_job, kind, reason, message):
            self._retry_later(key)
            return False
        self._warned[key] = message
        return True

    def _retry_later(self, key: _EventKey) -> None:
        self._warned.pop(key, None)
        self._refused_lately[key] = None

    def _emit(self, training_job: TrainingJob, kind: EventType, reason: str, message: str) -> bool:
        """Returns false where the API server refused it."""
        level = logging.WARNING if kind is EventType.WARNING else logging.INFO
        _LOG.log(level, "job %s: %s: %s", training_job.key, reason, message)
        outcome = self._events.emit(training_job, kind, reason, message)
        if isinstance(outcome, Refused):
            self._refused(outcome)
        return not isinstance(outcome, Refused)

    def _refused(self, outcome: Refused) -> None:
        self._metrics.refusals.labels(outcome.kind.value).inc()
        _LOG.warning("%s", outcome)


def _is_left_alone(training_job: TrainingJob) -> bool:
    return bool(training_job.left_alone) and not training_job.deleted


def status_of(state: JobState, now: float) -> ProfileStatus:
    """What the profile of a managed job shows at ``now``, without the saved state.

    The same object as before where nothing has changed: it is asked for at every tick."""
    progress = state.progress(now)
    inputs, known = _status_inputs(state, progress), state.shown
    if known is not None and now < known.until and all(map(is_, inputs, known.inputs)):
        return known.status
    ends = (each.until for each in state.record.avoided if each.until > now)
    until = min(ends, default=inf)
    state.shown = Shown(_status_of(state, progress, now), inputs, until)
    return state.shown.status


_NOT_SHOWN: Final = {
    "log": "its progress is looked at",
    "seen": "what it has seen",
    "run": "only whether there is one",
    "rescale": "its record is looked at; the rest changes from tick to tick",
    "profile": "what is stored",
    "stored": "what is stored",
    "stored_at": "what is stored",
    "shown": "what is made",
    "with_earlier": "its progress is looked at",
}
"""Fields of a job's state that no status is made of, and why. All others count as such."""

_shown_fields: Final = attrgetter(
    *(each.name for each in fields(JobState) if each.name not in _NOT_SHOWN)
)


def _status_inputs(state: JobState, progress: TrainingProgress) -> tuple[object, ...]:
    """All that a status is made of. Each value is immutable."""
    rescale = state.rescale
    moving = (None, False) if rescale is None else (rescale.record, rescale.needs_checkpoint)
    return progress, state.run is None, *moving, *_shown_fields(state)


def _status_of(state: JobState, progress: TrainingProgress, now: float) -> ProfileStatus:
    forecast = state.shown_forecast
    target, record = state.rescaling_to, state.record
    saved_at, phase, goal = progress.checkpoint_at, phase_of(state), goal_text(state.job.goal)
    before = state.stored if state.shown is None else state.shown.status
    return ProfileStatus(
        phase=phase,
        conditions=_conditions_of(state, phase, goal, before.conditions if before else (), now),
        reason=_reason(state),
        interval_id=state.interval_id,
        decided_at=_second(state.decided_at),
        ps=state.job.counts.ps,
        workers=state.job.counts.workers,
        target_ps=target.ps if target else None,
        target_workers=target.workers if target else None,
        loss=_significant(current_loss(progress)),
        goal=goal,
        metric=_metric_text(state, progress),
        deadline=_deadline_text(state),
        declared_end=_declared_end(state),
        progress_percent=None if forecast is None else _percent(forecast),
        steps_per_second=_significant(_present_speed(state, progress)),
        remaining_seconds=_remaining_seconds(state, forecast),
        rescales=record.rescales,
        last_rescaled_at=_second(record.last_rescaled_at),
        rescale=None if state.rescale is None else pack_rescale(state.rescale.record),
        checkpoint_step=progress.checkpoint_step,
        checkpointed_at=None if saved_at is None else format_instant(saved_at),
        trained_seconds=round(progress.trained_seconds, 1),
        complaint=progress.diagnostic or "",
        failed_counts=tuple(str(each) for each in record.failed_counts),
        earlier_runs=0 if forecast is None else forecast.earlier_runs,
        recommended=_recommended(state),
        straggler=state.straggler,
        avoided_nodes=tuple(
            AvoidedNode(each.node, format_second(each.until))
            for each in record.avoided
            if each.until > now
        ),
    )


# Conditions, by the conventions of the Kubernetes API. Placed: all pods of the job have nodes.
# Progressing: it trains. Forecast: its remaining time is predicted. GoalMet: its goal is met.
# lastTransitionTime is when the status became what it is; a new reason leaves it as it was.
_TRAINS: Final = frozenset(
    {Phase.TRAINING, Phase.PROFILING, Phase.AT_TARGET, Phase.WAITING_FOR_CHECKPOINT}
)
_ENDED: Final = frozenset({Phase.COMPLETED, Phase.FAILED})


class _Found(NamedTuple):
    """What a condition should say."""

    status: Truth
    reason: str
    message: str


def _conditions_of(
    state: JobState, phase: Phase, goal: str, before: Sequence[Condition], now: float
) -> tuple[Condition, ...]:
    """The conditions of a managed job; ``goal`` is its goal as users read it.

    ``before`` are those that its profile shows: what is not known yet after a restart stays."""
    known = {each.type: each for each in before}
    found = {
        ConditionType.FORECAST: _forecast(state, known.get(ConditionType.FORECAST)),
        ConditionType.PLACED: _placed(state, phase),
        ConditionType.PROGRESSING: _progressing(phase),
        ConditionType.GOAL_MET: _goal_met(state, goal, known.get(ConditionType.GOAL_MET)),
    }
    return tuple(_merged(found, known, now))


def _unmanaged(why: str, before: Sequence[Condition], now: float) -> tuple[Condition, ...]:
    """The conditions of a job that is left alone: nothing is known of it."""
    known = {each.type: each for each in before}
    found = _Found(Truth.UNKNOWN, Phase.LEFT_ALONE.value, why)
    return tuple(_merged(dict.fromkeys(ConditionType, found), known, now))


def _merged(
    found: dict[ConditionType, _Found], known: dict[ConditionType, Condition], now: float
) -> Iterator[Condition]:
    for name, (status, reason, message) in found.items():
        before = known.get(name)
        same = before is not None and before.status is status
        since = before.last_transition_time if before and same else format_second(now)
        yield Condition(name, status, reason, message, since)


def _forecast(state: JobState, before: Condition | None) -> _Found:
    forecast = state.shown_forecast
    if forecast is not None:
        if forecast.goal_met:
            return _Found(Truth.TRUE, "GoalMet", "nothing remains: its goal is met")
        if forecast.unlikely:
            message = f"{forecast.unlikely}; remainingSeconds is the time to its declared end"
            return _Found(Truth.TRUE, "GoalUnlikely", message)
        is_earlier = forecast.curve is None and forecast.earlier_runs > 0
        reason = "FromEarlierRuns" if is_earlier else "FromTraining"
        return _Found(Truth.TRUE, reason, "its remaining time is predicted: remainingSeconds")
    if isinstance(state.forecast, NotReady):
        return _Found(Truth.FALSE, "NotReady", str(state.forecast))
    return _kept(before) or _Found(Truth.UNKNOWN, "NotDecided", "no interval has decided on it yet")


def _placed(state: JobState, phase: Phase) -> _Found:
    if state.is_placed and phase not in _ENDED:
        return _Found(Truth.TRUE, "AllPodsPlaced", "all its pods have nodes")
    if phase is Phase.WAITING:
        return _Found(Truth.FALSE, phase.value, state.waits_for or "not all its pods have nodes")
    return _Found(Truth.FALSE, phase.value, "not all pods of its present counts have nodes")


def _progressing(phase: Phase) -> _Found:
    if phase in _TRAINS:
        return _Found(Truth.TRUE, phase.value, "its pods train")
    return _Found(Truth.FALSE, phase.value, "its pods do not train in this phase")


def _goal_met(state: JobState, goal: str, before: Condition | None) -> _Found:
    met, unmet = f"{goal} is met", f"{goal} is not met yet"
    if isinstance(state.forecast, Forecast):
        if state.forecast.goal_met:
            return _Found(Truth.TRUE, "GoalMet", met)
        return _Found(Truth.FALSE, "NotMet", unmet)
    if before is not None and before.message in (met, unmet):
        return _Found(before.status, before.reason, before.message)
    return _Found(Truth.FALSE, "NotMet", unmet)


def _kept(before: Condition | None) -> _Found | None:
    if before is None or before.reason == Phase.LEFT_ALONE.value:
        return None
    return _Found(before.status, before.reason, before.message)


def _metric_text(state: JobState, progress: TrainingProgress) -> str:
    """The metric that the goal is about, by the log's own name for it, and its newest value."""
    found = current_value(state.job.goal, progress)
    return "" if found is None else f"{found[0]} {found[1]:.4g}"


def _changed_text(state: JobState) -> str:
    """What was done to a job whose replicas were changed while it ran, and what follows."""
    job = state.training_job
    present = NO_COUNTS if job.job is None else job.job.counts
    then = f"it is stopped and begun again at {present} from its newest checkpoint"
    if job.outcome is not None:
        then = "the training operator has failed it for that"
    elif state.job.rescale is RescaleRule.NEVER or state.is_ending or state.held:
        then = "the training operator may fail it for that; to prevent it, suspend the job"
    return (
        f"its replicas were changed from {state.changed_from} to {present} while it ran; {then}. "
        "The admission policy optimus-replicas refuses such changes where it is installed"
    )


def _urgent(status: ProfileStatus) -> tuple[object, ...]:
    """What a user should see at once; everything else can wait for the next regular write."""
    decided = (status.phase, status.reason, status.interval_id, status.complaint, status.goal)
    recommended = status.recommended and (status.recommended.ps, status.recommended.workers)
    counts = (status.ps, status.workers, status.target_ps, status.target_workers, recommended)
    slow = status.straggler, status.avoided_nodes
    met = [each.status for each in status.conditions if each.type is ConditionType.GOAL_MET]
    return *decided, *counts, status.rescale, status.rescales, *slow, *met


def phase_of(state: JobState) -> Phase:
    """The phase that the job's profile shows."""
    if state.training_job.outcome is not None:
        return Phase.COMPLETED if state.training_job.outcome == "Succeeded" else Phase.FAILED
    if state.rescale is not None and not _is_about_to_begin(state.rescale):
        return state.rescale.record.phase
    if state.training_job.suspended:
        return Phase.SUSPENDED
    if state.run is None:
        return Phase.WAITING
    if isinstance(state.forecast, Forecast) and state.forecast.goal_met:
        return Phase.AT_TARGET
    return Phase.TRAINING if state.record.profiling_since is None else Phase.PROFILING


def _is_about_to_begin(rescale: Rescale) -> bool:
    """Decided, not begun, and with no checkpoint to wait for: the next tick begins it."""
    return rescale.record.step is Step.CHECKPOINT and not rescale.needs_checkpoint


def _reason(state: JobState) -> str:
    if state.training_job.outcome is not None:
        return state.training_job.message
    if state.rescale is not None:
        record = state.rescale.record
        why = f"{record.change}: {record.why}"
        return f"returning to {record.before} ({why})" if record.rolling_back else why
    if state.training_job.suspended:
        # A job that we suspended carries our annotation; one that its user resumed and suspended
        # again does not.
        is_ours = state.record.suspended_at_target and state.training_job.suspended_by is not None
        return "suspended: its goal is met" if is_ours else why_suspended(state.job)
    if state.waits_for:
        return state.waits_for
    if state.run is not None and state.record.profiling_since is not None:
        return f"measuring its speed at {state.job.counts}"
    if state.decision is not None:
        if state.decision.recommended is not None:
            return str(state.decision.recommended)
        return state.held or f"{state.decision.reason}{_prospects(state)}"
    return str(state.forecast) if isinstance(state.forecast, NotReady) else ""


def _prospects(state: JobState) -> str:
    """What the reason of a decision adds of the job's goal and deadline."""
    forecast = state.shown_forecast
    unlikely = "" if forecast is None or not forecast.unlikely else f"; {forecast.unlikely}"
    return f"{unlikely}{_lateness(state)}{_basis(state)}"


def _lateness(state: JobState) -> str:
    """What the reason of a decision adds where the deadline is not met."""
    found = None if state.decision is None else state.decision.deadline
    if found is None or not found.is_at_risk:
        return ""
    return "; its deadline is at risk" if found.possible else "; no counts meet its deadline"


def _deadline_text(state: JobState) -> str:
    """The deadline, and whether it is met by the last decision; empty without one."""
    if state.job.finish_by is None:
        return ""
    by = format_second(state.job.finish_by)
    found = None if state.decision is None else state.decision.deadline
    if found is None or found.finish_by != state.job.finish_by or state.decided_at is None:
        return by
    if found.seconds <= 0:
        return f"{by}: it has passed"
    if not isfinite(found.late_seconds):
        forecast = state.forecast
        until = forecast.time_to_goal if isinstance(forecast, Forecast) else None
        chance = "less than 90 %" if until is None else f"{until.in_run:.0%}"
        return f"{by}: at risk: its goal is met before its run ends with a probability of {chance}"
    late = f"{found.late_seconds:.0f} s with a probability of 90 %"
    left = f"{found.seconds:.0f} s are left"
    if found.fastest is None:
        return f"{by}: met at {found.counts}, which need at most {late}; {left}"
    if not found.is_at_risk:
        return f"{by}: {found.counts} need up to {late}, and {left}; its counts are to be decided"
    if found.possible:
        return (
            f"{by}: at risk: {found.counts} need up to {late}, and {left}; {found.fastest} would "
            "meet it if they could be had"
        )
    needed = found.fastest_seconds
    return f"{by}: no counts meet it: {found.fastest} would need {needed:.0f} s, and {left}"


def _declared_end(state: JobState) -> str:
    """The declared end of a run, and what it means for a goal in one value of the log; else
    empty."""
    forecast = state.forecast
    if not isinstance(forecast, Forecast) or not isinstance(forecast.curve, AnnealedCurve):
        return ""
    if forecast.time_to_goal is None or not isinstance(state.job.goal, LossGoal | TargetMetric):
        return ""
    end, unit = forecast.curve.schedule.end, "epochs" if forecast.curve.in_epochs else "steps"
    if forecast.unlikely:
        return f"after {end:g} {unit}; {forecast.unlikely}"
    met = forecast.time_to_goal.in_run
    return f"after {end:g} {unit}; its goal is met by then with a probability of {met:.0%}"


def _basis(state: JobState) -> str:
    """What a forecast rests on, where it is not the job's own losses."""
    forecast = state.forecast
    if not isinstance(forecast, Forecast) or forecast.goal_met or forecast.curve is not None:
        return ""
    runs = forecast.earlier_runs
    return f"; forecast from {runs} earlier run{'s' if runs != 1 else ''}" if runs else ""


def _used_text(state: JobState, progress: TrainingProgress) -> str:
    """What earlier runs say of a job."""
    runs, job = len(state.earlier), state.job
    samples = samples_of(state.earlier)
    counts = len({each.counts for each in samples})
    of_runs = f"{runs} earlier run{'s' if runs != 1 else ''} of workload {job.workload}"
    parts = [f"from {of_runs}: {len(samples)} speed samples at {counts} pairs of counts"]
    goal = job.goal if isinstance(job.goal, LossGoal) else None
    found = None if goal is None else goal_from_earlier(progress, goal)
    if found is not None:
        time_to_goal, unit = found
        low, high = time_to_goal.low, time_to_goal.high
        parts.append(f"its goal is expected after {low:.4g} to {high:.4g} {unit}")
    if state.speed_is_known:
        parts.append("its speed is not profiled")
    return "; ".join(parts)


def _without_earlier_runs(state: JobState) -> str:
    young = len(state.record.profiled) == 0 and state.record.rescales == 0
    return "and its speed is measured" if young else "only its own measurements"


def _recommended(state: JobState) -> RecommendationStatus | None:
    found = None if state.decision is None else state.decision.recommended
    if found is None:
        return None
    seconds = (found.seconds_now, found.seconds_then)
    now, then = (round(each) if each is not None and isfinite(each) else None for each in seconds)
    return RecommendationStatus(
        found.counts.ps, found.counts.workers, found.action.value, now, then
    )


def goal_text(goal: Goal | None) -> str:
    """A goal as users read it."""
    match goal:
        case TargetLoss(loss=loss):
            return f"loss <= {loss:g}"
        case ConvergenceThreshold(fraction=fraction):
            return f"falls < {100 * fraction:g} %"
        case TargetMetric(name=name, value=value, at_least=at_least):
            return f"{name} {'>=' if at_least else '<='} {value:g}"
        case TwoTargets(first=first, second=second, both=both):
            return f"{goal_text(first)} {'and' if both else 'or'} {goal_text(second)}"
        case TargetEpochs(epochs=epochs):
            return f"{epochs:g} epochs"
        case TargetSteps(steps=steps):
            return f"{steps} steps"
        case None:
            return ""


def _present_speed(state: JobState, progress: TrainingProgress) -> float | None:
    here = [sample for sample in progress.samples if sample.counts == state.job.counts]
    return max(here, key=lambda sample: sample.at).steps_per_second if here else None


def _remaining_seconds(state: JobState, forecast: Forecast | None) -> int | None:
    if forecast is None:
        return None
    seconds = forecast.at(state.job.counts)
    return round(seconds) if seconds < float("inf") else None


def _percent(forecast: Forecast) -> int:
    """Rounded, but 100 only once the goal is met."""
    return 100 if forecast.goal_met else min(round(100 * forecast.progress_fraction), 99)


def _significant(value: float | None) -> float | None:
    """Four digits: more would be noise, and would change the profile at every tick."""
    return None if value is None else float(f"{value:.4g}")


def _second(instant: float | None) -> str | None:
    return None if instant is None else format_second(instant)
