"""One job's rescale as a state machine without I/O: events in, instructions out.

1. CHECKPOINT: wait for a complete checkpoint, where the job asks for one.
2. SUSPEND: one guarded patch sets ``runPolicy.suspend`` and the suspended-by annotation.
3. EMPTY: wait until the operator has confirmed it and no pod is left.
4. RESUME: one guarded patch sets the counts, ends the suspension and removes the annotation.
5. START: wait until the pods run; else roll back, once, by steps 2 to 5.
6. VERIFY: wait until they train. If a container ends with an error, roll back in the same way.

A roll-back goes to counts that fit now, beside what others were promised: of each role at most the
smaller number of before and after, where the target was not placed, else at most the counts before.

Each step is stored in the profile before it is acted on and everything else is observed again, so
a new leader can continue from the record, also after a crash between any two API calls. The
annotation distinguishes our suspension from the user's; what the user does in between ends the
rescale.
"""

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from typing import Final

from optimus.jobs import NO_COUNTS, Counts, Role
from optimus.kube.contract import Phase
from optimus.kube.errors import Malformed
from optimus.kube.pods import Pod
from optimus.kube.profiles import RescaleStatus
from optimus.kube.times import format_instant, parse_instant
from optimus.kube.training_jobs import TrainingJob
from optimus.rescale.checkpoints import FRESH_CHECKPOINT_SECONDS, is_fresh_checkpoint
from optimus.rescale.purpose import RescalePurpose

_LOG = logging.getLogger(__name__)


class Step(StrEnum):
    """The step of a rescale; up to SUSPEND nothing has been done to the job.

    YIELD: the user resumed the job; only our annotation is left to be removed.
    """

    CHECKPOINT = "checkpoint"
    SUSPEND = "suspend"
    EMPTY = "empty"
    RESUME = "resume"
    START = "start"
    VERIFY = "verify"
    YIELD = "yield"


_PHASES: Final = {
    Step.CHECKPOINT: Phase.WAITING_FOR_CHECKPOINT,
    Step.SUSPEND: Phase.SUSPENDING,
    Step.EMPTY: Phase.SUSPENDING,
    Step.RESUME: Phase.RESIZING,
    Step.START: Phase.STARTING,
    Step.VERIFY: Phase.STARTING,
    Step.YIELD: Phase.TRAINING,
}
_STOPPED: Final = (Step.SUSPEND, Step.EMPTY, Step.RESUME, Step.START)
_UNDO: Final = "undo-"
_MOST_NAMED: Final = 5
_AGAIN_SECONDS: Final = 3600.0
"""An Event on a wait that only people can end is emitted each hour: so long it is kept."""

_ROOM_SECONDS: Final = 10.0
"""How long after a search for room that found none the next one is made: on a large cluster it
takes a part of a tick."""

_ENDING: Final = "one of its trainers has succeeded: the job is about to end"


@dataclass(frozen=True, slots=True)
class RescaleRecord:
    """What the profile keeps of a rescale; instants are UTC, seconds since the epoch."""

    id: str
    """That of the interval that decided it, and the value of the suspended-by annotation."""

    started_at: float
    before: Counts
    target: Counts
    why: str
    step: Step
    step_at: float
    rolling_back: bool = False
    """The target could not be started: the job goes to ``return_counts``."""

    purpose: RescalePurpose = RescalePurpose.INTERVAL

    restarts: int = 0
    """The most restarts of a container before the suspension: as many are usual for this job."""

    failure: str = ""
    """Why the target is undone where its containers ended with an error."""

    returns_to: Counts | None = None
    """Where a roll-back goes; ``None``: to the counts before."""

    @property
    def return_counts(self) -> Counts:
        """The counts to which a roll-back goes."""
        return self.before if self.returns_to is None else self.returns_to

    @property
    def kept(self) -> Counts:
        """What the job had before and was to have after: the capacity of the rest is promised to
        others, or was never its own."""
        before, target = self.before, self.target
        if target == NO_COUNTS:
            return before
        return Counts(min(before.ps, target.ps), min(before.workers, target.workers))

    @property
    def needs_room(self) -> bool:
        """Whether the job is not stopped before its target fits."""
        return self.target != NO_COUNTS and not self.purpose.is_urgent

    @property
    def current_target(self) -> Counts:
        """Where the job goes: the target, or back."""
        return self.return_counts if self.rolling_back else self.target

    @property
    def change(self) -> str:
        """The counts before and after, as users read them."""
        return f"{self.before} -> {'suspended' if self.target == NO_COUNTS else self.target}"

    @property
    def stays_suspended(self) -> bool:
        """Whether the job is to be suspended for good."""
        return self.target == NO_COUNTS and not self.rolling_back

    @property
    def is_stopped(self) -> bool:
        """Whether the job does not train for it: suspended, or about to be, or starting."""
        return self.step in _STOPPED

    @property
    def phase(self) -> Phase:
        """The profile's phase in this step."""
        return _PHASES[self.step]

    @property
    def step_text(self) -> str:
        """The step as the profile's ``rescale.step`` stores it."""
        return (_UNDO if self.rolling_back else "") + self.step

    def with_step_text(self, text: str) -> "RescaleRecord":
        """The record at the step that a profile stores; raises ValueError on any other text."""
        step = Step(text.removeprefix(_UNDO))
        return replace(self, step=step, rolling_back=text.startswith(_UNDO))


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleConfig:
    """How long a rescale waits for what."""

    fresh_seconds: float = FRESH_CHECKPOINT_SECONDS
    """Age up to which a checkpoint is recent enough to suspend: the training since is lost.
    Default: a few log polls."""

    grace_seconds: float = 1.0
    """Wait between the end of the last pod and the resumption. Default: far above the usual delay
    of a watch."""

    break_grace_seconds: float = 30.0
    """How long no job is resumed after a call or watch has failed. Default: the longest pause
    of client-go before it watches again, in the operator too."""

    start_seconds: float = 600.0
    """How long the pods may take to be placed before the rescale is rolled back. Default: the
    extender holds the room for as long from the suspension on, so that room that is still free
    then is not lost to others while its pods start."""

    verify_seconds: float = 300.0
    """How long after all pods run the rescale is over, whether its log shows training or not.
    Default: the time in which a back-off of the kubelet shows, and half of ``start_seconds``."""

    quiet_seconds: float = 30.0
    """How long no container may have been restarted before the rescale counts as successful.
    Default: training has used its memory by then, and the first pause of a back-off is over."""

    denied_seconds: float = 60.0
    """How long a patch is denied before a suspension is abandoned and a resumption at new counts
    becomes one at the old. Default: longer than an API server that restarts denies all."""

    checkpoint_warning_seconds: float = 1200.0
    """How long without a checkpoint before a Warning Event names a log line that would do. Default:
    two intervals."""

    empty_warning_seconds: float = 300.0
    """How long pods may be left before a Warning Event says so. Default: ten times the usual grace
    period of a pod."""

    unwritten_seconds: float = 60.0
    """How long the profile cannot be written before a suspended job's rescale continues
    without it, and one that has not begun is abandoned. Default: longer than a restart of an
    API server takes."""

    unconfirmed_seconds: float = 600.0
    """How long the operator may take to confirm a suspension before it is taken back, if no
    pod is ending. Default: far longer than an operator restarts."""

    unseen_seconds: float = 30.0
    """A longer time between two observations counts for no time-out: the API server did not answer,
    and the operator and kubelets may not have been able to act either. Default: far above a tick
    and the reads in it."""

    regained_seconds: float = 60.0
    """How long after such a time, or after a rescale was taken over from another process,
    no time-out ends. Default: longer than an operator takes to follow an API server that is
    back."""


