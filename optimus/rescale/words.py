"""The words of a rescale, as values: its record and steps, what happens, what is to be done.

No Kubernetes and no stored form is in them: ``optimus.rescale.machine`` takes events and returns
instructions, and whoever carries these out (on a cluster, or on virtual time) answers with events.
"""

import math
from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from typing import Final

from optimus.jobs import NO_COUNTS, Counts
from optimus.rescale.purpose import RescalePurpose


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


_STOPPED: Final = (Step.SUSPEND, Step.EMPTY, Step.RESUME, Step.START)
_UNDER_WAY: Final = (*_STOPPED, Step.VERIFY)
_UNDO: Final = "undo-"


class PauseReason(StrEnum):
    """Why a job is paused.

    GOAL: its goal is met, and it stays paused until its user resumes it or sets another goal.
    POLICY: a policy that takes turns gives others its capacity. GANG: a gang waits for it. The
    autoscaler ends the last two."""

    GOAL = "goal"
    POLICY = "policy"
    GANG = "gang"

    @property
    def is_final(self) -> bool:
        """Return whether the autoscaler does not resume the job by itself."""
        return self is PauseReason.GOAL


@dataclass(frozen=True, slots=True)
class RescaleRecord:
    """The record of a rescale in the profile; instants are UTC, seconds since the epoch.

    A pause is a rescale to (0, 0) that ends when no pod is left. A resume is one that begins
    there, at RESUME."""

    id: str
    """That of the interval that decided it, and the value of the suspended-by annotation. A resume
    has the id of the pause that it ends."""

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

    pause: PauseReason | None = None
    """Why the job is paused by it, or was paused before it; ``None`` where it trains on both
    sides."""

    @property
    def return_counts(self) -> Counts:
        """The counts to which a roll-back goes."""
        return self.before if self.returns_to is None else self.returns_to

    @property
    def kept(self) -> Counts:
        """Return what the job had before and was to have after: the capacity of the rest is
        promised to others, or was never its own."""
        before, target = self.before, self.target
        if target == NO_COUNTS:
            return before
        return Counts(min(before.ps, target.ps), min(before.workers, target.workers))

    @property
    def needs_room(self) -> bool:
        """Return whether the job is not stopped before its target fits."""
        return self.target != NO_COUNTS and not self.purpose.is_urgent

    @property
    def current_target(self) -> Counts:
        """Return where the job goes: the target, or back."""
        return self.return_counts if self.rolling_back else self.target

    @property
    def change(self) -> str:
        """The counts before and after, as users read them."""
        if self.resumes:
            return f"paused -> {self.target}"
        after = str(self.target) if self.target != NO_COUNTS else "paused"
        return f"{self.before} -> {'suspended' if self.pause is PauseReason.GOAL else after}"

    @property
    def pauses(self) -> bool:
        """Return whether the job is to have no pods when it is over."""
        return self.target == NO_COUNTS and not self.rolling_back

    @property
    def resumes(self) -> bool:
        """Return whether it ends a pause."""
        return self.pause is not None and self.target != NO_COUNTS

    @property
    def is_stopped(self) -> bool:
        """Return whether the job does not train for it: suspended, or about to be, or starting."""
        return self.step in _STOPPED

    @property
    def holds_capacity(self) -> bool:
        """Return whether what the target needs is nobody else's: until its pods train, or it is
        back."""
        return self.step in _UNDER_WAY

    @property
    def step_text(self) -> str:
        """The step as the profile's ``rescale.step`` stores it."""
        return (_UNDO if self.rolling_back else "") + self.step

    def with_step_text(self, text: str) -> "RescaleRecord":
        """The record at the step that a profile stores; raises ValueError on any other text."""
        step = Step(text.removeprefix(_UNDO))
        return replace(self, step=step, rolling_back=text.startswith(_UNDO))


