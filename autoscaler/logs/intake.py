"""Takes in the lines that were read, within a budget of CPU time for each job and tick.

A job may print more than can be parsed. Its lines are taken in slices: job after job, each for a
short time, until its budget or that of all jobs is spent. The rest waits for the next tick, in
which the jobs begin that have waited longest. A job with few lines has them taken in at once."""

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Final

_JOB_SECONDS: Final = 0.1
"""CPU time for the lines of one job in one tick: some 2,000 lines."""
_ALL_SECONDS: Final = 0.5
"""Of all jobs."""
_SLICE_SECONDS: Final = 0.01
_LAST_SECONDS: Final = 0.5
"""Of one job that is about to be suspended: its pods' logs go with them."""

_NO_MORE: Final = object()


class LineIntake:
    """The lines of each job that are to be taken in; an iterator takes in one at each step."""

    def __init__(self, timer: Callable[[], float] = time.thread_time) -> None:
        self._timer = timer
        self._waiting: dict[str, deque[Iterator[None]]] = {}
        """By job, those that have waited longest first."""
        self._spent: defaultdict[str, float] = defaultdict(float)
        self._left_seconds = _ALL_SECONDS

    def begin_tick(self) -> None:
        """Every job has its budget again."""
        self._spent.clear()
        self._left_seconds = _ALL_SECONDS

    def add(self, job: str, lines: Iterator[None]) -> None:
        """Lines to be taken in after those of the same job that wait already."""
        self._waiting.setdefault(job, deque()).append(lines)

    def waits(self, job: str) -> bool:
        """Whether lines of this job are not taken in yet."""
        return job in self._waiting

    def take(self) -> None:
        """Take in what the budgets allow."""
        turns = deque(self._waiting)
        while turns and self._left_seconds > 0:
            job = turns.popleft()
            seconds = min(_SLICE_SECONDS, _JOB_SECONDS - self._spent[job])
            used = self._take_for(job, seconds)
            self._spent[job] += used
            self._left_seconds -= used
            if job in self._waiting and self._spent[job] < _JOB_SECONDS:
                turns.append(job)

    def finish(self, job: str) -> None:
        """Take in all lines of a job now; what takes too long is dropped."""
        self._take_for(job, _LAST_SECONDS)
        self._waiting.pop(job, None)

    def _take_for(self, job: str, seconds: float) -> float:
        """Take in lines of one job for so long; returns how long it took."""
        began = self._timer()
        waiting = self._waiting.pop(job, deque())
        while waiting and self._timer() - began < seconds:
            if next(waiting[0], _NO_MORE) is _NO_MORE:
                waiting.popleft()
        if waiting:
            self._waiting[job] = waiting
        return self._timer() - began
