"""Own counts first: whether jobs go below the counts that their users set, since others wait.

While no job waits, nobody is moved below its own counts. A job that would wait long instead starts
with what others have of theirs: all are then between their minimum and their own counts. A short
wait is cheaper than the restarts that would end it, at least two of some jobs each.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from optimus.errors import NotReady
from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.classify import JobView
from optimus.jobs import Job
from optimus.resources import total

_LONG_WAIT_PRICES: Final = 10.0
"""A wait is long from so many restarts on. Default: of 3, 7, 10, 20 and 40 the best in workloads
where jobs wait long, and no harm where they wait shortly (``benchmarks.heavy_tails``)."""


_SHORTER: Final = 0.25
"""The part of the jobs that take less. Default: where all take as long, letting one that waits go
first makes everybody late; where some are much longer, most that wait are short."""


def own_counts_first(
    views: Sequence[JobView], plan: CapacityPlan, price_seconds: float
) -> Sequence[JobView]:
    """The jobs, contended where another of a higher priority waits, and all where the first that
    waits would wait long for those that run to end: longer than ten restarts take, and than the
    shorter of those that run."""
    waiting = [view.job for view in views if _waits(view, plan)]
    if not waiting:
        return views
    seconds = _wait_seconds(waiting, views, plan)
    is_long = seconds > max(_LONG_WAIT_PRICES * price_seconds, _usual_seconds(views, plan))
    highest = max(job.priority for job in waiting)
    return [replace(view, contended=is_long or view.job.priority < highest) for view in views]


def _usual_seconds(views: Sequence[JobView], plan: CapacityPlan) -> float:
    """How long a shorter job of those that run takes; 0 where nothing is known of any."""
    known = [
        view.history.running_seconds + _seconds_left(view)
        for view in views
        if plan.is_placed(view.job.uid) and math.isfinite(_seconds_left(view))
    ]
    return float(np.quantile(known, _SHORTER)) if known else 0.0


def _wait_seconds(waiting: Sequence[Job], views: Sequence[JobView], plan: CapacityPlan) -> float:
    """How long the first job that waits would wait, by the forecasts of those that run; 0 where
    all the nodes could hold none of them."""
    running = [view for view in views if plan.is_placed(view.job.uid)]
    free = total(
        plan.capacity.resources_of(vector) * count
        for vector, count in plan.capacity.count_free().items()
    )
    most = free + total(plan.usage(view.job.uid) for view in running)
    possible = [job for job in waiting if job.demand().fits_in(most)]
    if not possible:
        return 0.0
    first = min(possible, key=lambda job: (-job.priority, job.created_at, job.uid)).demand()
    for view in sorted(running, key=_seconds_left):
        free = free + plan.usage(view.job.uid)
        if first.fits_in(free):
            return _seconds_left(view)
    return math.inf


def _seconds_left(view: JobView) -> float:
    forecast = view.forecast
    return math.inf if isinstance(forecast, NotReady) else forecast.at(view.job.counts)


def _waits(view: JobView, plan: CapacityPlan) -> bool:
    """Whether a job wants nodes, and has none and no place on those that are free."""
    job, history = view.job, view.history
    is_absent = job.suspended or plan.is_placed(job.uid) or history.rescaling_to is not None
    return not (is_absent or history.unplaceable or plan.fits(job, job.counts))
