"""Tells the users of jobs what happens to them: Events, and their sentences."""

import logging
import time
from collections.abc import Callable, Container
from typing import Final, NamedTuple, Protocol, TypeAlias

from cachetools import TTLCache

from autoscaler.jobs.state import JobState
from autoscaler.metrics import Metrics
from autoscaler.profile.status import deadline_text, declared_end
from optimus.jobs import NO_COUNTS, AtTarget, LossGoal, RescaleRule, goal_text
from optimus.kube.contract import Annotation
from optimus.kube.errors import ErrorKind
from optimus.kube.events import EventType, Subject
from optimus.kube.profiles import ProfileStatus
from optimus.kube.results import Refused, Written
from optimus.kube.training_jobs import TrainingJob
from optimus.models.forecast import goal_from_earlier
from optimus.models.prior import samples_of
from optimus.rescale.words import End, Notice, Notify, Outcome, PauseReason

_LOG = logging.getLogger(__name__)
REFUSED_SECONDS: Final = 30.0
"""How long a write that the API server refused is not tried again."""

MOST_REFUSED: Final = 10_000
_COMPLETION_ANNOTATION: Final = f"the annotation {Annotation.GOAL_MET}"
_EventKey: TypeAlias = tuple[str, str]
"""A job's UID and the reason of an Event."""


class Events(Protocol):
    """Writes Events; ``optimus.kube.events.EventWriter`` is one."""

    def emit(
        self, job: Subject, kind: EventType, reason: str, message: str
    ) -> Written | Refused | None:
        """Put an Event on the job."""


class JobEvent(NamedTuple):
    """An Event to be put on a job."""

    kind: EventType
    reason: str
    message: str


class _View(NamedTuple):
    """One job in this tick, and what its profile shows."""

    state: JobState
    status: ProfileStatus
    at: float


# --- the sentences, each empty where there is nothing to tell


def _log_too_large(view: _View) -> str:
    if not view.state.progress(view.at).is_too_large:
        return ""
    return (
        "a pod prints more than can be read: every few seconds the last lines of its log are read,"
        " and losses and checkpoints in between are missed; print fewer lines, such as one for"
        " every tenth step"
    )


def _failing(view: _View) -> str:
    failure = view.state.failure
    # Before its log is read, the reason that stands there is not known.
    awaits_log = failure is not None and not failure.last_words and view.state.last_words_awaited
    return "" if failure is None or awaits_log else str(failure)


def _recommended(view: _View) -> str:
    decision = view.state.decision
    found = None if decision is None else decision.recommended
    return "" if found is None or not found.changes else str(found)


def _quota_reached(view: _View) -> str:
    decision = view.state.decision
    return "" if decision is None or not decision.limited_by else decision.reason


def _kind_released(view: _View) -> str:
    released = view.state.released
    return f"{released}: it may go to any that fit" if released else ""


def _deadline_at_risk(view: _View) -> str:
    found = None if view.state.decision is None else view.state.decision.deadline
    return "" if found is None or not found.is_at_risk else deadline_text(view.state)


def _goal_unlikely(view: _View) -> str:
    forecast = view.state.shown_forecast
    if forecast is None or not forecast.unlikely:
        return ""
    return f"{declared_end(view.state)}; until then it is treated as any job"


def _goal_met(view: _View) -> str:
    """A job that continues may hold what others need."""
    state, forecast = view.state, view.state.shown_forecast
    continues = state.job.at_target is AtTarget.CONTINUE
    if forecast is None or not forecast.goal_met or not continues:
        return ""
    return (
        f"{goal_text(state.job.goal)} is met: it continues; with {Annotation.AT_TARGET} suspend or"
        " complete its capacity would be free now"
    )


def _replicas_changed(view: _View) -> str:
    """What was done to a job whose replicas were changed while it ran, and what follows."""
    state, job = view.state, view.state.training_job
    if state.gang.changed_from is None:
        return ""
    present = NO_COUNTS if job.job is None else job.job.counts
    then = f"it is stopped and begun again at {present} from its newest checkpoint"
    if job.outcome is not None:
        then = "the training operator has failed it for that"
    elif state.job.rescale is RescaleRule.NEVER or state.gang.is_ending or state.held:
        then = "the training operator may fail it for that; to prevent it, suspend the job"
    return (
        f"its replicas were changed from {state.gang.changed_from} to {present} while it ran;"
        f" {then}. The admission policy optimus-replicas refuses such changes where it is installed"
    )


