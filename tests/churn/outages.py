"""How long jobs that have trained are without some of their pods.

A job's own start time is the longest time from the placement of all its pods until all of them ran.
From the first pod that leaves until all run again no more than that and ``MOST_SECONDS`` may pass.

An outage does not count from the first check on at which one of these is so: its user has suspended
the job, or it is suspended at its goal; one of its pods was drained from a node, or was changed by
its user's manifest; a node was taken away. Then the capacity may be gone, or is nobody's promise:
the job counts again once all its pods have run. The time right after a process was killed does not
count either.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

MOST_SECONDS: Final = 60.0
KILLED_SECONDS: Final = 20.0
"""So long after a kill no time counts: the process starts, and becomes the leader."""


class Pods(NamedTuple):
    """How many pods a job is to have, how many have a node, and how many run or have ended."""

    wanted: int
    placed: int
    running: int


@dataclass(slots=True)
class _Job:
    trained: bool = False
    placed_at: float | None = None
    start_seconds: float = 0.0
    without_seconds: float = 0.0
    longest_seconds: float = 0.0


class Outages:
    """Checked again and again; instants are monotonic seconds."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}
        self._at: float | None = None
        self._killed_at = float("-inf")
        self._step_seconds = 0.0
        self.longest_seconds = 0.0
        """Of all outages that count, beyond the job's own start time."""

    def begin(self, at: float) -> None:
        """A check begins."""
        self._step_seconds = 0.0 if self._at is None else at - self._at
        if at - self._killed_at < KILLED_SECONDS:
            self._step_seconds = 0.0
        self._at = at

    def killed(self, at: float) -> None:
        """A process was killed."""
        self._killed_at = at

    def observe(self, name: str, pods: Pods, excuse: str = "") -> str:
        """Return what is wrong with a job at this check; empty: nothing."""
        assert self._at is not None
        job = self._jobs.setdefault(name, _Job())
        if pods.running >= pods.wanted:
            if job.placed_at is not None:
                job.start_seconds = max(job.start_seconds, self._at - job.placed_at)
            job.trained, job.placed_at, job.without_seconds = True, None, 0.0
            return ""
        if pods.placed < pods.wanted:
            job.placed_at = None
        elif job.placed_at is None:
            job.placed_at = self._at
        if excuse:
            job.trained = False
        if not job.trained:
            job.without_seconds = 0.0
            return ""
        job.without_seconds += self._step_seconds
        limit_seconds = MOST_SECONDS + job.start_seconds
        self.longest_seconds = max(self.longest_seconds, job.without_seconds - job.start_seconds)
        if job.without_seconds <= limit_seconds:
            return ""
        return f"{name} is without all its pods for more than {limit_seconds:.0f} s"
