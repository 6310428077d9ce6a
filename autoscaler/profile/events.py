"""Tells the users of jobs what happens to them: Events, and their sentences."""

import logging
import time
from collections.abc import Callable, Container
from typing import Final, NamedTuple, Protocol, TypeAlias

from cachetools import LRUCache, TTLCache

from autoscaler.jobs.state import JobState
from autoscaler.metrics import Metrics
from autoscaler.profile.status import deadline_text, declared_end
from optimus.jobs import NO_COUNTS, AtTarget, Counts, LossGoal, RescaleRule, goal_text
from optimus.kube.contract import Annotation
from optimus.kube.errors import ErrorKind
from optimus.kube.events import EventType, Subject
from optimus.kube.profiles import BooksStatus, ProfileStatus
from optimus.kube.results import Refused, Written
from optimus.kube.training_jobs import TrainingJob
from optimus.models.forecast import goal_from_earlier
from optimus.models.prior import samples_of
from optimus.progress.types import TrainingProgress
from optimus.rescale.words import End, Notice, Notify, Outcome, PauseReason

_LOG = logging.getLogger(__name__)
REFUSED_SECONDS: Final = 30.0
"""How long a write that the API server refused is not tried again."""

MOST_REFUSED: Final = 10_000
_CONTINUES: Final = (
    f"it continues; with {Annotation.AT_TARGET} suspend or complete its capacity would be free now"
)
_COMPLETION_ANNOTATION: Final = f"the annotation {Annotation.GOAL_MET}"
_EventKey: TypeAlias = tuple[str, str]
"""A job's UID and the reason of an Event."""


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


_LET_IT_GO_ON: Final = (
    "counts are only recommended now; once the cause is found, delete the TrainingProfiles of "
    "those jobs to let Optimus go on"
)


class JobEvent(NamedTuple):
    """An Event to be put on a job."""

    kind: EventType
    reason: str
    message: str