def _not_moved(view: _View) -> str:
    if not view.state.braked:
        return ""
    return (
        f"{view.state.braked}; counts are only recommended now; once the cause is found, delete the"
        " TrainingProfiles of those jobs to let Optimus go on"
    )


def _ended(view: _View) -> str:
    books, outcome = view.status.books, view.state.training_job.outcome
    return "" if books is None or outcome is None else f"ended {books.text}"


def _earlier_runs_dropped(view: _View) -> str:
    state = view.state
    if not state.record.differs:
        return ""
    is_young = len(state.record.profiled) == 0 and state.record.rescales == 0
    then = "and its speed is measured" if is_young else "only its own measurements"
    return f"{state.record.differs}; earlier runs are not used any more, {then}"


def _earlier_runs_used(view: _View) -> str:
    state, earlier = view.state, view.state.forecasts.earlier
    runs, job = len(earlier.earlier), state.job
    if not runs or state.record.differs:
        return ""
    samples = samples_of(earlier.earlier)
    counts = len({each.counts for each in samples})
    of_runs = f"{runs} earlier run{'s' if runs != 1 else ''} of workload {job.workload}"
    parts = [f"from {of_runs}: {len(samples)} speed samples at {counts} pairs of counts"]
    goal = job.goal if isinstance(job.goal, LossGoal) else None
    found = None if goal is None else goal_from_earlier(state.progress(view.at), goal)
    if found is not None:
        time_to_goal, unit = found
        low, high = time_to_goal.low, time_to_goal.high
        parts.append(f"its goal is expected after {low:.4g} to {high:.4g} {unit}")
    if earlier.speed_is_known:
        parts.append("its speed is not profiled")
    return "; ".join(parts)


class _Rule(NamedTuple):
    """When an Event is put on a job, and what it says."""

    kind: EventType
    sentence: Callable[[_View], str]
    cause: Callable[[JobState], object] | None = None
    """What has to be another for another Event; ``None``: the sentence."""


def _once(_: JobState) -> object:
    return None


_N, _W = EventType.NORMAL, EventType.WARNING
_RULES: Final[dict[str, _Rule]] = {
    "Failing": _Rule(_W, _failing, lambda state: state.failure and state.failure.cause),
    "LogNotUnderstood": _Rule(_W, lambda view: view.status.complaint),
    "LogTooLarge": _Rule(_W, _log_too_large),
    "Recommended": _Rule(
        _N,
        _recommended,
        lambda state: (
            state.decision and state.decision.recommended and state.decision.recommended.counts
        ),
    ),
    "QuotaReached": _Rule(
        _N, _quota_reached, lambda state: state.decision and state.decision.limited_by
    ),
    "KindReleased": _Rule(_N, _kind_released),
    "DeadlineAtRisk": _Rule(
        _W,
        _deadline_at_risk,
        lambda state: (
            state.decision
            and state.decision.deadline
            and (state.decision.deadline.finish_by, state.decision.deadline.possible)
        ),
    ),
    "GoalUnlikely": _Rule(_W, _goal_unlikely, _once),
    "GoalMet": _Rule(_N, _goal_met),
    "ReplicasChanged": _Rule(_W, _replicas_changed),
    "NotMoved": _Rule(_W, _not_moved),
    "Ended": _Rule(_N, _ended),
    "EarlierRunsDropped": _Rule(_N, _earlier_runs_dropped),
    "EarlierRunsUsed": _Rule(_N, _earlier_runs_used, _once),
}
"""By the reason of the Event."""


