"""Reads one job from the API server for the page, within limits.

Readers of the page are unknown and many. However often they ask, the API server is asked about two
jobs a second at most, about one job once in five seconds, and two are read at once."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from cachetools import TTLCache

from autoscaler.web.copies import JobCopy
from optimus.kube.job_display import StoredJobText
from optimus.kube.job_events import DisplayedJob

_SECONDS: Final = 5.0
_MOST_KEPT: Final = 32
_MOST_AT_ONCE: Final = 2
_MOST_IN_WINDOW: Final = 10

BUSY: Final = StoredJobText(problems=("others read jobs just now: try again in a few seconds",))


class Display(Protocol):
    """``optimus.kube.job_display.JobDisplay``; see there."""

    def read(self, job: DisplayedJob) -> StoredJobText:
        """The Events on a job and its pods, and its YAML."""


class ReadLimit:
    """How much readers may ask of the API server; safe to use from several threads."""

    def __init__(self, timer: Callable[[], float] = time.monotonic) -> None:
        self._timer, self._guard = timer, threading.Lock()
        self._in_flight = threading.Semaphore(_MOST_AT_ONCE)
        self._begun: deque[float] = deque(maxlen=_MOST_IN_WINDOW)

    @contextmanager
    def turn(self) -> Iterator[bool]:
        """Whether one more may begin; it is in flight until the block ends."""
        if not self._in_flight.acquire(blocking=False):
            yield False
            return
        try:
            yield self._may_begin()
        finally:
            self._in_flight.release()

    def _may_begin(self) -> bool:
        with self._guard:
            now = self._timer()
            full = len(self._begun) == _MOST_IN_WINDOW and now - self._begun[0] < _SECONDS
            if not full:
                self._begun.append(now)
            return not full


class StoredJobs:
    """The last answers by job; safe to use from several threads."""

    def __init__(self, display: Display, timer: Callable[[], float] = time.monotonic) -> None:
        self._display = display
        self._guard, self._limit = threading.Lock(), ReadLimit(timer)
        self._kept: TTLCache[str, StoredJobText] = TTLCache(_MOST_KEPT, _SECONDS, timer)

    def of(self, job: JobCopy) -> StoredJobText:
        """The job as stored a few seconds ago at most, or ``BUSY``."""
        with self._guard:
            kept = self._kept.get(job.uid)
        if kept is not None:
            return kept
        with self._limit.turn() as may_begin:
            return self._read(job) if may_begin else BUSY

    def _read(self, job: JobCopy) -> StoredJobText:
        shown = DisplayedJob(job.kind, job.key, job.uid, job.created_at, job.pods)
        text = self._display.read(shown)
        with self._guard:
            self._kept[job.uid] = text
        return text
