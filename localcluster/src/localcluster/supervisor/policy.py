"""When a component is restarted, and its status, as values.

Pure: instants are arguments (seconds of a monotonic clock). The delay doubles from death to death
and is reset after a steady time."""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from localcluster.backoff import BackOff


class Phase(Enum):
    """Where a component is in its life."""

    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    BACKING_OFF = "backing off"
    STOPPED = "stopped"


BACK_OFF: Final = BackOff(base_seconds=0.2, cap_seconds=10.0, reset_seconds=20.0)
"""Between a component's death and its next start."""


@dataclass(frozen=True)
class Lifecycle:
    """One component's life so far. `restarts` counts starts after the first."""

    phase: Phase = Phase.WAITING
    starts: int = 0
    deaths_in_a_row: int = 0
    delay_seconds: float = 0.0
    started_at: float = 0.0
    retry_at: float | None = None
    last_exit: str | None = None

    @property
    def restarts(self) -> int:
        """How many times it was started again."""
        return max(0, self.starts - 1)

    def started(self, now: float) -> "Lifecycle":
        """It was started just now."""
        return replace(
            self, phase=Phase.STARTING, starts=self.starts + 1, started_at=now, retry_at=None
        )

    def became_ready(self) -> "Lifecycle":
        """Its probe said yes."""
        return replace(self, phase=Phase.READY)

    def died(self, how: str, now: float, back_off: BackOff) -> "Lifecycle":
        """It ended on its own, `how` in words; it will be started again at `retry_at`."""
        steady = now - self.started_at >= back_off.reset_seconds
        delay = back_off.after(0.0 if steady else self.delay_seconds)
        return replace(
            self,
            phase=Phase.BACKING_OFF,
            deaths_in_a_row=1 if steady else self.deaths_in_a_row + 1,
            delay_seconds=delay,
            retry_at=now + delay,
            last_exit=how,
        )

    def stopped(self) -> "Lifecycle":
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