@dataclass(frozen=True, slots=True)
class ObservedJob:
    """The job as the API server has it."""

    suspended: bool
    suspended_by: str | None
    """The value of our annotation."""

    suspension_confirmed: bool
    """Whether the operator has set the Suspended condition."""

    counts: Counts
    resource_version: str
    finished: bool = False
    """Succeeded or Failed, or being deleted."""

    failed: bool = False

    @classmethod
    def of(cls, job: TrainingJob) -> "ObservedJob":
        """What the state machine needs of a job."""
        return cls(
            job.suspended,
            job.suspended_by,
            "Suspended" in job.conditions,
            job.job.counts if job.job is not None else NO_COUNTS,
            job.resource_version,
            finished=job.outcome is not None or job.deleted or job.job is None,
            failed=job.outcome == "Failed",
        )


@dataclass(frozen=True, slots=True)
class ObservedPods:
    """The job's pods, listed *before* the job was read."""

    left: int
    """Every pod there is, also those being deleted."""

    bound: Counts
    started: Counts
    """Running or Succeeded; like ``bound`` without those being deleted."""

    fixed_missing: int = 0
    """Pods of fixed roles that have not started."""

    restarts: int = 0
    """The most restarts of any container that trains."""

    all_restarts: int = 0
    """The restarts of all of them, as the operator counts them against ``backoffLimit``."""

    error: str = ""
    """Which container ended last with an error, and how: of those restarted most, the first."""

    crash_loops: bool = False
    """Whether one waits in CrashLoopBackOff, or its pod has failed and stays."""

    is_ending: bool = False
    """Whether a trainer has Succeeded: suspended and resumed, it would begin again."""

    trains: bool = False
    """Whether the log of these very pods shows training steps."""

    is_mixed: bool = False
    """Whether some were made for other counts than the job has."""

    leaving: int = 0
    """Those being deleted; ``lingering`` names some of them, with their nodes."""

    lingering: str = ""

    @classmethod
    def of(cls, pods: Sequence[Pod], fixed: int) -> "ObservedPods":
        """What the state machine needs of a job's pods; ``fixed`` is its number of fixed ones."""
        staying = [pod for pod in pods if not pod.leaving]
        leaving = [f"{pod.name} on {pod.node or 'no node'}" for pod in pods if pod.leaving]
        started = [pod for pod in staying if pod.phase in ("Running", "Succeeded")]
        fixed_started = sum(
            pod.replica is not None and pod.replica.role not in (Role.PS, Role.WORKER)
            for pod in started
        )
        bound = _counts(pod for pod in staying if pod.node is not None)
        broken = [pod for pod in staying if pod.container.error]
        worst = max(broken, key=lambda pod: pod.container.restarts, default=None)
        error = "" if worst is None else f"{worst.name} ended with {worst.container.error}"
        return cls(
            len(pods),
            bound,
            _counts(started),
            max(fixed - fixed_started, 0),
            restarts=max((pod.container.restarts for pod in staying), default=0),
            all_restarts=sum(pod.container.restarts for pod in staying if pod.running),
            error=error,
            is_ending=any(pod.has_trained for pod in staying),
            crash_loops=any(pod.container.crash_loops or pod.phase == "Failed" for pod in broken),
            leaving=len(leaving),
            lingering=", ".join(leaving[:_MOST_NAMED]),
        )

    def all_started(self, target: Counts) -> bool:
        """Whether the whole gang has started."""
        return self.fixed_missing == 0 and _covers(self.started, target)


