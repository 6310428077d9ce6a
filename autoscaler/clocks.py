"""The time that everything here goes by."""

import time
from collections.abc import Callable
from typing import Final

_SLEW: Final = 0.1


class Clocks:
    """``timer`` never goes back; ``now`` is the time of day, seconds since the epoch, UTC, and
    never jumps.

    A wall clock that is set forward or back is followed at most a tenth faster or slower than time
    passes: what is waited for takes as long as it should, and stored instants are right again in
    the end."""

    def __init__(
        self, wall: Callable[[], float] = time.time, timer: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall = wall
        self.timer = timer
        self._now, self._timed_at = wall(), timer()

    def now(self) -> float:
        """The time of day."""
        timed_at = self.timer()
        passed_seconds, self._timed_at = timed_at - self._timed_at, timed_at
        self._now += passed_seconds
        most = _SLEW * passed_seconds
        self._now += min(max(self._wall() - self._now, -most), most)
        return self._now
