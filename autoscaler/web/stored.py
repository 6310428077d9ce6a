"""Reads what the API server has of one job for the page, within limits: its Events, and the log of
one without a profile.

Readers of the page are unknown and many. However often they ask, the API server is asked about a
few jobs a second at most, about one job once in a while, and two are read at once."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from cachetools import TTLCache

from autoscaler.logs.poller import run_of
from autoscaler.web.copies import JobCopy
from autoscaler.web.job_events import BoundedSource, DisplayedJob, JobEvents, read_job_events
from optimus.errors import NotReady
from optimus.jobs import Role
from optimus.kube.logs import LogReader
from optimus.kube.results import Refused
from optimus.progress.log import ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.types import PodRun
from optimus.what_if.advice import Advice, advise

_MOST_KEPT: Final = 32
_MOST_AT_ONCE: Final = 2
_WINDOW_SECONDS: Final = 5.0
_BUSY: Final = "others read jobs just now: try again in a few seconds"
EVENTS_BUSY: Final = JobEvents((), (_BUSY,))
LOG_BUSY: Final = NotReady(_BUSY)
ReadTraining = tuple[Advice, float] | NotReady
"""What a log shows, and when it printed its last line, seconds since the epoch, UTC."""

T = TypeVar("T")


class Stored(Generic[T]):
    """The last answers of ``read`` by job; safe to use from several threads.

    An answer is kept for ``seconds``; ``most`` jobs are read in five seconds, and ``busy`` is the
    answer on those beyond."""

    def __init__(
        self,
        read: Callable[[JobCopy], T],
        busy: T,
        seconds: float = _WINDOW_SECONDS,
        most: int = 10,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._busy = read, busy
        self._timer, self._guard = timer, threading.Lock()
        self._in_flight = threading.Semaphore(_MOST_AT_ONCE)
        self._begun: deque[float] = deque(maxlen=most)
        self._kept: TTLCache[str, T] = TTLCache(_MOST_KEPT, seconds, timer)

    def of(self, job: JobCopy) -> T:
        """The answer on a job, or ``busy``."""
        with self._guard:
            kept = self._kept.get(job.uid)
        if kept is not None:
            return kept
        if not self._in_flight.acquire(blocking=False):
            return self._busy
        try:
            return self._answer(job) if self._may_begin() else self._busy
        finally:
            self._in_flight.release()

    def _may_begin(self) -> bool:
        with self._guard:
            now, begun = self._timer(), self._begun
            full = len(begun) == begun.maxlen and now - begun[0] < _WINDOW_SECONDS
            if not full:
                begun.append(now)
            return not full

    def _answer(self, job: JobCopy) -> T:
        found = self._read(job)
        with self._guard:
            self._kept[job.uid] = found
        return found


def read_events(source: BoundedSource, job: JobCopy) -> JobEvents:
    """Return the Events on a job and its pods."""
    shown = DisplayedJob(job.kind, job.key, job.uid, job.created_at, job.pods)
    return read_job_events(source, shown)


def read_training(source: BoundedSource, price_seconds: float, found: JobCopy) -> ReadTraining:
    """Return what the log of a job shows; ``price_seconds`` as in ``advise``."""
    job = found.job
    run = None if job is None else run_of(found.pods, job.counts, {})
    if job is None or run is None:
        return NotReady("none of its pods trains")
    lead, log = run.pods[0], ProgressLog(LogFormatOptions.of(job, time.thread_time))
    role, index = (lead.replica.role, lead.replica.index) if lead.replica else (Role.WORKER, 0)
    until = None
    for read in LogReader(source).read_ends(lead, last_lines=2000):
        if isinstance(read, Refused):
            return NotReady(f"its log cannot be read: {read.sentence}")
        this_run = PodRun(run.name, skipped=read.skipped)
        log.observe(lead.name, role, index, run.counts, read.lines, this_run)
        until = read.lines[-1].at if read.lines else until
    if until is None:
        return NotReady("its log is empty")
    advice = advise(job, log.progress(until), price_seconds)
    return advice if isinstance(advice, NotReady) else (advice, until)