def _counts(pods: Iterable[Pod]) -> Counts:
    roles = [pod.replica.role for pod in pods if pod.replica is not None]
    return Counts(roles.count(Role.PS), roles.count(Role.WORKER))


def _covers(counts: Counts, target: Counts) -> bool:
    return counts.ps >= target.ps and counts.workers >= target.workers


class PatchResult(Enum):
    """What became of a patch.

    UNKNOWN: no answer came, it may have been carried out. REFUSED: it never will be. DENIED: not
    while we lack the right, which an API server that has just started may only not know of yet.
    """

    DONE = auto()
    CONFLICT = auto()
    UNKNOWN = auto()
    REFUSED = auto()
    DENIED = auto()


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passes."""

    at: float


@dataclass(frozen=True, slots=True)
class ProfileWritten:
    """The answer to WriteProfile, and why it was not written."""

    ok: bool
    at: float = 0.0
    why: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointSeen:
    """The job's last complete checkpoint was made at this instant at the earliest, by our clock.

    That is the last read of its log that did not show it: the age of what is read late is not
    known any better.
    """

    since: float


@dataclass(frozen=True, slots=True)
class UserIntent:
    """What the job's annotations and goal say now: whether a checkpoint comes first, and why the
    rescale is unwanted, if it is; ``may_stop``: whether as few jobs as allowed are stopped now."""

    needs_checkpoint: bool
    unwanted: str | None = None
    may_stop: bool = True


@dataclass(frozen=True, slots=True)
class CountsFound:
    """The answer to FindCounts: the most that fits, ``None`` where nothing does, and whether the
    target does."""

    at: float
    counts: Counts | None
    target_fits: bool = True


@dataclass(frozen=True, slots=True)
class PatchAnswered:
    """The answer to a patch."""

    at: float
    result: PatchResult
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    """The answer to Observe."""

    at: float
    job: ObservedJob
    pods: ObservedPods
    since_break_seconds: float = math.inf
    """Since a call or watch failed last, here or perhaps in the operator."""


@dataclass(frozen=True, slots=True)
class JobGone:
    """The answer to Observe where the job is gone, or another of its name has taken its place."""


Event = (
    Tick
    | ProfileWritten
    | CheckpointSeen
    | UserIntent
    | CountsFound
    | PatchAnswered
    | Observed
    | JobGone
)


@dataclass(frozen=True, slots=True)
class WriteProfile:
    """Store the record and the phase in the profile, then report ProfileWritten."""

    record: RescaleRecord
    phase: Phase


@dataclass(frozen=True, slots=True)
class Observe:
    """List the job's pods, then read the job, then report; ``uncached``: not from a watch."""

    uncached: bool


@dataclass(frozen=True, slots=True)
class Suspend:
    """Suspend the job and annotate it with ``by``, in one patch guarded by the resource version.

    ``restarts`` are those that its pods take with them."""

    by: str
    resource_version: str
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class ResizeAndResume:
    """Set the counts, end the suspension and remove our annotation, in one guarded patch."""

    counts: Counts
    resource_version: str


@dataclass(frozen=True, slots=True)
class Unmark:
    """Remove our annotation and nothing else, in one guarded patch."""

    resource_version: str


@dataclass(frozen=True, slots=True)
class FindCounts:
    """Find counts, of each role at most these, that fit beside what is kept for other jobs, and
    whether the target does, then report CountsFound."""

    most: Counts


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """Put an Event on the job."""

    warning: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class PlacementFailed:
    """Record, with the next write of the profile, that the target was not placed in time.

    ``lost``: its capacity has gone to others meanwhile, which says nothing against these counts."""

    waited_seconds: float
    lost: bool = False


class Outcome(StrEnum):
    """How a rescale ended. ABANDONED: it was not allowed to begin."""

    REACHED = "reached"
    ROLLED_BACK = "rolled back"
    SUSPENDED = "suspended"
    USER = "changed by user"
    JOB_ENDED = "job ended"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class End:
    """The rescale is over: remove the record from the profile."""

    outcome: Outcome
    record: RescaleRecord
    reason: str
    price_seconds: float | None = None
    """What it cost: from the suspension to the end of the last pod, from the placement of the new
    pods to their first step, and the training since the checkpoint; ``None`` where that was not
    seen. A wait for capacity in between says nothing of the next rescale."""

    start_seconds: float | None = None
    """From the placement of the new pods until all of them ran; ``None`` where that was not
    seen."""


@dataclass(frozen=True, slots=True)
class CountsFailed:
    """Record, with the next write of the profile, that the job's containers fail at the target."""

    why: str


Patch = Suspend | ResizeAndResume | Unmark
Instruction = (
    WriteProfile | Observe | FindCounts | Patch | EmitEvent | PlacementFailed | CountsFailed | End
)


