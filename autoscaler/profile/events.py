"""Events on jobs: for each reason, when it is told and in which sentence.

``_OF_STATE`` holds what shows in a job's state, ``_OF_ANY_JOB`` what shows in any job as it is
stored, ``_OF_RESCALES`` what happens in a rescale; what is seen elsewhere is told by
``EventRecorder.emit_once``.
"""

import logging
import time
from collections.abc import Callable, Container, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from cachetools import TTLCache

from autoscaler.jobs.state import BlockReason, TrackedJob
from autoscaler.metrics import Metrics
from autoscaler.profile.status import deadline_text, declared_end
from optimus.jobs import NO_COUNTS, AtTarget, RescaleRule, goal_text
from optimus.kube.contract import Annotation
from optimus.kube.events import EventType, Subject
from optimus.kube.pods import Pod, why_never_meet
from optimus.kube.profiles import ProfileStatus
from optimus.kube.results import Refused, Written
from optimus.kube.training_jobs import TrainingJob
from optimus.progress.types import RunStart
from optimus.rescale.words import End, Notice, Notify, Outcome, PauseReason

_LOG = logging.getLogger(__name__)
REFUSED_SECONDS: Final = 30.0
"""How long a write that the API server refused is not tried again."""

MOST_REFUSED: Final = 10_000
_DEFAULT_GRACE_SECONDS: Final = 30
"""``terminationGracePeriodSeconds`` of a pod that names none."""

_NORMAL: Final = frozenset(
    {
        *("Rescaling", "Rescaled", "Resumed", "RescaleEnded", "Paused", "SuspendedAtTarget"),
        *("Preempted", "Preempting", "LimitsCarriedOver", "SavesOnStop", "Recommended"),
        *("QuotaReached", "KindReleased", "GoalMet", "Ended", "EarlierRunsDropped"),
    }
)
"""Reasons of Events that are no warnings."""

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

    reason: str
    message: str

    @property
    def kind(self) -> EventType:
        """The type of Events for this reason."""
        return EventType.NORMAL if self.reason in _NORMAL else EventType.WARNING


# --- what shows in a job's state


class _View(NamedTuple):
    """One job in this tick, and what its profile shows."""

    state: TrackedJob
    status: ProfileStatus
    at: float


def _failing(view: _View) -> object:
    failure = view.state.failure
    # Before its log is read, the reason that stands there is not known.
    awaits_log = failure is not None and not failure.last_words and view.state.last_words_awaited
    return None if failure is None or awaits_log else failure.cause


def _recommended(view: _View) -> object:
    decision = view.state.decision
    recommended = None if decision is None else decision.recommended
    return recommended and recommended.changes and recommended.counts


def _deadline_at_risk(view: _View) -> object:
    deadline = None if view.state.decision is None else view.state.decision.deadline
    return deadline and deadline.is_at_risk and (deadline.finish_by, deadline.possible)


def _goal_met(view: _View) -> object:
    """A job that continues may hold what others need."""
    forecast, continues = view.state.shown_forecast, view.state.job.at_target is AtTarget.CONTINUE
    return continues and forecast is not None and forecast.goal_met and view.state.job.goal


def _replicas_changed(view: _View) -> str:
    """The sentence on what was done to a job whose replicas were changed while it ran."""
    state, job = view.state, view.state.training_job
    if state.gang.changed_from is None:
        return ""
    present = NO_COUNTS if job.job is None else job.job.counts
    then = f"it is stopped and begun again at {present} from its newest checkpoint"
    if job.outcome is not None:
        then = "the training operator has failed it for that"
    elif state.job.rescale is RescaleRule.NEVER or state.gang.is_ending or state.held:
        then = "the training operator may fail it for that; to prevent it, suspend the job"
        if state.job.all_reduce:
            then = "its old and its new pods never meet; suspend the job, and resume it without any"
    return (
        f"its replicas were changed from {state.gang.changed_from} to {present} while it ran;"
        f" {then}. The admission policy optimus-replicas refuses such changes where it is installed"
    )


