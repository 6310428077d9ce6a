"""The data of the pod state machine: states of a container, events in, instructions out.

`state_machine` takes events and returns instructions; `runner` carries the instructions out and
reports back with events. Neither side knows the other's internals."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from localcluster.node.pod_spec import ContainerSpec

StatusJson = Mapping[str, Any]


@dataclass(frozen=True)
class Moment:
    """One instant: seconds since the epoch for a status, monotonic seconds for time-outs."""

    wall: float
    seconds: float


# --- states of a container


@dataclass(frozen=True)
class Waiting:
    """Not running, with the reason and a sentence."""

    reason: str
    message: str = ""


@dataclass(frozen=True)
class Running:
    """A process runs since `since`."""

    since: Moment


@dataclass(frozen=True)
class Terminated:
    """A run has ended with an exit code (128 + signal number when a signal ended it)."""

    exit_code: int
    reason: str
    started_at: float | None
    finished_at: float
    message: str = ""
    attempt: int = 0


@dataclass
class Stopping:
    """A container is being stopped: killed at `kill_at_seconds` unless it ends before."""

    kill_at_seconds: float
    killed: bool = False


@dataclass
class ContainerRecord:
    """What is known of one container: its state, the run before, and when it is tried again."""

    spec: ContainerSpec
    state: Waiting | Running | Terminated
    last: Terminated | None = None
    attempt: int = 0
    launched: bool = False
    starting: bool = False
    started: bool = False
    started_once: bool = False
    probed_ready: bool = False
    delay_seconds: float = 0.0
    retry_at_seconds: float | None = None
    ended_seconds: float = 0.0
    refusals: int = 0
    stopping: Stopping | None = None

    @property
    def alive(self) -> bool:
        """Whether a process runs or is just being started."""
        return self.starting or isinstance(self.state, Running)

    @property
    def ready(self) -> bool:
        """Whether the container counts as ready, as a kubelet reports it."""
        running = isinstance(self.state, Running) and self.started
        return running and (self.spec.readiness is None or self.probed_ready)

    @property
    def succeeded(self) -> bool:
        """Whether the last run ended with exit code 0."""
        return isinstance(self.state, Terminated) and self.state.exit_code == 0

    @property
    def over(self) -> bool:
        """Whether the container has ended and its restart policy does not run it again."""
        if not isinstance(self.state, Terminated) or self.starting:
            return False
        policy = self.spec.restart_policy
        return policy == "Never" or (policy == "OnFailure" and self.state.exit_code == 0)


# --- events


@dataclass(frozen=True)
class Prepared:
    """Volumes, ports and tokens of the pod are in place."""


@dataclass(frozen=True)
class PrepareFailed:
    """They are not, for a reason that may pass."""

    reason: str
    message: str


@dataclass(frozen=True)
class Started:
    """The process of a container's run `attempt` exists."""

    container: str
    attempt: int


@dataclass(frozen=True)
class StartFailed:
    """It could not be made: a run that ended at once (`exit_code`), or to be tried again."""

    container: str
    reason: str
    message: str
    exit_code: int | None = None


@dataclass(frozen=True)
class Exited:
    """The process of run `attempt` has ended."""

    container: str
    attempt: int
    exit_code: int


@dataclass(frozen=True)
class ProbeReport:
    """A probe (`startup`, `readiness`, `liveness`) of run `attempt` crossed its threshold."""

    container: str
    attempt: int
    probe: str
    healthy: bool
    message: str = ""


@dataclass(frozen=True)
class DeletionRequested:
    """The pod object got a deletion timestamp, with this grace period."""

    grace_seconds: float


@dataclass(frozen=True)
class Vanished:
    """The pod object is gone from the API server."""


@dataclass(frozen=True)
class Tick:
    """Time has passed."""


ContainerEvent = Started | StartFailed | Exited | ProbeReport
Event = Prepared | PrepareFailed | ContainerEvent | DeletionRequested | Vanished | Tick


# --- instructions


@dataclass(frozen=True)
class Prepare:
    """Make volumes, ports and tokens, then answer Prepared or PrepareFailed."""


@dataclass(frozen=True)
class Start:
    """Start run `attempt` of a container, then answer Started or StartFailed."""

    container: str
    attempt: int


@dataclass(frozen=True)
class Signal:
    """Send SIGTERM to a container's first process, or, with `kill`, SIGKILL to its whole group."""

    container: str
    kill: bool


@dataclass(frozen=True)
class BeginProbes:
    """Probe a container's run from now on."""

    container: str
    attempt: int


@dataclass(frozen=True)
class EndProbes:
    """Stop probing a container."""

    container: str


@dataclass(frozen=True)
class EmitEvent:
    """Emit an Event on the pod."""

    kind: str
    reason: str
    message: str


@dataclass(frozen=True)
class Discard:
    """Once the final status is written, delete the pod object (grace 0, guarded by its UID)."""


@dataclass(frozen=True)
class Forget:
    """Release everything that the pod holds on this machine: its object is gone."""


Instruction = Prepare | Start | Signal | BeginProbes | EndProbes | EmitEvent | Discard | Forget