@dataclass(frozen=True, slots=True)
class Rescale:
    """A rescale in progress; only ``record`` is kept in the profile, the rest may be lost."""

    record: RescaleRecord
    needs_checkpoint: bool
    """Its pods train and its ``rescale`` annotation says checkpoint."""

    unwanted: str | None = None
    """Why its user does not want the rescale any more, by what was written since."""

    may_stop: bool = True
    """Whether the disruption budget lets it begin."""

    written: bool = False
    """The profile stores this step."""

    unwritten_since: float | None = None
    """Since when it could not be written."""

    checkpoint_since: float = -math.inf
    """The earliest instant at which its last checkpoint was made."""

    observed_at: float | None = None
    """When this process observed the job last; ``None``: not yet."""

    seen_since: float = math.inf
    """Since when it has been observed without a long time between."""

    empty_since: float | None = None
    stopped_at: float | None = None
    """When this process suspended the job; ``lost_seconds`` it had trained since its checkpoint."""

    lost_seconds: float = 0.0
    fits_at: float | None = None
    """When the target was last found to fit; ``lacks_room``: it did not, the last time."""

    lacks_room: bool = False
    asked_at: float = -math.inf

    emptied_at: float | None = None
    """When its last pod was seen to be gone; ``placed_at`` when all new ones had nodes,
    ``ran_at`` when all of them ran, ``trained_at`` when they were first seen to train."""

    placed_at: float | None = None
    ran_at: float | None = None
    trained_at: float | None = None

    restarts: int = 0
    """The most restarts seen since the resume, the last at ``restarted_at``."""

    restarted_at: float = -math.inf
    error: str = ""
    """How its containers end at the target, while they do."""

    emitted: frozenset[str] = frozenset()
    """Keys of the Events that were emitted: their reasons, and of some the hour."""

    end: End | None = None


Advance = tuple[Rescale, tuple[Instruction, ...]]


def adopt(job: ObservedJob, at: float) -> Rescale | None:
    """The rescale of a job that is annotated as suspended by us and has no record of one.

    A suspended job is resumed (not to be called for one that was suspended for good). From a
    running one the annotation is removed: a later suspension by its user would be taken for ours.
    """
    if job.suspended_by is None:
        return None
    step = Step.EMPTY if job.suspended else Step.YIELD
    why = "annotated as suspended by the autoscaler, without a record of a rescale"
    counts, purpose = job.counts, RescalePurpose.RECOVERY
    record = RescaleRecord(job.suspended_by, at, counts, counts, why, step, at, purpose=purpose)
    return Rescale(record, needs_checkpoint=False)


def advance(state: Rescale, event: Event, config: RescaleConfig) -> Advance:
    """The rescale after an event, and what is to be done now, in order."""
    if state.end is not None:
        return state, ()
    match event:
        case Tick():
            return _tick(state)
        case ProfileWritten():
            return _profile_written(state, event, config)
        case CheckpointSeen(since=since):
            return replace(state, checkpoint_since=since), ()
        case UserIntent():
            return _intent(state, event), ()
        case CountsFound():
            return _counts_found(state, event)
        case PatchAnswered():
            return _patch_answered(state, event, config)
        case JobGone() | Observed():
            # Observed for the step before: the new one is not stored yet, nothing is done for it.
            return _observed(state, event, config) if state.written else (state, ())


def _intent(state: Rescale, intent: UserIntent) -> Rescale:
    return replace(
        state,
        needs_checkpoint=intent.needs_checkpoint,
        unwanted=intent.unwanted,
        may_stop=intent.may_stop,
    )


def _tick(state: Rescale) -> Advance:
    if not state.written:
        return state, (WriteProfile(state.record, state.record.phase),)
    # A watch may lag behind our own writes: a copy from before the suspension would show no pods
    # leaving and the job running. Before our first write a copy is good enough.
    return state, (Observe(uncached=state.record.step is not Step.CHECKPOINT),)


def _profile_written(state: Rescale, event: ProfileWritten, config: RescaleConfig) -> Advance:
    if event.ok:
        return _tick(replace(state, written=True, unwritten_since=None))
    since = event.at if state.unwritten_since is None else state.unwritten_since
    state = replace(state, unwritten_since=since)
    unwritten_seconds = event.at - since
    if unwritten_seconds < config.unwritten_seconds:
        return state, ()
    cause = f"its TrainingProfile cannot be written: {event.why}"
    if state.record.step in (Step.CHECKPOINT, Step.SUSPEND) and not state.record.rolling_back:
        return _finish(state, Outcome.ABANDONED, cause)
    # The mark on the job is enough to end what has begun, here and for the next leader.
    message = f"for {unwritten_seconds:.0f} s {cause}; the rescale goes on without a record"
    state, emit = _emit_once(state, EmitEvent(True, "ProfileNotWritable", message))
    state, then = _tick(replace(state, written=True))
    return state, emit + then


def _patch_answered(state: Rescale, event: PatchAnswered, config: RescaleConfig) -> Advance:
    if event.result is PatchResult.DONE:
        return _tick(state)
    if event.result not in (PatchResult.REFUSED, PatchResult.DENIED):
        # A lost answer proves nothing: the patch may have been carried out. A conflict only says
        # that the job has changed. The next observation decides.
        return state, ()
    waited_seconds = event.at - state.record.step_at
    if event.result is PatchResult.REFUSED or (
        waited_seconds >= config.denied_seconds and not state.record.rolling_back
    ):
        if state.record.step is Step.SUSPEND:
            return _finish(state, Outcome.ABANDONED, f"the suspension was refused: {event.detail}")
        if state.record.step is Step.RESUME and not state.record.rolling_back:
            record = state.record
            message = (
                f"the API server refused {record.target}: {event.detail}; returning to "
                f"{record.before}"
            )
            state, emit = _emit_once(state, EmitEvent(True, "RollingBack", message))
            state, then = _roll_back(state, Step.RESUME, event.at)
            return state, (*emit, PlacementFailed(waited_seconds), *then)
    message = f"the API server refused the change to the job: {event.detail}; retrying"
    return _emit_once(state, EmitEvent(True, "RescaleRefused", message))