def _earlier_runs_dropped(view: _View) -> str:
    record = view.state.record
    is_young = len(record.profiled) == 0 and record.rescales == 0
    then = "and its speed is measured" if is_young else "only its own measurements"
    return f"{record.differs}; earlier runs are not used any more, {then}"


class _EventRow(NamedTuple):
    """When an Event of a reason is put on a job, and what it says."""

    when: Callable[[_View], object]
    """What it is told for; put again only where that is another. False, None or empty: not now."""

    sentence: Callable[[_View], str]


_OF_STATE: Final[dict[str, _EventRow]] = {
    "Failing": _EventRow(_failing, lambda view: str(view.state.failure)),
    "LogNotUnderstood": _EventRow(
        lambda view: view.status.complaint, lambda view: view.status.complaint
    ),
    "LogTooLarge": _EventRow(
        lambda view: view.state.progress(view.at).is_too_large,
        lambda _: (
            "a pod prints more than can be read: every few seconds the last lines of its log are"
            " read, and losses and checkpoints in between are missed; print fewer lines, such as"
            " one for every tenth step"
        ),
    ),
    "Recommended": _EventRow(
        _recommended, lambda view: str(view.state.decision and view.state.decision.recommended)
    ),
    "QuotaReached": _EventRow(
        lambda view: view.state.decision and view.state.decision.limited_by,
        lambda view: view.state.decision.reason if view.state.decision else "",
    ),
    "KindReleased": _EventRow(
        lambda view: view.state.released,
        lambda view: f"{view.state.released}: it may go to any that fit",
    ),
    "DeadlineAtRisk": _EventRow(_deadline_at_risk, lambda view: deadline_text(view.state)),
    "GoalUnlikely": _EventRow(
        lambda view: bool(view.state.shown_forecast and view.state.shown_forecast.unlikely),
        lambda view: f"{declared_end(view.state)}; until then it is treated as any job",
    ),
    "GoalMet": _EventRow(
        _goal_met,
        lambda view: (
            f"{goal_text(view.state.job.goal)} is met: it continues; with {Annotation.AT_TARGET}"
            " suspend or complete its capacity would be free now"
        ),
    ),
    "ReplicasChanged": _EventRow(_replicas_changed, _replicas_changed),
    "NotMoved": _EventRow(
        lambda view: view.state.blocks.text(BlockReason.BRAKED),
        lambda view: (
            f"{view.state.blocks.text(BlockReason.BRAKED)}; counts are only recommended"
            f" {BlockReason.BRAKED.value}"
        ),
    ),
    "Ended": _EventRow(
        lambda view: (
            view.state.training_job.outcome and view.status.books and view.status.books.text
        ),
        lambda view: f"ended {view.status.books.text}" if view.status.books else "",
    ),
    "EarlierRunsDropped": _EventRow(lambda view: view.state.record.differs, _earlier_runs_dropped),
}


def _never_meet(job: TrainingJob, pods: Sequence[Pod]) -> str:
    found = job.job
    return "" if found is None or found.managed else why_never_meet(found, pods)


_OF_ANY_JOB: Final[dict[str, Callable[[TrainingJob, Sequence[Pod]], str]]] = {
    "UnknownAnnotation": lambda job, _: "; ".join(map(str, job.hints)),
    "AnnotationIgnored": lambda job, _: "; ".join(map(str, job.ignored)),
    "SurplusReplicas": lambda job, _: job.surplus,
    "ReplicasChanged": _never_meet,
}
"""The sentences on jobs, managed or not, with their pods; empty: nothing is told."""


def events_of(job: TrainingJob, pods: Sequence[Pod]) -> list[JobEvent]:
    """The Events on a job as it is stored, managed or not."""
    told = ((reason, sentence(job, pods)) for reason, sentence in _OF_ANY_JOB.items())
    return [JobEvent(reason, text) for reason, text in told if text]


