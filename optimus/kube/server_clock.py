"""The API server's clock: creation times are its own, and the local clock may be minutes off."""

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime


class ServerClock:
    """Seconds since the epoch by the ``Date`` of the last answer, and the time since then.

    Before the first answer it is the local clock. Safe to use from several threads.
    """

    def __init__(
        self,
        *,
        now: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now, self._timer = now, timer
        self._offset: float | None = None

    def observe(self, date: str | None) -> None:
        """An answer had this ``Date`` header (to the second); one that is none is ignored."""
        try:
            said = parsedate_to_datetime(date or "").timestamp()
        except ValueError:
            return
        self._offset = said - self._timer()

    def now(self) -> float:
        """The server's time."""
        return self._now() if self._offset is None else self._offset + self._timer()