def _observed(state: Rescale, observed: Observed | JobGone, config: RescaleConfig) -> Advance:
    if isinstance(observed, JobGone):
        return _finish(state, Outcome.JOB_ENDED, "the job is gone")
    if observed.job.finished:
        return _job_ended(state, observed)
    state = _without_unseen_time(state, observed.at, config)
    record = state.record
    if (
        state.unwanted is not None
        and record.step in (Step.EMPTY, Step.RESUME)
        and observed.job.suspended
        and observed.job.suspended_by == record.id
        and not record.rolling_back
    ):
        # The job is suspended by us already: it must be resumed, at the counts before if they fit.
        return state, (FindCounts(record.before),)
    is_ours = observed.job.suspended or observed.job.suspended_by is not None
    if observed.pods.is_ending and not is_ours and record.step in _ENDED_AS:
        return _finish(state, _ENDED_AS[record.step], _ENDING)
    return _HANDLERS[record.step](state, observed, config)


def _without_unseen_time(state: Rescale, at: float, config: RescaleConfig) -> Rescale:
    """The rescale with a step that began later by the time in which nothing was seen of it."""
    if state.observed_at is None:
        return replace(state, observed_at=at, seen_since=at)
    unseen_seconds = at - state.observed_at
    if unseen_seconds <= config.unseen_seconds:
        return replace(state, observed_at=at)
    record = replace(state.record, step_at=state.record.step_at + unseen_seconds)
    return replace(state, record=record, observed_at=at, seen_since=at, empty_since=None)


def _has_timed_out(state: Rescale, at: float, limit_seconds: float, config: RescaleConfig) -> bool:
    """Whether the step has lasted for longer than a limit, by time in which it was observed."""
    seen_seconds = at - min(state.seen_since, at)
    is_seen = seen_seconds >= min(config.regained_seconds, limit_seconds)
    return is_seen and at - state.record.step_at >= limit_seconds


_ENDED_AS: Final = {
    Step.CHECKPOINT: Outcome.ABANDONED,
    Step.SUSPEND: Outcome.ABANDONED,
    Step.START: Outcome.REACHED,
    Step.VERIFY: Outcome.REACHED,
}
"""How a rescale ends, by its step, when a trainer has Succeeded."""


def _job_ended(state: Rescale, observed: Observed) -> Advance:
    record, emit = state.record, tuple[Instruction, ...]()
    if observed.job.failed and record.step in (Step.START, Step.VERIFY):
        # The operator has failed it for good: all that is left is to say after what.
        message = (
            f"the job failed {observed.at - record.step_at:.0f} s after rescale {record.id} "
            f"({record.change}){_because(observed.pods.error)}: with restartPolicy OnFailure or "
            "ExitCode it would have returned to its previous counts"
        )
        state, emit = _emit_once(state, EmitEvent(True, "FailedAfterRescale", message))
    state, end = _finish(state, Outcome.JOB_ENDED, "the job has ended")
    return state, emit + end


def _because(error: str) -> str:
    return f": {error}" if error else ""


def _at_checkpoint(state: Rescale, observed: Observed, config: RescaleConfig) -> Advance:
    record = state.record
    if observed.job.suspended or observed.job.counts != record.before:
        return _finish(state, Outcome.USER, "its user suspended it or changed its counts")
    if state.unwanted is not None:
        return _finish(state, Outcome.USER, state.unwanted)
    if not state.may_stop or (state.lacks_room and observed.at - state.asked_at < _ROOM_SECONDS):
        return state, ()
    fresh_seconds, since = config.fresh_seconds, state.checkpoint_since
    if not state.needs_checkpoint or is_fresh_checkpoint(since, observed.at, fresh_seconds):
        if record.needs_room and state.fits_at != observed.at:
            # What was free when this was decided may have gone to a new job since, and a node on
            # which it runs may take no new pods.
            return state, (FindCounts(record.target),)
        message = f"{record.change}: {record.why}"
        state, emit = _emit_once(state, EmitEvent(False, "Rescaling", message))
        begun = replace(record, restarts=observed.pods.restarts)
        lost_seconds = observed.at - since
        lost_seconds = lost_seconds if lost_seconds < math.inf else 0.0
        state = replace(state, stopped_at=observed.at, lost_seconds=lost_seconds)
        state, then = _enter(state, begun, Step.SUSPEND, observed.at)
        return state, emit + then
    waited_seconds = observed.at - record.step_at
    if waited_seconds < config.checkpoint_warning_seconds:
        return state, ()
    message = (
        f"no checkpoint seen for {waited_seconds:.0f} s: print a line such as 'checkpoint=1200' "
        "after each save, name your line by optimus.dl/checkpoint-format, or set "
        "optimus.dl/rescale to any or never"
    )
    return _emit_once(state, EmitEvent(True, "WaitingForCheckpoint", message))


