"""Deadlines: which counts let a job meet its goal in time.

Counts c meet a deadline that is L seconds away where

    t90(c) <= L                       for the counts that the job runs at
    (1 + m) t90(c) + price <= L       for others

t90 is the time within which the goal is met with a probability of 90 % (``Forecast.late_seconds``),
price that of a rescale, m the part of the remaining time by which any change has to be better.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus.jobs import Counts, Job
from optimus.models.forecast import Forecast
from optimus.resources import Resources

MOST_EXTRA: Final = 64
"""Maximum number of PSs, and of workers, beyond the least that are considered."""

Counted = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Deadline:
    """How long one job has until its deadline, in seconds; below 0: it has passed.

    ``held`` are the counts that the job runs at, ``None`` while it waits."""

    seconds: float
    held: Counts | None = None
    price_seconds: float = 0.0
    margin_fraction: float = 0.0

    def needed_seconds(
        self, forecast: Forecast, ps: ArrayLike, workers: ArrayLike
    ) -> NDArray[np.float64]:
        """The seconds that the deadline has to be away, at each pair of counts (broadcast)."""
        late = forecast.late_seconds(ps, workers)
        if self.held is None:
            return late
        moved = (1 + self.margin_fraction) * late + self.price_seconds
        stays = (np.asarray(ps) == self.held.ps) & (np.asarray(workers) == self.held.workers)
        return np.where(stays, late, moved)

    def is_met(self, forecast: Forecast, counts: Counts) -> bool:
        """Return whether these counts meet it."""
        return float(self.needed_seconds(forecast, counts.ps, counts.workers)) <= self.seconds


@dataclass(frozen=True, slots=True)
class DeadlineOutlook:
    """Whether a job meets its deadline at the counts that were decided.

    ``late_seconds`` is t90 at these counts. ``fastest`` are the counts that need least, within the
    job's bounds and the cluster; ``None`` where the deadline is met. ``possible``: they meet it."""

    finish_by: float
    seconds: float
    counts: Counts
    late_seconds: float
    fastest: Counts | None = None
    fastest_seconds: float = math.inf
    possible: bool = True
    provisional: bool = False
    """The job is being measured or moved, or was a moment ago: its counts are decided later."""

    @property
    def is_at_risk(self) -> bool:
        """Return whether it is known that the deadline is not met as things are."""
        return self.fastest is not None and not self.provisional

    @property
    def is_met(self) -> bool:
        """Return whether the deadline is met, with a probability of 90 %."""
        return self.fastest is None


def counts_from(least: Counts, most: tuple[int, int]) -> tuple[Counted, Counted]:
    """All counts from ``least`` to ``most``, at most ``MOST_EXTRA`` beyond; two flat arrays."""
    ps = np.arange(least.ps, max(least.ps, min(most[0], least.ps + MOST_EXTRA)) + 1)
    workers = np.arange(
        least.workers, max(least.workers, min(most[1], least.workers + MOST_EXTRA)) + 1
    )
    return np.repeat(ps, len(workers)), np.tile(workers, len(ps))


def outlook(
    job: Job, forecast: Forecast, deadline: Deadline, counts: Counts, capacity: Resources
) -> DeadlineOutlook:
    """Return whether the job meets its deadline at ``counts``, and if not, whether others would do
    in a cluster of this capacity, were it empty."""
    assert job.finish_by is not None
    late = float(forecast.late_seconds(counts.ps, counts.workers))
    found = DeadlineOutlook(job.finish_by, deadline.seconds, counts, late)
    if deadline.is_met(forecast, counts):
        return found
    ps, workers = counts_from(job.bounds.minimum, _most(job, capacity))
    needed = deadline.needed_seconds(forecast, ps, workers)
    fitting = np.ones(len(ps), dtype=np.bool_)
    for name in job.demand():
        tasks = job.ps.resources[name] * ps + job.worker.resources[name] * workers
        fixed = sum(role.spec.resources[name] * role.count for role in job.fixed)
        fitting &= tasks + fixed <= capacity[name]
    needed = np.where(fitting, needed, np.inf)
    best = int(np.argmin(needed))
    fastest = Counts(int(ps[best]), int(workers[best]))
    return DeadlineOutlook(
        job.finish_by,
        deadline.seconds,
        counts,
        late,
        fastest,
        float(needed[best]),
        possible=bool(needed[best] <= deadline.seconds),
    )


def _most(job: Job, capacity: Resources) -> tuple[int, int]:
    """The most PSs, and workers, that the bounds and the whole cluster allow of one role."""
    bounds = job.bounds
    limits = []
    for spec, least, most in (
        (job.ps, bounds.min_ps, bounds.max_ps),
        (job.worker, bounds.min_workers, bounds.max_workers),
    ):
        fit = min((capacity[name] // spec.resources[name] for name in spec.resources), default=None)
        limit = least + MOST_EXTRA if fit is None else max(least, fit)
        limits.append(limit if most is None else min(limit, most))
    return limits[0], limits[1]
