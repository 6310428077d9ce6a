"""When a job would be done at other counts, by its own forecast."""

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from autoscaler.web.copies import ClusterCopy, JobCopy
from autoscaler.web.rows import Interval, interval_at
from optimus.interval.capacity_plan import headroom, reserve
from optimus.jobs import Counts, Job
from optimus.models.forecast import Forecast
from optimus.placement.theorem1 import Theorem1

MOST_REPLICAS: Final = 10_000
_ONE_AT_A_TIME: Final = threading.Lock()
"""A placement on thousands of nodes takes a good part of a second of a core."""


class Outlook(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A job at certain counts; durations from the copy's instant on, in seconds."""

    ps: int
    workers: int
    remaining: Interval
    ends_at: float


class WhatIf(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What other counts would mean. ``problem`` says why that is not known."""

    at: float
    problem: str = ""
    now: Outlook | None = None
    then: Outlook | None = None
    """With the rescale that leads there."""

    price_seconds: float = 0.0
    saves_seconds: float = 0.0
    allowed: bool = True
    """Whether the job's bounds allow it."""

    fits: bool | None = None
    """Whether free capacity holds it now, the job's own included."""

    more: Mapping[str, int] = {}
    """What it requests more than now, in the units of resources; less is negative."""


@dataclass(frozen=True, slots=True)
class Question:
    """Which job, by what is known of it, and at which counts."""

    copy: ClusterCopy
    found: JobCopy
    forecast: object
    counts: Counts
    price_seconds: float


def answer(question: Question) -> WhatIf:
    """When the job would be done."""
    found, forecast, at = question.found, question.forecast, question.copy.at
    job = found.job
    if job is None or not isinstance(forecast, Forecast):
        why = f"there is no forecast: {forecast}" if forecast else "there is no forecast"
        return WhatIf(at=at, problem=why)
    if forecast.goal_met:
        return WhatIf(at=at, problem="its goal is met")
    counts = question.counts
    now, then = interval_at(forecast, job.counts), interval_at(forecast, counts)
    if now is None or then is None:
        return WhatIf(at=at, problem=f"its speed at {counts if then is None else job.counts} is 0")
    # The forecast is the last interval's: what was done since is done at any counts.
    decided_at = found.decided_at or at
    left = 1 - min(max(at - decided_at, 0.0) / max(now.median, 1e-9), 1.0)
    price = question.price_seconds if counts != job.counts else 0.0
    present, other = (
        _outlook(job.counts, now, left, 0.0, at),
        _outlook(counts, then, left, price, at),
    )
    return WhatIf(
        at=at,
        now=present,
        then=other,
        price_seconds=round(price, 1),
        saves_seconds=round(present.remaining.median - other.remaining.median, 1),
        allowed=job.bounds.allow(counts),
        fits=_fits(question.copy, job, counts),
        more={name: each for name, each in (job.demand(counts) - job.demand()).items() if each},
    )


def _outlook(counts: Counts, found: Interval, left: float, price: float, at: float) -> Outlook:
    low, median, high = (
        round(each * left + price, 1) for each in (found.low, found.median, found.high)
    )
    return Outlook(
        ps=counts.ps,
        workers=counts.workers,
        remaining=Interval(low, median, high),
        ends_at=at + median,
    )


def _fits(copy: ClusterCopy, job: Job, counts: Counts) -> bool | None:
    """Whether the whole job has a place beside all others; ``None`` where it has none to try."""
    if not math.prod(counts):
        return None
    with _ONE_AT_A_TIME:
        free = headroom(copy.observation.snapshot, Theorem1(), ())
        return reserve(free, job, counts) is not None