def _at_suspend(state: Rescale, observed: Observed, config: RescaleConfig) -> Advance:
    record = state.record
    if observed.job.suspended:
        # The annotation also shows that a patch was carried out whose answer was lost.
        if observed.job.suspended_by == record.id:
            return _enter(state, record, Step.EMPTY, observed.at)
        return _finish(state, Outcome.USER, "its user suspended it")
    if observed.job.suspended_by is not None:
        return _enter(state, record, Step.YIELD, observed.at)
    if observed.job.counts != (record.target if record.rolling_back else record.before):
        return _finish(state, Outcome.USER, "its user changed its counts")
    if not record.rolling_back:
        unwanted = state.unwanted or _why_not_restarted(record, observed.pods)
        if unwanted is not None:
            return _finish(state, Outcome.USER, unwanted)
        if state.needs_checkpoint and observed.at - record.step_at > config.fresh_seconds:
            # The checkpoint has aged while the suspension could not be written.
            return _enter(state, record, Step.CHECKPOINT, observed.at)
    elif not record.failure and observed.pods.all_started(record.target):
        state = _started(state, observed)
        return _finish(state, Outcome.REACHED, f"{record.target} run after all")
    restarts = observed.pods.all_restarts
    return state, (Suspend(record.id, observed.job.resource_version, restarts),)


def _why_not_restarted(record: RescaleRecord, pods: ObservedPods) -> str | None:
    """A watch may have shown pods of an earlier run."""
    if record.purpose is not RescalePurpose.RESTART or pods.is_mixed:
        return None
    return f"all its pods were made for {record.before}"


def _at_empty(state: Rescale, observed: Observed, config: RescaleConfig) -> Advance:
    record = state.record
    if not observed.job.suspended:
        if "SuspensionTakenBack" in state.emitted and observed.job.suspended_by is None:
            return _finish(state, Outcome.ABANDONED, "the operator did not confirm the suspension")
        return _enter(state, record, Step.YIELD, observed.at)
    if observed.job.suspended_by != record.id:
        return _finish(state, Outcome.USER, "its user took over the suspension")
    if record.stays_suspended:
        return _finish(state, Outcome.SUSPENDED, "suspended as decided")
    # Suspended=True and active=0 do not prove that no pod is left: only the list of pods does.
    if observed.pods.left > 0 or not observed.job.suspension_confirmed:
        return _still_ending(replace(state, empty_since=None), observed, config)
    # The operator watches pods and jobs separately: a pod that its copy still shows would be
    # adopted by the resumed job, with the old TF_CONFIG, and fail it.
    if state.empty_since is None:
        return replace(state, empty_since=observed.at, emptied_at=observed.at), ()
    is_recent = observed.at - state.empty_since < config.grace_seconds
    # After a break its watch may have broken too, and show such a pod for longer.
    if is_recent or observed.since_break_seconds < config.break_grace_seconds:
        return state, ()
    return _enter(state, record, Step.RESUME, observed.at)


def _still_ending(state: Rescale, observed: Observed, config: RescaleConfig) -> Advance:
    job, pods = observed.job, observed.pods
    waited_seconds = observed.at - state.record.step_at
    if waited_seconds < config.empty_warning_seconds:
        return state, ()
    if job.suspension_confirmed or pods.leaving:
        pending = f"the end of {pods.left} of its pods ({pods.lingering or 'not deleted yet'})"
        advice = (
            "remove finalizers; delete lost nodes or taint them node.kubernetes.io/out-of-service"
        )
    else:
        pending = "the training operator's confirmation"
        advice = "check that the training operator runs"
    message = f"suspended, waiting for {pending}: {advice}"
    hour = f"PodsDoNotEnd {waited_seconds // _AGAIN_SECONDS:.0f}"
    state, emit = _emit_once(state, EmitEvent(True, "PodsDoNotEnd", message), hour)
    if (
        job.suspension_confirmed
        or pods.leaving
        or not _has_timed_out(state, observed.at, config.unconfirmed_seconds, config)
        or state.record.purpose is RescalePurpose.RESTART  # the operator would fail the job
    ):
        return state, emit
    # Nothing has been done to the pods, or none is left: at unchanged counts the operator, when it
    # is back, finds the job as it last knew it.
    message = f"not confirmed by the training operator for {waited_seconds:.0f} s: taken back"
    state, taken = _emit_once(state, EmitEvent(True, "SuspensionTakenBack", message))
    return state, (*emit, *taken, ResizeAndResume(job.counts, job.resource_version))


def _at_resume(state: Rescale, observed: Observed, _: RescaleConfig) -> Advance:
    record = state.record
    if not observed.job.suspended:
        if observed.job.suspended_by is not None:
            return _enter(state, record, Step.YIELD, observed.at)
        if observed.job.counts == record.current_target:
            return _enter(state, record, Step.START, observed.at)
        return _finish(state, Outcome.USER, f"its user resumed it at {observed.job.counts}")
    if observed.job.suspended_by != record.id:
        return _finish(state, Outcome.USER, "its user took over the suspension")
    if observed.pods.left > 0:
        return _enter(state, record, Step.EMPTY, observed.at)
    # Counts that the user has set meanwhile are kept.
    is_ours = observed.job.counts in (record.before, record.target)
    counts = record.current_target if is_ours else observed.job.counts
    return state, (ResizeAndResume(counts, observed.job.resource_version),)