class EventRecorder:
    """Puts Events on jobs; ``timer`` times the back-off after a refusal."""

    def __init__(
        self, events: Events, metrics: Metrics, timer: Callable[[], float] = time.monotonic
    ) -> None:
        self._events, self._metrics = events, metrics
        #: What the last Event of each reason was told for.
        self._told: dict[_EventKey, object] = {}
        self._refused_lately: TTLCache[_EventKey, None] = TTLCache(
            MOST_REFUSED, REFUSED_SECONDS, timer=timer
        )

    def report(self, state: TrackedJob, status: ProfileStatus, now: float) -> None:
        """Tell what is new of a job, by its state and by what its profile should show."""
        view = _View(state, status, now)
        for reason, row in _OF_STATE.items():
            cause = row.when(view)
            if cause and self._told.get((state.job.uid, reason)) != cause:
                event = JobEvent(reason, row.sentence(view))
                if self.emit_once(state.training_job, event, cause) and reason == "Ended":
                    self._count_saved(status)

    def _count_saved(self, status: ProfileStatus) -> None:
        """Add what moving a job has saved to the sums over all that have ended."""
        if status.books is not None:
            sign = "sooner" if status.books.saved_seconds > 0 else "later"
            self._metrics.ended_seconds.labels(sign).inc(abs(status.books.saved_seconds))

    def forget_others(self, uids: Container[str]) -> None:
        """Forget what was said of jobs that are gone; ``uids`` are those of all jobs."""
        self._told = {key: cause for key, cause in self._told.items() if key[0] in uids}

    def emit(self, job: TrainingJob, event: JobEvent) -> bool:
        """Put an Event on a job; returns false where the API server refused it."""
        level = logging.WARNING if event.kind is EventType.WARNING else logging.INFO
        _LOG.log(level, "job %s: %s: %s", job.key, event.reason, event.message)
        outcome = self._events.emit(job, event.kind, *event)
        if isinstance(outcome, Refused):
            self.refused(outcome)
        return not isinstance(outcome, Refused)

    def emit_once(self, job: TrainingJob, event: JobEvent, cause: object = None) -> bool:
        """Put an Event on a job unless its last one of this reason had the same cause (by default,
        the same message); returns whether it was new and is written."""
        key, cause = (job.uid, event.reason), event.message if cause is None else cause
        if self._told.get(key) == cause or key in self._refused_lately:
            return False
        if not self.emit(job, event):
            self.retry_later(job, event.reason)
            return False
        self._told[key] = cause
        return True

    def retry_later(self, job: TrainingJob, reason: str) -> None:
        """Let an Event be told again after a while: what goes with it could not be written."""
        self._told.pop((job.uid, reason), None)
        self._refused_lately[job.uid, reason] = None

    def refused(self, outcome: Refused) -> None:
        """Count and log what the API server refused."""
        self._metrics.refusals.labels(outcome.kind.value).inc()
        _LOG.warning("%s", outcome)

    def rescale_ended(
        self, state: TrackedJob, end: End, start: RunStart | None, *, trusted: bool
    ) -> None:
        """Count how a rescale ended, and tell it on the job.

        ``start`` is how the job went on after it, ``trusted`` whether it was trusted to save."""
        self._metrics.rescales.labels(end.outcome.value).inc()
        ending = f"{end.outcome.value} ({end.reason})"
        _LOG.info("job %s: rescale %s ended: %s", state.job.key, end.record.id, ending)
        record, job = end.record, state.training_job
        if end.outcome is Outcome.REACHED:
            reason = "Resumed" if record.resumes else "Rescaled"
            self.emit(job, JobEvent(reason, f"{record.change}: {end.reason}"))
        elif end.outcome is Outcome.PAUSED and record.pause is PauseReason.GOAL:
            message = "its goal is met; to continue training, set runPolicy.suspend to false"
            self.emit(job, JobEvent("SuspendedAtTarget", message))
        elif end.outcome is Outcome.PAUSED and record.pause is PauseReason.POLICY:
            self.emit(job, JobEvent("Paused", record.why))
        elif end.outcome in (Outcome.ABANDONED, Outcome.USER):
            self.emit(job, JobEvent("RescaleEnded", end.reason))
        saving = _saving_event(state, start, trusted=trusted)
        if saving is not None:
            self.emit(job, saving)
        slow = _slow_stop_event(job, end)
        if slow is not None:
            self.emit_once(job, slow)