class JobEvents:
    """Puts Events on jobs; ``timer`` times the back-off after a refusal."""

    def __init__(
        self, events: Events, metrics: Metrics, timer: Callable[[], float] = time.monotonic
    ) -> None:
        self._events, self._metrics = events, metrics
        self._warned: dict[_EventKey, str] = {}
        self._recommended: LRUCache[str, Counts] = LRUCache(MOST_REFUSED)
        self._late: LRUCache[str, tuple[float, bool]] = LRUCache(MOST_REFUSED)
        self._limited_by: LRUCache[str, str] = LRUCache(MOST_REFUSED)
        self._refused_lately: TTLCache[_EventKey, None] = TTLCache(
            MOST_REFUSED, REFUSED_SECONDS, timer=timer
        )

    def report(self, state: JobState, status: ProfileStatus, now: float) -> None:
        """Tell what is new of a job, by what its profile should show."""
        job = state.training_job
        if status.complaint:
            self._warn_once(job, "LogNotUnderstood", status.complaint)
        if state.progress(now).is_too_large:
            self._warn_once(job, "LogTooLarge", _TOO_LARGE)
        self._recommend(state)
        self._report_quota(state)
        self._report_released(state)
        self._report_deadline(state)
        self._report_unlikely(state)
        self._report_met(state)
        if state.gang.changed_from is not None:
            self._warn_once(job, "ReplicasChanged", _changed_text(state))
        if state.braked:
            self._warn_once(job, "NotMoved", f"{state.braked}; {_LET_IT_GO_ON}")
        if status.books is not None and job.outcome is not None:
            self._report_end(state, status.books)
        self._report_earlier_runs(state, now)

    def forget_others(self, uids: Container[str]) -> None:
        """Forget what was said of jobs that are gone; ``uids`` are those of all jobs."""
        self._warned = {key: text for key, text in self._warned.items() if key[0] in uids}

    def notify(self, state: JobState, told: Notify) -> None:
        """Tell what happens in a rescale."""
        self.emit(state, rescale_event(told))

    def emit(self, state: JobState, event: JobEvent) -> None:
        """Put an Event on a job."""
        self.emit_on(state.training_job, event)

    def emit_on(self, job: TrainingJob, event: JobEvent) -> None:
        """The same for a job that need not be managed."""
        self._emit(job, *event)

    def emit_once(self, state: JobState, event: JobEvent) -> None:
        """Put an Event on a job, unless it was the last one of its reason."""
        self._emit_once(state.training_job, *event)

    def rescale_ended(self, state: JobState, end: End) -> None:
        """Count and log how a rescale ended, and put an Event on the job."""
        self._metrics.rescales.labels(end.outcome.value).inc()
        ending = f"{end.outcome.value} ({end.reason})"
        _LOG.info("job %s: rescale %s ended: %s", state.job.key, end.record.id, ending)
        job, record = state.training_job, end.record
        if end.outcome is Outcome.REACHED and record.resumes:
            self._emit(job, EventType.NORMAL, "Resumed", f"{record.change}: {end.reason}")
        elif end.outcome is Outcome.REACHED:
            self._emit(job, EventType.NORMAL, "Rescaled", f"{record.change}: {end.reason}")
        elif end.outcome is Outcome.PAUSED and record.pause is PauseReason.GOAL:
            message = "its goal is met; to continue training, set runPolicy.suspend to false"
            self._emit(job, EventType.NORMAL, "SuspendedAtTarget", message)
        elif end.outcome is Outcome.PAUSED and record.pause is PauseReason.POLICY:
            self._emit(job, EventType.NORMAL, "Paused", record.why)
        elif end.outcome in (Outcome.ABANDONED, Outcome.USER):
            self._emit(state.training_job, EventType.NORMAL, "RescaleEnded", end.reason)

    def _report_end(self, state: JobState, books: BooksStatus) -> None:
        """One Event with what moving a job has saved, and the sums over all that have ended."""
        key, job = (state.job.uid, "Ended"), state.training_job
        if key not in self._warned:
            sign = "sooner" if books.saved_seconds > 0 else "later"
            self._metrics.ended_seconds.labels(sign).inc(abs(books.saved_seconds))
        self._emit_once(job, EventType.NORMAL, "Ended", f"ended {books.text}")

    def _report_earlier_runs(self, state: JobState, now: float) -> None:
        """One Event when earlier runs of its workload are used, one when they are dropped."""
        job, key = state.training_job, (state.job.uid, "EarlierRunsUsed")
        if state.record.differs:
            effect = f"earlier runs are not used any more, {_without_earlier_runs(state)}"
            text = f"{state.record.differs}; {effect}"
            self._emit_once(job, EventType.NORMAL, "EarlierRunsDropped", text)
        elif state.forecasts.earlier.earlier and key not in self._warned:
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

    def _report_released(self, state: JobState) -> None:
        """One Event when a job is not held to a kind of nodes any more."""
        if state.released:
            text = f"{state.released}: it may go to any that fit"
            self._emit_once(state.training_job, EventType.NORMAL, "KindReleased", text)

    def _report_deadline(self, state: JobState) -> None:
        """An Event when a deadline is not met for the first time, and when no counts meet it."""
        found = None if state.decision is None else state.decision.deadline
        if found is None or not found.is_at_risk:
            return
        key, uid = (found.finish_by, found.possible), state.job.uid
        if self._late.get(uid) != key and self._emit(
            state.training_job, EventType.WARNING, "DeadlineAtRisk", deadline_text(state)
        ):
            self._late[uid] = key

    def _report_unlikely(self, state: JobState) -> None:
        """One Event when a job is expected to end without having met its goal."""
        forecast, key = state.shown_forecast, (state.job.uid, "GoalUnlikely")
        if forecast is not None and forecast.unlikely and key not in self._warned:
            text = f"{declared_end(state)}; until then it is treated as any job"
            self._emit_once(state.training_job, EventType.WARNING, "GoalUnlikely", text)

    def _report_met(self, state: JobState) -> None:
        """One Event when a job that continues has met its goal: it may hold what others need."""
        forecast = state.shown_forecast
        if (
            forecast is None
            or not forecast.goal_met
            or state.job.at_target is not AtTarget.CONTINUE
        ):
            return
        text = f"{goal_text(state.job.goal)} is met: {_CONTINUES}"
        self._emit_once(state.training_job, EventType.NORMAL, "GoalMet", text)

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
        self.refused(why)
        if why.kind is not ErrorKind.TRANSIENT:
            message = f"its pods cannot be notified that its goal is met: {why}"
            self._warn_once(state.training_job, "NotCompleted", message)

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

    def not_created(self, job: TrainingJob, why: str) -> None:
        """Warn of a job of which pods are missing."""
        self._warn_once(job, "PodsNotCreated", why)

    def holds_quota(self, job: TrainingJob, first: TrainingJob) -> None:
        """Warn of a job that holds what an earlier gang lacks, and may not be paused."""
        message = (
            f"it holds a part of a quota that job {first.name} lacks, which came first, and neither"
            f" can start: suspend it until {first.name} runs ({job.suspend_line}), or raise the"
            " quota. A job with a goal (optimus.dl/target) is paused and resumed by itself"
        )
        self._warn_once(job, "HoldsQuota", message)

    def left_alone(self, job: TrainingJob, why: str) -> bool:
        """Warn of a job that is left alone; whether that is new."""
        return self._warn_once(job, "LeftAlone", why)

    def left_alone_unwritten(self, job: TrainingJob) -> None:
        """Say it again after a while: its profile could not be written."""
        self._retry_later((job.uid, "LeftAlone"))

    def name_taken(self, job: TrainingJob, why: str) -> None:
        """Warn of a job whose profile's name another job's has."""
        self._warn_once(job, "ProfileNameTaken", why)

    def annotations(self, job: TrainingJob) -> None:
        """Warn of annotations that are not known, or not used."""
        if job.hints:
            self._warn_once(job, "UnknownAnnotation", "; ".join(map(str, job.hints)))
        if job.ignored:
            self._warn_once(job, "AnnotationIgnored", "; ".join(map(str, job.ignored)))

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
            self.refused(outcome)
        return not isinstance(outcome, Refused)

    def refused(self, outcome: Refused) -> None:
        """Count and log what the API server refused."""
        self._metrics.refusals.labels(outcome.kind.value).inc()
        _LOG.warning("%s", outcome)


