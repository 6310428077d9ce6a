"""When a component is restarted, and its status, as values.

Pure: instants are arguments (seconds of a monotonic clock). The delay doubles from death to death
and is reset after a steady time."""

from dataclasses import dataclass, replace
from enum import Enum


class Phase(Enum):
    """Where a component is in its life."""

    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    BACKING_OFF = "backing off"
    STOPPED = "stopped"


@dataclass(frozen=True)
class BackOff:
    """How long a component that died waits before it is started again, all in seconds."""

    first_seconds: float = 0.2
    longest_seconds: float = 10.0
    steady_seconds: float = 20.0

    def delay_seconds(self, deaths_in_a_row: int) -> float:
        """Return the delay after so many deaths (1 or more) in a row."""
        doublings = min(deaths_in_a_row - 1, 30)
        return float(min(self.longest_seconds, self.first_seconds * 2**doublings))


@dataclass(frozen=True)
class Life:
    """One component's life so far. `restarts` counts starts after the first."""

    phase: Phase = Phase.WAITING
    starts: int = 0
    deaths_in_a_row: int = 0
    started_at: float = 0.0
    retry_at: float | None = None
    last_exit: str | None = None

    @property
    def restarts(self) -> int:
        """How many times it was started again."""
        return max(0, self.starts - 1)

    def started(self, now: float) -> "Life":
        """It was started just now."""
        return replace(
            self, phase=Phase.STARTING, starts=self.starts + 1, started_at=now, retry_at=None
        )

    def became_ready(self) -> "Life":
        """Its probe said yes."""
        return replace(self, phase=Phase.READY)

    def died(self, how: str, now: float, back_off: BackOff) -> "Life":
        """It ended on its own, `how` in words; it will be started again at `retry_at`."""
        steady = now - self.started_at >= back_off.steady_seconds
        deaths = 1 if steady else self.deaths_in_a_row + 1
        return replace(
            self,
            phase=Phase.BACKING_OFF,
            deaths_in_a_row=deaths,
            retry_at=now + back_off.delay_seconds(deaths),
            last_exit=how,
        )

    def stopped(self) -> "Life":
        """It was ended on purpose."""
        return replace(self, phase=Phase.STOPPED, retry_at=None)

    def due(self, now: float) -> bool:
        """Tell whether it is time to start it again."""
        return self.retry_at is not None and now >= self.retry_at


def describe_exit(return_code: int) -> str:
    """Say in words how a process ended, from what `Popen.returncode` holds."""
    if return_code >= 0:
        return f"ended with status {return_code}"
    return f"was killed by signal {-return_code}"