# --- stops: whether a job saves, and how long its pods take to end


def _saving_event(state: TrackedJob, start: RunStart | None, *, trusted: bool) -> JobEvent | None:
    if state.saves_on_stop and not trusted:
        message = (
            "two stops in a row lost no training: it saves when it is stopped. From now on it is"
            " rescaled at any time, without a wait for a checkpoint;"
            f' {Annotation.SAVES_ON_STOP}: "false" ends that'
        )
        return JobEvent("SavesOnStop", message)
    if not trusted or start is None or not start.lost:
        return None
    then = "its rescales wait for a checkpoint again"
    if state.saves_on_stop:
        then = f"if the next stop loses training too, {then}"
    lost = f"{start.lost_steps} steps were lost in its last stop, although it is to save then"
    return JobEvent("DidNotSave", f"{lost}; {then}")


def _slow_stop_event(job: TrainingJob, end: End) -> JobEvent | None:
    """A warning where some of the job's pods took their whole grace period to end."""
    periods = [template.grace_seconds for template in job.templates.values()]
    seconds = max((_DEFAULT_GRACE_SECONDS if each is None else each for each in periods), default=0)
    if not seconds or end.stop_seconds is None or end.stop_seconds < seconds:
        return None
    message = (
        f"its pods took their whole grace period of {seconds} s to end: most likely a process "
        "ignores SIGTERM, as a shell script does that is process 1 of its container; begin the "
        "script's last line with exec"
    )
    return JobEvent("StopsSlowly", message)


# --- rescales


def rescale_event(told: Notify) -> JobEvent:
    """The Event that tells what happens in a rescale."""
    record = told.record
    if told.notice is Notice.BEGINS and record.pauses and record.pause is PauseReason.GANG:
        return JobEvent("Preempted", record.why)
    reason, sentence = _OF_RESCALES[told.notice]
    if told.notice is Notice.PODS_DO_NOT_END and not told.detail:
        sentence = (
            "suspended, waiting for the training operator's confirmation: check that the training"
            " operator runs"
        )
    because = f": {told.detail}" if told.detail else ""
    return JobEvent(reason, sentence.format(told=told, record=record, because=because))


_LOST_NODES: Final = (
    "remove finalizers; delete lost nodes or taint them node.kubernetes.io/out-of-service"
)
_OF_RESCALES: Final[dict[Notice, tuple[str, str]]] = {
    Notice.BEGINS: ("Rescaling", "{record.change}: {record.why}"),
    Notice.NO_CHECKPOINT: (
        "WaitingForCheckpoint",
        (
            "no checkpoint seen for {told.seconds:.0f} s: print a line such as 'checkpoint=1200'"
            " after each save, name your line by optimus.dl/checkpoint-format, or set"
            " optimus.dl/rescale to any or never"
        ),
    ),
    Notice.PODS_DO_NOT_END: (
        "PodsDoNotEnd",
        f"suspended, waiting for the end of {{told.detail}}: {_LOST_NODES}",
    ),
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
    Notice.UNWANTED: ("RescaleEnded", "{told.detail}: returning to {record.return_counts}"),
    Notice.NOT_STORED: (
        "ProfileNotWritable",
        (
            "for {told.seconds:.0f} s its TrainingProfile cannot be written: {told.detail};"
            " the rescale goes on without a record"
        ),
    ),
    Notice.JOB_FAILED: (
        "FailedAfterRescale",
        (
            "the job failed {told.seconds:.0f} s after rescale {record.id} ({record.change})"
            "{because}: with restartPolicy OnFailure or ExitCode it would have returned to its"
            " previous counts"
        ),
    ),
}