def rescale_event(told: Notify) -> JobEvent:
    """The Event that tells what happens in a rescale."""
    notice, record = _NOTICES[told.notice], told.record
    if told.notice is Notice.BEGINS and record.pauses and record.pause is PauseReason.GANG:
        return JobEvent(EventType.NORMAL, "Preempted", record.why)
    return JobEvent(notice.kind, notice.reason, notice.sentence(told))


class _Told(NamedTuple):
    """How a notice is told."""

    kind: EventType
    reason: str
    sentence: Callable[[Notify], str]


def _pods_do_not_end(told: Notify) -> str:
    pending, advice = (
        "the training operator's confirmation",
        "check that the training operator runs",
    )
    if told.detail:
        pending = f"the end of {told.detail}"
        advice = (
            "remove finalizers; delete lost nodes or taint them node.kubernetes.io/out-of-service"
        )
    return f"suspended, waiting for {pending}: {advice}"


def _job_failed(told: Notify) -> str:
    record, because = told.record, f": {told.detail}" if told.detail else ""
    return (
        f"the job failed {told.seconds:.0f} s after rescale {record.id} ({record.change}){because}"
        ": with restartPolicy OnFailure or ExitCode it would have returned to its previous counts"
    )


def _containers_fail(told: Notify) -> str:
    record = told.record
    return (
        f"rescale {record.id} ({record.change}) is undone: {record.failure}; returning to "
        f"{record.return_counts}, and {record.target} are not used again"
    )


def _rolls_back(what: Callable[[Notify], str]) -> _Told:
    return _Told(EventType.WARNING, "RollingBack", what)


