"""Reads the Events on one job, or its log, from the API server for the page, within limits.

Readers of the page are unknown and many. However often they ask, the API server is asked about two
jobs a second at most, about one job once in some seconds, and two are read at once."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from cachetools import TTLCache

from autoscaler.web.copies import JobCopy
from autoscaler.web.job_events import BoundedSource, DisplayedJob, JobEvents, read_job_events
from optimus.cli.advise import training_of
from optimus.cli.observed_jobs import observe_job
from optimus.kube.logs import LogSource
from optimus.kube.training_jobs import TrainingJob

_T = TypeVar("_T")
LOG_SECONDS: Final = 60.0
_SECONDS: Final = 5.0
_MOST_KEPT: Final = 32
_MOST_AT_ONCE: Final = 2
_MOST_IN_WINDOW: Final = 10

_BUSY_TEXT: Final = "others read jobs just now: try again in a few seconds"
BUSY: Final = JobEvents((), (_BUSY_TEXT,))


class Stored(Generic[_T]):
    """The last answers by job, each at most so many seconds old; safe to use from several
    threads."""

    def __init__(
        self, busy: _T, seconds: float = _SECONDS, timer: Callable[[], float] = time.monotonic
    ) -> None:
        self._busy, self._timer, self._guard = busy, timer, threading.Lock()
        self._in_flight = threading.Semaphore(_MOST_AT_ONCE)
        self._begun: deque[float] = deque(maxlen=_MOST_IN_WINDOW)
        self._kept: TTLCache[str, _T] = TTLCache(_MOST_KEPT, seconds, timer)

    def of(self, uid: str, read: Callable[[], _T]) -> _T:
        """The job's answer as it was kept, or as it is read now, or that others are read."""
        with self._guard:
            kept = self._kept.get(uid)
        if kept is not None:
            return kept
        if not self._in_flight.acquire(blocking=False):
            return self._busy
        try:
            if not self._may_begin():
                return self._busy
            found = read()
            with self._guard:
                self._kept[uid] = found
            return found
        finally:
            self._in_flight.release()

    def _may_begin(self) -> bool:
        with self._guard:
            now = self._timer()
            full = len(self._begun) == _MOST_IN_WINDOW and now - self._begun[0] < _SECONDS
            if not full:
                self._begun.append(now)
            return not full


class StoredEvents:
    """The Events on jobs."""

    def __init__(self, source: BoundedSource, timer: Callable[[], float] = time.monotonic) -> None:
        self._source, self._stored = source, Stored(BUSY, timer=timer)

    def of(self, job: JobCopy) -> JobEvents:
        """The Events as stored a few seconds ago at most, or ``BUSY``."""
        shown = DisplayedJob(job.kind, job.key, job.uid, job.created_at, job.pods)
        return self._stored.of(job.uid, lambda: read_job_events(self._source, shown))


class StoredLogs:
    """What the logs of jobs show that are only placed, as ``optimus advise`` says it."""

    def __init__(self, source: LogSource, timer: Callable[[], float] = time.monotonic) -> None:
        self._source, self._stored = (
            source,
            Stored[tuple[str, ...]]((_BUSY_TEXT,), LOG_SECONDS, timer),
        )

    def of(self, job: TrainingJob, copy: JobCopy, at: float) -> tuple[str, ...]:
        """Its lines, as read a minute ago at most."""

        def read() -> tuple[str, ...]:
            answer = training_of(observe_job(self._source, job, copy.pods, at), job.uid)
            return () if answer is None else tuple(filter(None, answer.text.splitlines()))

        return self._stored.of(job.uid, read)