class JobEvents:
    """Puts Events on jobs; ``timer`` times the back-off after a refusal."""

    def __init__(
        self, events: Events, metrics: Metrics, timer: Callable[[], float] = time.monotonic
    ) -> None:
        self._events, self._metrics = events, metrics
        self._told: dict[_EventKey, object] = {}
        """The cause of the last Event of each reason."""
        self._refused_lately: TTLCache[_EventKey, None] = TTLCache(
            MOST_REFUSED, REFUSED_SECONDS, timer=timer
        )

    def report(self, state: JobState, status: ProfileStatus, now: float) -> None:
        """Tell what is new of a job, by what its profile should show."""
        view = _View(state, status, now)
        for reason, rule in _RULES.items():
            is_told = rule.cause is _once and (state.job.uid, reason) in self._told
            message = "" if is_told else rule.sentence(view)
            if not message:
                continue
            cause = message if rule.cause is None else rule.cause(state)
            event = JobEvent(rule.kind, reason, message)
            if self._emit_once(state.training_job, event, cause) and reason == "Ended":
                self._count_saved(status)

    def _count_saved(self, status: ProfileStatus) -> None:
        """Add what moving a job has saved to the sums over all that have ended."""
        if status.books is not None:
            sign = "sooner" if status.books.saved_seconds > 0 else "later"
            self._metrics.ended_seconds.labels(sign).inc(abs(status.books.saved_seconds))

    def forget_others(self, uids: Container[str]) -> None:
        """Forget what was said of jobs that are gone; ``uids`` are those of all jobs."""
        self._told = {key: cause for key, cause in self._told.items() if key[0] in uids}

    def notify(self, state: JobState, told: Notify) -> None:
        """Tell what happens in a rescale."""
        self.emit(state, rescale_event(told))

    def emit(self, state: JobState, event: JobEvent) -> None:
        """Put an Event on a job."""
        self.emit_on(state.training_job, event)

    def emit_on(self, job: TrainingJob, event: JobEvent) -> bool:
        """The same for a job that need not be managed; false where the API server refused it."""
        level = logging.WARNING if event.kind is EventType.WARNING else logging.INFO
        _LOG.log(level, "job %s: %s: %s", job.key, event.reason, event.message)
        outcome = self._events.emit(job, *event)
        if isinstance(outcome, Refused):
            self.refused(outcome)
        return not isinstance(outcome, Refused)

    def emit_once(self, state: JobState, event: JobEvent) -> None:
        """Put an Event on a job, unless it was the last one of its reason."""
        self._emit_once(state.training_job, event, event.message)

    def rescale_ended(self, state: JobState, end: End) -> None:
        """Count and log how a rescale ended, and put an Event on the job."""
        self._metrics.rescales.labels(end.outcome.value).inc()
        ending = f"{end.outcome.value} ({end.reason})"
        _LOG.info("job %s: rescale %s ended: %s", state.job.key, end.record.id, ending)
        record, told = end.record, None
        if end.outcome is Outcome.REACHED:
            told = "Resumed" if record.resumes else "Rescaled", f"{record.change}: {end.reason}"
        elif end.outcome is Outcome.PAUSED and record.pause is PauseReason.GOAL:
            message = "its goal is met; to continue training, set runPolicy.suspend to false"
            told = "SuspendedAtTarget", message
        elif end.outcome is Outcome.PAUSED and record.pause is PauseReason.POLICY:
            told = "Paused", record.why
        elif end.outcome in (Outcome.ABANDONED, Outcome.USER):
            told = "RescaleEnded", end.reason
        if told is not None:
            self.emit(state, JobEvent(EventType.NORMAL, *told))

    def straggler_found(self, state: JobState) -> None:
        """Warn of a worker that is far slower than the others."""
        self._warn_once(state.training_job, "StragglerFound", state.straggler)

    def completion_requested(self, state: JobState) -> None:
        """Say that a job's pods have been requested to end."""
        goal = goal_text(state.job.goal)
        message = f"{goal} is met: its pods are notified by {_COMPLETION_ANNOTATION}"
        self.emit_once(state, JobEvent(EventType.NORMAL, "GoalMet", message))

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

    def _warn_once(self, job: TrainingJob, reason: str, message: str) -> bool:
        return self._emit_once(job, JobEvent(EventType.WARNING, reason, message), message)

    def _emit_once(self, job: TrainingJob, event: JobEvent, cause: object) -> bool:
        """Put an Event on a job where its cause is new; whether it was, and is written."""
        key = job.uid, event.reason
        is_told = key in self._told and self._told[key] == cause
        if is_told or key in self._refused_lately:
            return False
        if not self.emit_on(job, event):
            self._retry_later(key)
            return False
        self._told[key] = cause
        return True

    def _retry_later(self, key: _EventKey) -> None:
        self._told.pop(key, None)
        self._refused_lately[key] = None

    def refused(self, outcome: Refused) -> None:
        """Count and log what the API server refused."""
        self._metrics.refusals.labels(outcome.kind.value).inc()
        _LOG.warning("%s", outcome)


