"""The words of a rescale: its record, what happens to it (events) and what it asks to be done
(instructions)."""

from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from typing import Final

from optimus.jobs import Counts
from optimus.kube.contract import Phase

NO_COUNTS: Final = Counts(0, 0)


class Step(StrEnum):
    """Where a rescale stands; up to SUSPEND nothing is done to the job yet.

    YIELD: the user resumed the job; only our mark is left to be taken off.
    """

    CHECKPOINT = "checkpoint"
    SUSPEND = "suspend"
    EMPTY = "empty"
    RESUME = "resume"
    START = "start"
    YIELD = "yield"


_PHASES: Final = {
    Step.CHECKPOINT: Phase.WAITING_FOR_CHECKPOINT,
    Step.SUSPEND: Phase.SUSPENDING,
    Step.EMPTY: Phase.SUSPENDING,
    Step.RESUME: Phase.RESIZING,
    Step.START: Phase.STARTING,
    Step.YIELD: Phase.TRAINING,
}

_UNDO: Final = "undo-"


@dataclass(frozen=True, slots=True)
class RescaleRecord:
    """What the profile keeps of a rescale. Instants are UTC, seconds since the epoch.

    ``id`` is that of the interval that decided it, and the value of our mark on the job. A target
    of 0 + 0 means that the job is suspended and stays so. ``undoing``: the target could not be
    started, ``before`` is aimed at again."""

    id: str
    started_at: float
    before: Counts
    target: Counts
    why: str
    step: Step
    step_at: float
    undoing: bool = False

    @property
    def aim(self) -> Counts:
        """The counts that the job is on its way to."""
        return self.before if self.undoing else self.target

    @property
    def move(self) -> str:
        """The counts before and after, as users read them."""
        return f"{self.before} -> {'suspended' if self.target == NO_COUNTS else self.target}"

    @property
    def stays_suspended(self) -> bool:
        """Whether the job is to be suspended for good."""
        return self.target == NO_COUNTS and not self.undoing

    @property
    def phase(self) -> Phase:
        """The profile's phase in this step."""
        return _PHASES[self.step]

    @property
    def step_text(self) -> str:
        """The step as the profile's ``rescale.step`` stores it."""
        return (_UNDO if self.undoing else "") + self.step

    def with_step_text(self, text: str) -> "RescaleRecord":
        """The record at the step that a profile stores; raises ValueError on any other text."""
        return replace(self, step=Step(text.removeprefix(_UNDO)), undoing=text.startswith(_UNDO))


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleRules:
    """How long a rescale waits for what."""

    fresh_seconds: float = 30.0
    """A checkpoint this old is still "right after": the training since is lost. Default: a few log
    polls."""

    grace_seconds: float = 1.0
    """Wait after the last pod is gone before the job is resumed: the operator watches pods and jobs
    separately, and a pod that it still believes in would be adopted and fail the job. Default: far
    above the watches' usual delay."""

    start_seconds: float = 600.0
    """After so long without all pods placed, the counts before are restored. Default: the extender
    holds the room for as long from the suspension on, so that a place that is still free then is
    not given away while its pods start."""

    denied_seconds: float = 60.0
    """After so long of being denied a suspension it is given up, and the resumption at new counts
    is one at the old. Default: far longer than the moments in which an API server that is restarted
    knows nobody."""

    checkpoint_warning_seconds: float = 1200.0
    """After so long without a checkpoint the user is told which log line would do. Default: two
    intervals."""

    empty_warning_seconds: float = 300.0
    """After so long with pods left the user is told. Default: ten times the usual grace period of a
    pod."""


@dataclass(frozen=True, slots=True)
class JobLook:
    """The job as the API server has it.

    ``marked_by`` is the value of our annotation; ``suspension_seen`` the operator's Suspended
    condition; ``finished``: Succeeded or Failed, or being deleted.
    """

    suspended: bool
    marked_by: str | None
    suspension_seen: bool
    counts: Counts
    resource_version: str
    finished: bool = False


@dataclass(frozen=True, slots=True)
class PodsLook:
    """The job's pods, listed *before* the job was read.

    ``left`` counts every pod there is, also those being deleted; ``bound`` and ``started`` (Running
    or Succeeded) only those that stay. ``fixed_missing``: pods of fixed roles that have not
    started."""

    left: int
    bound: Counts
    started: Counts
    fixed_missing: int = 0

    def all_started(self, aim: Counts) -> bool:
        """Whether the whole gang has started."""
        return (
            self.started.ps >= aim.ps
            and self.started.workers >= aim.workers
            and self.fixed_missing == 0
        )


class Answer(Enum):
    """What became of a patch. UNKNOWN: no answer came, it may have been carried out. REFUSED: it
    never will be.

    DENIED: not while we lack the right, which an API server that has just been started may only not
    know of yet."""

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
    """The answer to WriteProfile."""

    at: float
    ok: bool


@dataclass(frozen=True, slots=True)
class CheckpointSeen:
    """The job's last complete checkpoint is there since this instant at the earliest, by our clock.

    That is the last read of its log that did not show it: the age of what is read late is not known
    any better."""

    since: float


@dataclass(frozen=True, slots=True)
class UserWants:
    """What the job's user says by now: whether a checkpoint comes first, and why the rescale is not
    to be, if so."""

    needs_checkpoint: bool
    against: str | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a patch."""

    at: float
    answer: Answer
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Looked:
    """The answer to Look; ``job`` is ``None`` when it is gone or another of that name has taken its
    place."""

    at: float
    job: JobLook | None
    pods: PodsLook


Event = Tick | ProfileWritten | CheckpointSeen | UserWants | Answered | Looked


@dataclass(frozen=True, slots=True)
class WriteProfile:
    """Store the record and the phase in the profile, then report ProfileWritten."""

    record: RescaleRecord
    phase: Phase


@dataclass(frozen=True, slots=True)
class Look:
    """List the job's pods, then read the job, then report Looked; ``uncached``: not from a
    watch."""

    uncached: bool


@dataclass(frozen=True, slots=True)
class Suspend:
    """Suspend the job and set our mark to ``by``, in one patch guarded by the resource version."""

    by: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class ResizeAndResume:
    """Set the counts, end the suspension and take our mark off, in one patch guarded by the
    resource version."""

    counts: Counts
    resource_version: str


@dataclass(frozen=True, slots=True)
class Unmark:
    """Take our mark off, and nothing else, in one patch guarded by the resource version."""

    resource_version: str


@dataclass(frozen=True, slots=True)
class Tell:
    """Put an Event on the job."""

    warning: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class NoPlace:
    """Remember, with the next write of the profile, that the target found no place in
    ``waited_seconds``."""

    waited_seconds: float


class Outcome(StrEnum):
    """How a rescale ended. ABANDONED: it was not allowed to begin."""

    REACHED = "reached"
    ROLLED_BACK = "rolled back"
    SUSPENDED = "suspended"
    USER = "left to its user"
    JOB_ENDED = "job ended"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class End:
    """The rescale is over: take the record out of the profile."""

    outcome: Outcome
    record: RescaleRecord
    reason: str


Instruction = WriteProfile | Look | Suspend | ResizeAndResume | Unmark | Tell | NoPlace | End