@dataclass(frozen=True, slots=True)
class SeenJob:
    """The job as the API server has it."""

    suspended: bool
    suspended_by: str | None
    """The value of our annotation."""

    suspension_confirmed: bool
    """True where the operator has set the Suspended condition."""

    counts: Counts
    resource_version: str
    finished: bool = False
    """Succeeded or Failed, or being deleted."""

    failed: bool = False


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
    """True where one waits in CrashLoopBackOff, or its pod has failed and stays."""

    is_ending: bool = False
    """True where a trainer has Succeeded: suspended and resumed, it would begin again."""

    trains: bool = False
    """True where the log of these very pods shows training steps."""

    is_mixed: bool = False
    """True where some were made for other counts than the job has."""

    unloaded: str = ""
    """Why they do not train on from what was saved at the counts before, where their log shows
    it."""

    leaving: int = 0
    """Those being deleted; ``lingering`` names some of them, with their nodes."""

    lingering: str = ""

    def all_started(self, target: Counts) -> bool:
        """Return whether the whole gang has started."""
        return self.fixed_missing == 0 and covers(self.started, target)


def covers(counts: Counts, target: Counts) -> bool:
    """Return whether there are at least as many of each role."""
    return counts.ps >= target.ps and counts.workers >= target.workers


class PatchResult(Enum):
    """The outcome of a patch.

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
    """The user's intent by the job's annotations and goal: whether a checkpoint comes first, and
    why the rescale is unwanted, if it is; ``may_stop``: whether as few jobs as allowed are stopped
    now."""

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
    job: SeenJob
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
    """Store the record in the profile, with the phase of its step, then report ProfileWritten."""

    record: RescaleRecord


@dataclass(frozen=True, slots=True)
class Observe:
    """List the job's pods, then read the job, then report; ``uncached``: not from a watch."""

    uncached: bool


@dataclass(frozen=True, slots=True)
class Suspend:
    """Suspend the job and annotate it with ``by``, in one patch guarded by the resource version.

    ``restarts`` are those that its pods take with them; ``pause`` is why it is not resumed by this
    rescale, ``None`` where it is."""

    by: str
    resource_version: str
    restarts: int = 0
    pause: PauseReason | None = None


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


class Notice(StrEnum):
    """The messages that users get of a rescale; its sentences are written where Events are."""

    BEGINS = "begins"
    NO_CHECKPOINT = "no checkpoint"
    PODS_DO_NOT_END = "pods do not end"
    TAKEN_BACK = "taken back"
    OPERATOR_AWAY = "operator away"
    PATCH_REFUSED = "patch refused"
    COUNTS_REFUSED = "counts refused"
    NOT_PLACED = "not placed"
    CONTAINERS_FAIL = "containers fail"
    UNWANTED = "unwanted"
    NOT_STORED = "not stored"
    JOB_FAILED = "job failed"


@dataclass(frozen=True, slots=True)
class Notify:
    """Tell the job's users something of its rescale, as it is in ``record``.

    ``seconds`` is how long something has lasted, ``detail`` is what was said about it by others."""

    notice: Notice
    record: RescaleRecord
    seconds: float = 0.0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class PlacementFailed:
    """Record, with the next write of the profile, that the target was not placed in time.

    ``lost``: its capacity has gone to others meanwhile, which says nothing against these counts."""

    waited_seconds: float
    lost: bool = False


class Outcome(StrEnum):
    """The ways in which a rescale ends. ABANDONED: it was not allowed to begin."""

    REACHED = "reached"
    ROLLED_BACK = "rolled back"
    PAUSED = "paused"
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

    redone_seconds: float = 0.0
    """Training since the checkpoint that its stop lost."""

    stop_seconds: float | None = None
    """From the suspension to the end of the last pod; ``None`` where that was not seen."""

    @property
    def happened(self) -> bool:
        """Return whether the job was moved or paused, or moved and moved back."""
        return self.outcome in {Outcome.REACHED, Outcome.ROLLED_BACK, Outcome.PAUSED}


@dataclass(frozen=True, slots=True)
class CountsFailed:
    """Record, with the next write of the profile, that the job's containers fail at the target;
    ``everywhere``: that they would at any other counts, too."""

    why: str
    everywhere: bool = False


Patch = Suspend | ResizeAndResume | Unmark
Instruction = (
    WriteProfile | Observe | FindCounts | Patch | Notify | PlacementFailed | CountsFailed | End
)