_NOTICES: Final[dict[Notice, _Told]] = {
    Notice.BEGINS: _Told(
        EventType.NORMAL, "Rescaling", lambda told: f"{told.record.change}: {told.record.why}"
    ),
    Notice.NO_CHECKPOINT: _Told(
        EventType.WARNING,
        "WaitingForCheckpoint",
        lambda told: (
            f"no checkpoint seen for {told.seconds:.0f} s: print a line such as 'checkpoint=1200' "
            "after each save, name your line by optimus.dl/checkpoint-format, or set "
            "optimus.dl/rescale to any or never"
        ),
    ),
    Notice.PODS_DO_NOT_END: _Told(EventType.WARNING, "PodsDoNotEnd", _pods_do_not_end),
    Notice.TAKEN_BACK: _Told(
        EventType.WARNING,
        "SuspensionTakenBack",
        lambda told: f"not confirmed by the training operator for {told.seconds:.0f} s: taken back",
    ),
    Notice.OPERATOR_AWAY: _Told(
        EventType.WARNING,
        "OperatorAway",
        lambda told: (
            f"resumed, but the training operator has not acted on it, {told.seconds:.0f} s after "
            "the rescale began: check that the training operator runs"
        ),
    ),
    Notice.PATCH_REFUSED: _Told(
        EventType.WARNING,
        "RescaleRefused",
        lambda told: f"the API server refused the change to the job: {told.detail}; retrying",
    ),
    Notice.COUNTS_REFUSED: _rolls_back(
        lambda told: (
            f"the API server refused {told.record.target}: {told.detail}; returning to "
            f"{told.record.before}"
        )
    ),
    Notice.NOT_PLACED: _rolls_back(
        lambda told: (
            f"{told.record.target} not placed within {told.seconds:.0f} s: returning to "
            f"{told.record.return_counts}"
        )
    ),
    Notice.CONTAINERS_FAIL: _rolls_back(_containers_fail),
    Notice.WORKERS_DO_NOT_END: _Told(
        EventType.WARNING,
        "PodsDoNotEnd",
        lambda told: (
            f"for {told.seconds:.0f} s waiting for the end of {told.detail}: remove finalizers; "
            "delete lost nodes or taint them node.kubernetes.io/out-of-service"
        ),
    ),
    Notice.UNWANTED: _Told(
        EventType.NORMAL,
        "RescaleEnded",
        lambda told: f"{told.detail}: returning to {told.record.return_counts}",
    ),
    Notice.NOT_STORED: _Told(
        EventType.WARNING,
        "ProfileNotWritable",
        lambda told: (
            f"for {told.seconds:.0f} s its TrainingProfile cannot be written: {told.detail}; the "
            "rescale goes on without a record"
        ),
    ),
    Notice.JOB_FAILED: _Told(EventType.WARNING, "FailedAfterRescale", _job_failed),
}


def _changed_text(state: JobState) -> str:
    """What was done to a job whose replicas were changed while it ran, and what follows."""
    job = state.training_job
    present = NO_COUNTS if job.job is None else job.job.counts
    then = f"it is stopped and begun again at {present} from its newest checkpoint"
    if job.outcome is not None:
        then = "the training operator has failed it for that"
    elif state.job.rescale is RescaleRule.NEVER or state.gang.is_ending or state.held:
        then = "the training operator may fail it for that; to prevent it, suspend the job"
    before = state.gang.changed_from
    return (
        f"its replicas were changed from {before} to {present} while it ran; {then}. "
        "The admission policy optimus-replicas refuses such changes where it is installed"
    )


def _used_text(state: JobState, progress: TrainingProgress) -> str:
    """What earlier runs say of a job."""
    runs, job = len(state.forecasts.earlier.earlier), state.job
    samples = samples_of(state.forecasts.earlier.earlier)
    counts = len({each.counts for each in samples})
    of_runs = f"{runs} earlier run{'s' if runs != 1 else ''} of workload {job.workload}"
    parts = [f"from {of_runs}: {len(samples)} speed samples at {counts} pairs of counts"]
    goal = job.goal if isinstance(job.goal, LossGoal) else None
    found = None if goal is None else goal_from_earlier(progress, goal)
    if found is not None:
        time_to_goal, unit = found
        low, high = time_to_goal.low, time_to_goal.high
        parts.append(f"its goal is expected after {low:.4g} to {high:.4g} {unit}")
    if state.forecasts.earlier.speed_is_known:
        parts.append("its speed is not profiled")
    return "; ".join(parts)


def _without_earlier_runs(state: JobState) -> str:
    young = len(state.record.profiled) == 0 and state.record.rescales == 0
    return "and its speed is measured" if young else "only its own measurements"
