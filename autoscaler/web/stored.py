"""Reads the Events on one job from the API server for the page, within limits.

Readers of the page are unknown and many. However often they ask, the API server is asked about two
jobs a second at most, about one job once in five seconds, and two are read at once."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from cachetools import TTLCache

from autoscaler.web.copies import JobCopy
from autoscaler.web.job_events import BoundedSource, DisplayedJob, JobEvents, read_job_events

_SECONDS: Final = 5.0
_MOST_KEPT: Final = 32
_MOST_AT_ONCE: Final = 2
_MOST_IN_WINDOW: Final = 10

BUSY: Final = JobEvents((), ("others read jobs just now: try again in a few seconds",))


class StoredEvents:
    """The last answers by job; safe to use from several threads."""

    def __init__(self, source: BoundedSource, timer: Callable[[], float] = time.monotonic) -> None:
        self._source, self._timer, self._guard = source, timer, threading.Lock()
        self._in_flight = threading.Semaphore(_MOST_AT_ONCE)
        self._begun: deque[float] = deque(maxlen=_MOST_IN_WINDOW)
        self._kept: TTLCache[str, JobEvents] = TTLCache(_MOST_KEPT, _SECONDS, timer)

    def of(self, job: JobCopy) -> JobEvents:
        """The Events as stored a few seconds ago at most, or ``BUSY``."""
        with self._guard:
            kept = self._kept.get(job.uid)
        if kept is not None:
            return kept
        if not self._in_flight.acquire(blocking=False):
            return BUSY
        try:
            return self._read(job) if self._may_begin() else BUSY
        finally:
            self._in_flight.release()

    def _may_begin(self) -> bool:
        with self._guard:
            now = self._timer()
            full = len(self._begun) == _MOST_IN_WINDOW and now - self._begun[0] < _SECONDS
            if not full:
                self._begun.append(now)
            return not full

    def _read(self, job: JobCopy) -> JobEvents:
        shown = DisplayedJob(job.kind, job.key, job.uid, job.created_at, job.pods)
        found = read_job_events(self._source, shown)
        with self._guard:
            self._kept[job.uid] = found
        return found