def _at_start(state: Rescale, observed: Observed, config: RescaleConfig) -> Advance:
    record, target = state.record, state.record.current_target
    change = _users_change(observed.job, target)
    if change is not None:
        return _finish(state, Outcome.USER, change)
    if _covers(observed.pods.bound, target) and state.placed_at is None:
        state = replace(state, placed_at=observed.at)
    if _is_broken(state, observed):
        return replace(state, error=observed.pods.error), (FindCounts(record.before),)
    if not observed.pods.all_started(target):
        return _not_all_started(state, observed, config)
    state = _started(state, observed)
    is_verified = record.before != record.target or record.purpose is RescalePurpose.STRAGGLER
    if not record.rolling_back and is_verified:
        return _enter(state, record, Step.VERIFY, observed.at)
    took = f"all its pods run, {observed.at - record.started_at:.0f} s after it was decided"
    return _finish(state, Outcome.ROLLED_BACK if record.rolling_back else Outcome.REACHED, took)


def _started(state: Rescale, observed: Observed) -> Rescale:
    placed_at = observed.at if state.placed_at is None else state.placed_at
    return replace(state, placed_at=placed_at, ran_at=observed.at)


def _users_change(job: ObservedJob, target: Counts) -> str | None:
    """What its user has done to a job that was resumed at the target, as a sentence."""
    if job.suspended:
        return "its user suspended it"
    return None if job.counts == target else "its user changed its counts"


def _not_all_started(state: Rescale, observed: Observed, config: RescaleConfig) -> Advance:
    record, target = state.record, state.record.current_target
    if observed.job.suspension_confirmed:
        return _operator_is_unavailable(state, observed, config)
    waited_seconds = observed.at - record.step_at
    if not _has_timed_out(state, observed.at, config.start_seconds, config):
        return state, ()
    if record.rolling_back:
        return _finish(
            state, Outcome.ROLLED_BACK, f"returned to {target}, of which not all run yet"
        )
    if _covers(observed.pods.bound, target):
        # New pods would start no sooner than those that have a node and pull an image or wait
        # for a volume.
        reason = f"{target} are placed, but not all run after {waited_seconds:.0f} s"
        return _finish(state, Outcome.REACHED, reason)
    return state, (FindCounts(record.kept),)


def _counts_found(state: Rescale, found: CountsFound) -> Advance:
    """Roll back to counts that fit: others may have more by now."""
    record = state.record
    if record.rolling_back:
        return state, ()
    if record.step is Step.CHECKPOINT:
        if not found.target_fits:
            return replace(state, lacks_room=True, asked_at=found.at), ()
        return replace(state, fits_at=found.at, lacks_room=False), (Observe(uncached=False),)
    if record.step in (Step.EMPTY, Step.RESUME):
        # It must be resumed in any case: what it keeps is reserved for it.
        record = replace(record, returns_to=found.counts or record.kept)
        message = f"{state.unwanted}: returning to {record.return_counts}"
        state, emit = _emit_once(state, EmitEvent(False, "RescaleEnded", message))
        state, then = _roll_back(replace(state, record=record), record.step, found.at)
        return state, emit + then
    if state.error:
        return _undo(state, found)
    if record.step is Step.START:
        return _not_placed(state, found)
    return state, ()


def _not_placed(state: Rescale, found: CountsFound) -> Advance:
    """The target was not placed in time."""
    record = state.record
    waited_seconds = found.at - record.step_at
    failed = PlacementFailed(waited_seconds, lost=not found.target_fits)
    why = f"not placed within {waited_seconds:.0f} s"
    if found.counts in (None, record.target) and record.before != record.target:
        # Stopped again it would start no sooner: it waits in the queue, before new jobs, until the
        # next interval makes room for it.
        state, end = _finish(state, Outcome.ROLLED_BACK, f"{record.target} {why}: its pods wait")
        return state, (failed, *end)
    record = replace(record, returns_to=found.counts)
    message = f"{record.target} {why}: returning to {record.return_counts}"
    state, emit = _emit_once(state, EmitEvent(True, "RollingBack", message))
    state = replace(state, record=record)
    state, then = _roll_back(state, Step.SUSPEND, found.at)
    return state, (*emit, failed, *then)


def _operator_is_unavailable(state: Rescale, observed: Observed, config: RescaleConfig) -> Advance:
    """The job still counts as suspended: without the operator, other counts would start no sooner.

    The time to start begins when it is back."""
    waited_seconds = observed.at - state.record.started_at
    state = replace(state, record=replace(state.record, step_at=observed.at))
    if waited_seconds < config.unconfirmed_seconds:
        return state, ()
    message = (
        f"resumed, but the training operator has not acted on it, {waited_seconds:.0f} s after the "
        "rescale began: check that the training operator runs"
    )
    hour = f"OperatorAway {waited_seconds // _AGAIN_SECONDS:.0f}"
    return _emit_once(state, EmitEvent(True, "OperatorAway", message), hour)


def _at_verify(state: Rescale, observed: Observed, config: RescaleConfig) -> Advance:
    record, at = state.record, observed.at
    change = _users_change(observed.job, record.target)
    if change is not None:
        return _finish(state, Outcome.USER, change)
    if _is_broken(state, observed):
        return replace(state, error=observed.pods.error), (FindCounts(record.before),)
    if observed.pods.restarts > state.restarts:
        state = replace(state, restarts=observed.pods.restarts, restarted_at=at)
    if observed.pods.trains and state.trained_at is None:
        state = replace(state, trained_at=at)
    quiet_seconds = at - max(state.restarted_at, record.step_at)
    if observed.pods.trains and quiet_seconds >= config.quiet_seconds:
        took = f"it trains, {at - record.started_at:.0f} s after it was decided"
        return _finish(state, Outcome.REACHED, took)
    if at - record.step_at < config.verify_seconds:
        return state, ()
    reason = f"all its pods run; its log has shown no step for {at - record.step_at:.0f} s"
    return _finish(state, Outcome.REACHED, reason)


