"""When a job would be done at other counts, by its own forecast."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from optimus.errors import NotReady
from optimus.interval.capacity_plan import headroom
from optimus.jobs import Counts, Job
from optimus.models.forecast import Forecast, TimeLeft, time_left
from optimus.placement.theorem1 import Theorem1
from optimus.snapshot import ClusterSnapshot

USUAL_PRICE_SECONDS = 60.0
"""What a rescale is taken to cost until one of the job's was measured, as ``IntervalConfig`` has
it."""


@dataclass(frozen=True, slots=True)
class Question:
    """A job, what is known of it, and the counts that are asked about."""

    job: Job | None
    forecast: Forecast | NotReady | None
    counts: Counts
    at: float
    forecast_at: float
    """When the forecast was made: what was done since is done at any counts."""

    price_seconds: float
    snapshot: ClusterSnapshot | None = None
    """Without one it is not asked whether capacity is free."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """A job at certain counts; durations from the question's instant on, in seconds."""

    ps: int
    workers: int
    remaining: TimeLeft
    ends_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
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
    """Whether free capacity and quotas hold it now, the job's own included; ``None``: not known."""

    refusal: str = ""
    """Why not: the quota that lacks, or what the nodes do."""

    more: Mapping[str, int] = field(default_factory=dict)
    """What it requests more than now, in the units of resources; less is negative."""


def answer(question: Question) -> WhatIf:
    """When the job would be done."""
    job, forecast, at, counts = question.job, question.forecast, question.at, question.counts
    if job is None or not isinstance(forecast, Forecast):
        reason = f": {forecast}" if isinstance(forecast, NotReady) else ""
        return WhatIf(at=at, problem=f"there is no forecast{reason}")
    if forecast.goal_met:
        return WhatIf(at=at, problem="its goal is met")
    now, then = time_left(forecast, job.counts), time_left(forecast, counts)
    if now is None or then is None:
        return WhatIf(at=at, problem=f"its speed at {counts if then is None else job.counts} is 0")
    left = 1 - min(max(at - question.forecast_at, 0.0) / max(now.median, 1e-9), 1.0)
    price = question.price_seconds if counts != job.counts else 0.0
    present, other = (
        _outlook(job.counts, now, left, 0.0, at),
        _outlook(counts, then, left, price, at),
    )
    refusal = _refusal(question.snapshot, job, counts)
    return WhatIf(
        at=at,
        now=present,
        then=other,
        price_seconds=round(price, 1),
        saves_seconds=round(present.remaining.median - other.remaining.median, 1),
        allowed=job.bounds.allow(counts),
        fits=None if refusal is None else not refusal,
        refusal=refusal or "",
        more={name: each for name, each in (job.demand(counts) - job.demand()).items() if each},
    )


def _outlook(counts: Counts, found: TimeLeft, left: float, price: float, at: float) -> Outlook:
    low, median, high = (
        round(each * left + price, 1) for each in (found.low, found.median, found.high)
    )
    return Outlook(counts.ps, counts.workers, TimeLeft(low, median, high), at + median)


def _refusal(snapshot: ClusterSnapshot | None, job: Job, counts: Counts) -> str | None:
    """Why the whole job has no place beside all others, by nodes and quotas; empty where it has
    one, ``None`` where it has none to try."""
    if snapshot is None or not math.prod(counts):
        return None
    return headroom(snapshot, Theorem1(), ()).move(job, counts) or ""