# --- rescales


def rescale_event(told: Notify) -> JobEvent:
    """The Event that tells what happens in a rescale."""
    record, kind = told.record, EventType.WARNING
    if told.notice is Notice.BEGINS and record.pauses and record.pause is PauseReason.GANG:
        return JobEvent(EventType.NORMAL, "Preempted", record.why)
    if told.notice in (Notice.BEGINS, Notice.UNWANTED):
        kind = EventType.NORMAL
    reason, sentence = _NOTICES[told.notice]
    text = sentence if isinstance(sentence, str) else sentence(told)
    return JobEvent(kind, reason, text.format(told=told, record=record))


def _pods_do_not_end(told: Notify) -> str:
    if not told.detail:
        return (
            "suspended, waiting for the training operator's confirmation: check that the training"
            " operator runs"
        )
    return f"suspended, waiting for the end of {{told.detail}}: {_LOST_NODES}"


def _job_failed(told: Notify) -> str:
    because = ": {told.detail}" if told.detail else ""
    return (
        "the job failed {told.seconds:.0f} s after rescale {record.id} ({record.change})"
        f"{because}: with restartPolicy OnFailure or ExitCode it would have returned to its"
        " previous counts"
    )


_LOST_NODES: Final = (
    "remove finalizers; delete lost nodes or taint them node.kubernetes.io/out-of-service"
)
_NOTICES: Final[dict[Notice, tuple[str, str | Callable[[Notify], str]]]] = {
    Notice.BEGINS: ("Rescaling", "{record.change}: {record.why}"),
    Notice.NO_CHECKPOINT: (
        "WaitingForCheckpoint",
        (
            "no checkpoint seen for {told.seconds:.0f} s: print a line such as 'checkpoint=1200'"
            " after each save, name your line by optimus.dl/checkpoint-format, or set"
            " optimus.dl/rescale to any or never"
        ),
    ),
    Notice.PODS_DO_NOT_END: ("PodsDoNotEnd", _pods_do_not_end),
    Notice.TAKEN_BACK: (
        "SuspensionTakenBack",
        "not confirmed by the training operator for {told.seconds:.0f} s: taken back",
    ),
    Notice.OPERATOR_AWAY: (
        "OperatorAway",
        (
            "resumed, but the training operator has not acted on it, {told.seconds:.0f} s after"
            " the rescale began: check that the training operator runs"
        ),
    ),
    Notice.PATCH_REFUSED: (
        "RescaleRefused",
        "the API server refused the change to the job: {told.detail}; retrying",
    ),
    Notice.COUNTS_REFUSED: (
        "RollingBack",
        "the API server refused {record.target}: {told.detail}; returning to {record.before}",
    ),
    Notice.NOT_PLACED: (
        "RollingBack",
        (
            "{record.target} not placed within {told.seconds:.0f} s: returning to "
            "{record.return_counts}"
        ),
    ),
    Notice.CONTAINERS_FAIL: (
        "RollingBack",
        (
            "rescale {record.id} ({record.change}) is undone: {record.failure}; returning to "
            "{record.return_counts}, and {record.target} are not used again"
        ),
    ),
    Notice.WORKERS_DO_NOT_END: (
        "PodsDoNotEnd",
        f"for {{told.seconds:.0f}} s waiting for the end of {{told.detail}}: {_LOST_NODES}",
    ),
    Notice.UNWANTED: ("RescaleEnded", "{told.detail}: returning to {record.return_counts}"),
    Notice.NOT_STORED: (
        "ProfileNotWritable",
        (
            "for {told.seconds:.0f} s its TrainingProfile cannot be written: {told.detail};"
            " the rescale goes on without a record"
        ),
    ),
    Notice.JOB_FAILED: ("FailedAfterRescale", _job_failed),
}
"""The reason and the sentence of each."""