def _is_broken(state: Rescale, observed: Observed) -> bool:
    """Whether the pods fail at the target and the counts before can be restored.

    Containers that restart now and then, as before the rescale, are no evidence against it."""
    record, pods = state.record, observed.pods
    if record.rolling_back or record.before == record.target or not pods.error:
        return False
    return pods.crash_loops or pods.restarts > record.restarts


def _undo(state: Rescale, found: CountsFound) -> Advance:
    """Return to the counts before, as far as they fit; those of the target are not used again.

    Where nothing else fits, its pods wait for the counts before, and others may make room."""
    record, error = replace(state.record, returns_to=found.counts), state.error
    message = (
        f"rescale {record.id} ({record.change}) is undone: {error}; returning to "
        f"{record.return_counts}, and {record.target} are not used again"
    )
    state, emit = _emit_once(state, EmitEvent(True, "RollingBack", message))
    state = replace(state, record=replace(record, failure=error))
    state, then = _roll_back(state, Step.SUSPEND, found.at)
    return state, (*emit, CountsFailed(error), *then)


def _at_yield(state: Rescale, observed: Observed, _: RescaleConfig) -> Advance:
    if observed.job.suspended_by is not None:
        return state, (Unmark(observed.job.resource_version),)
    return _finish(state, Outcome.USER, "its user resumed it")


_HANDLERS: dict[Step, Callable[[Rescale, Observed, RescaleConfig], Advance]] = {
    Step.CHECKPOINT: _at_checkpoint,
    Step.SUSPEND: _at_suspend,
    Step.EMPTY: _at_empty,
    Step.RESUME: _at_resume,
    Step.START: _at_start,
    Step.VERIFY: _at_verify,
    Step.YIELD: _at_yield,
}


def _enter(state: Rescale, record: RescaleRecord, step: Step, at: float) -> Advance:
    """Enter a step: it is stored first, then the job is observed for it."""
    record = replace(record, step=step, step_at=at)
    return _tick(replace(state, record=record, written=False, empty_since=None))


def _roll_back(state: Rescale, step: Step, at: float) -> Advance:
    state = replace(state, placed_at=None, ran_at=None)
    return _enter(state, replace(state.record, rolling_back=True), step, at)


def _finish(state: Rescale, outcome: Outcome, reason: str) -> Advance:
    start_seconds = None
    if state.placed_at is not None and state.ran_at is not None:
        start_seconds = state.ran_at - state.placed_at
    end = End(outcome, state.record, reason, _price_seconds(state), start_seconds)
    return replace(state, end=end), (end,)


def _price_seconds(state: Rescale) -> float | None:
    stopped_at, emptied_at, placed_at = state.stopped_at, state.emptied_at, state.placed_at
    trained_at = state.trained_at
    if stopped_at is None or emptied_at is None or placed_at is None or trained_at is None:
        return None
    return emptied_at - stopped_at + trained_at - placed_at + state.lost_seconds


def _emit_once(state: Rescale, event: EmitEvent, key: str = "") -> Advance:
    """Emit an Event unless one of its key was; the key is its reason by default."""
    key = key or event.reason
    if key in state.emitted:
        return state, ()
    return replace(state, emitted=state.emitted | {key}), (event,)


# --- the stored form


def pack_rescale(record: RescaleRecord) -> RescaleStatus:
    """The rescale as the profile shows it."""
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
        return_ps=None if record.returns_to is None else record.returns_to.ps,
        return_workers=None if record.returns_to is None else record.returns_to.workers,
    )


def unpack_rescale(stored: RescaleStatus | None, job: object, at: float) -> RescaleRecord | None:
    """The rescale in a profile; ``None`` without one, or where it cannot be read; ``at`` is now."""
    if stored is None:
        return None
    try:
        started_at = min(parse_instant(stored.started_at), at)
        step_at = min(parse_instant(stored.step_at), at) if stored.step_at else started_at
        step, purpose = Step.CHECKPOINT, _purpose_of(stored)
        counts = (stored.origin, stored.target)
        record = RescaleRecord(
            stored.id,
            started_at,
            *counts,
            stored.why,
            step,
            step_at,
            purpose=purpose,
            restarts=stored.restarts,
            failure=stored.failure,
            returns_to=stored.returns_to,
        )
        return record.with_step_text(stored.step)
    except (Malformed, ValueError) as error:
        _LOG.warning("job %s: rescale in its profile cannot be decoded, dropped: %s", job, error)
        return None


_OLD_IDS: Final = {
    "profiling-": RescalePurpose.PROFILING,
    "explore-": RescalePurpose.EXPLORATION,
    "measured-": RescalePurpose.AFTER_PROFILING,
    "half-placed-": RescalePurpose.TAKE_BACK,
}
"""Prefixes of ids in records that were stored without a purpose, by earlier versions."""


def _purpose_of(stored: RescaleStatus) -> RescalePurpose:
    if stored.purpose in set(RescalePurpose):
        return RescalePurpose(stored.purpose)
    by_prefix = (each for prefix, each in _OLD_IDS.items() if stored.id.startswith(prefix))
    return next(by_prefix, RescalePurpose.INTERVAL)
