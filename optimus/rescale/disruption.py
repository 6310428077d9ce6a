"""The disruption budget: how many jobs may be stopped for rescales at once, and which go first."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from optimus.allocation.problem import is_forced
from optimus.jobs import Counts, Job
from optimus.rescale.purpose import RescalePurpose


@dataclass(frozen=True, slots=True)
class Limit:
    """A number of jobs, or a percentage of them, of which there is always at least one."""

    number: int | None = None
    percent: float | None = None

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """From a setting such as ``4`` or ``25%``; ``None`` where it is neither."""
        figure = text.removesuffix("%")
        if not (figure.isascii() and figure.isdigit() and 0 < int(figure) < 1_000_000):
            return None
        return cls(percent=float(figure)) if text.endswith("%") else cls(number=int(figure))

    def __str__(self) -> str:
        if self.number is not None:
            return str(self.number)
        return "no limit" if self.percent is None else f"{self.percent:g}%"

    def of(self, jobs: int) -> float:
        """The limit as a number, for this many jobs."""
        if self.number is not None:
            return self.number
        return math.inf if self.percent is None else math.ceil(jobs * self.percent / 100)


NO_LIMIT: Final = Limit()


@dataclass(frozen=True, slots=True)
class DisruptionLimits:
    """The number of managed jobs that may be stopped for rescales at once."""

    cluster: Limit = NO_LIMIT
    namespace: Limit = NO_LIMIT


UNLIMITED: Final = DisruptionLimits()

DEFAULT_LIMITS: Final = DisruptionLimits(Limit(percent=25.0), Limit(percent=50.0))
"""Of ``--max-stopped`` and ``--max-stopped-per-namespace``."""


class DisruptionBudget:
    """Decides which rescales may stop their jobs now; those that are stopped are noted first.

    A job counts from its suspension until all its pods have started. The budget is asked right
    before the suspension, in ``rescale_order``: a rescale that still waits for something else holds
    back no other. A job that is stuck counts in its own namespace alone: that its pods do not end
    may be its user's doing, and would hold back all others for ever. So do all jobs of a namespace
    of which jobs have been stopped for too long (``StoppedTime``)."""

    def __init__(
        self, jobs: Iterable[Job], limits: DisruptionLimits, over: Collection[str] = ()
    ) -> None:
        """``jobs`` are all managed jobs; ``over`` namespaces that have used too much."""
        self._limits, self._over = limits, over
        self._jobs = Counter(job.key.namespace for job in jobs)
        self._stopped = dict[str, str]()
        self._stuck = set[str]()

    def note(self, job: Job, *, is_stopped: bool, is_stuck: bool = False) -> None:
        """Take in whether a job is stopped for a rescale, and for too long."""
        self._stopped.pop(job.uid, None)
        self._stuck.discard(job.uid)
        if is_stopped:
            self._stopped[job.uid] = job.key.namespace
        if is_stopped and is_stuck:
            self._stuck.add(job.uid)

    def allows(self, job: Job, purpose: RescalePurpose) -> bool:
        """Return whether this job may be stopped now for a rescale of this purpose."""
        if purpose.is_urgent or not purpose.is_disruption or job.uid in self._stopped:
            return True
        namespace, limits = job.key.namespace, self._limits
        in_namespace = sum(each == namespace for each in self._stopped.values())
        in_cluster = sum(
            uid not in self._stuck and (name == namespace or name not in self._over)
            for uid, name in self._stopped.items()
        )
        return in_cluster < limits.cluster.of(
            self._jobs.total()
        ) and in_namespace < limits.namespace.of(self._jobs[namespace])


class StoppedTime:
    """For how long the jobs of each namespace have been stopped: a leaky bucket for each. Time is
    an argument, in seconds.

    A namespace whose jobs do not start again, as their pods do not end, their users delete them and
    make them anew, or suspend them whenever they run, would hold the cluster's budget for ever. One
    that has used more than its part of it for long holds back only itself."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}
        """Seconds of stopped jobs beyond the part."""
        self._noted_at: float | None = None

    def note(self, stopped: Mapping[str, int], part: float, at: float) -> frozenset[str]:
        """So many jobs of each namespace are stopped now; returns the namespaces that have used too
        much. ``part`` is what a namespace may have stopped all the time: the cluster's limit,
        divided by the namespaces."""
        passed = 0.0 if self._noted_at is None else max(at - self._noted_at, 0.0)
        self._noted_at = at
        found = {
            name: self._spent.get(name, 0.0) + (stopped.get(name, 0) - part) * passed
            for name in {*self._spent, *stopped}
        }
        self._spent = {name: seconds for name, seconds in found.items() if seconds > 0}
        # As long as one job may be stopped before it counts as stuck.
        most_seconds = 600.0 * max(part, 1.0)
        return frozenset(name for name, seconds in self._spent.items() if seconds > most_seconds)


def rescale_order(
    purpose: RescalePurpose, before: Counts, target: Counts, worth: float
) -> tuple[bool, float]:
    """The order in which jobs are stopped: those that release capacity, then the largest gain."""
    releases = is_forced(before, target) and purpose is not RescalePurpose.STRAGGLER
    return not releases, -worth
