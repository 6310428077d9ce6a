"""When a job would be done at other counts, by its own forecast, and whether it would be moved.

Assumes what the decision does: the price of a rescale, the least gain, the placement rule, the room
that is kept for other rescales, and what keeps the job from being moved now.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from optimus.allocation import NO_HISTORY, JobHistory
from optimus.errors import NotReady
from optimus.interval.capacity_plan import Claim, QuotaRefusal, headroom
from optimus.interval.classify import (
    Eligibility,
    JobView,
    classify,
    classify_anew,
    too_little_text,
)
from optimus.interval.decision_settings import DecisionSettings
from optimus.interval.worth import FOR_EVER
from optimus.jobs import NO_COUNTS, Counts, Job
from optimus.models.forecast import Forecast, TimeLeft, time_left
from optimus.progress.types import NOTHING, TrainingProgress
from optimus.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class DecisionBasis:
    """What is known of a job of the cluster: its forecast, made at ``forecast_at``, and what the
    decision about it rests on."""

    forecast: Forecast | NotReady | None
    forecast_at: float
    """What was done since is done at any counts."""

    progress: TrainingProgress = NOTHING
    history: JobHistory = NO_HISTORY


@dataclass(frozen=True, slots=True)
class CountsQuestion:
    """A job, what is known of it, and the counts that are asked about."""

    job: Job | None
    basis: DecisionBasis
    counts: Counts
    at: float
    settings: DecisionSettings
    snapshot: ClusterSnapshot | None = None
    """Without one it is not asked whether capacity is free."""

    claims: Sequence[Claim] = ()
    """Room that is kept for rescales in progress."""


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
    why_not_moved: str = ""
    """Why an interval that is planned now would not move it there by itself, whatever the room;
    empty where nothing is known against it."""

    allowed: bool = True
    """Whether the job's bounds allow it."""

    fits: bool | None = None
    """Whether free capacity and quotas hold it now, the job's own included; ``None``: not known."""

    refusal: str = ""
    """Why not: the quota that lacks, or what the nodes do."""

    by_quota: bool = False
    """Whether it is a quota that refuses it."""

    expected: bool = False
    """Whether its speed where it was not measured is expected, and not fitted."""

    more: Mapping[str, int] = field(default_factory=dict)
    """What it requests more than now, in the units of resources; less is negative."""


def answer(question: CountsQuestion) -> WhatIf:
    """Return when the job would be done."""
    job, forecast, at = question.job, question.basis.forecast, question.at
    counts = question.counts
    if job is None or not isinstance(forecast, Forecast):
        reason = f": {forecast}" if isinstance(forecast, NotReady) else ""
        return WhatIf(at=at, problem=f"there is no forecast{reason}")
    if forecast.goal_met:
        return WhatIf(at=at, problem="its goal is met")
    now, then = time_left(forecast, job.counts), time_left(forecast, counts)
    if now is None or then is None:
        return WhatIf(at=at, problem=f"its speed at {counts if then is None else job.counts} is 0")
    since = max(at - question.basis.forecast_at, 0.0)
    left = 1 - min(since / max(now.median, 1e-9), 1.0)
    price = 0.0
    if counts != job.counts:
        price = question.settings.interval.price_seconds(question.basis.history)
    present = _outlook(job.counts, now, left, 0.0, at)
    other = _outlook(counts, then, left, price, at)
    saves_seconds = present.remaining.median - other.remaining.median
    refusal = _refusal(question, job)
    return WhatIf(
        at=at,
        now=present,
        then=other,
        price_seconds=round(price, 1),
        saves_seconds=round(saves_seconds, 1),
        why_not_moved=job.bounds.why_not(counts)
        or _why_not_moved(question, job, forecast, saves_seconds + price),
        allowed=job.bounds.allow(counts),
        fits=None if refusal is None else not refusal,
        refusal=str(refusal or ""),
        by_quota=isinstance(refusal, QuotaRefusal),
        expected=forecast.is_expected,
        more={name: each for name, each in (job.demand(counts) - job.demand()).items() if each},
    )


def _outlook(counts: Counts, found: TimeLeft, left: float, price: float, at: float) -> Outlook:
    low, median, high = (
        round(each * left + price, 1) for each in (found.low, found.median, found.high)
    )
    return Outlook(counts.ps, counts.workers, TimeLeft(low, median, high), at + median)


def _why_not_moved(
    question: CountsQuestion, job: Job, forecast: Forecast, gain_seconds: float
) -> str:
    """Apply the rules of an interval. A job that becomes slower is only moved to make room
    for another, which is not asked here."""
    settings, known, counts = question.settings, question.basis, question.counts
    snapshot = question.snapshot
    runs = snapshot is None or snapshot.bound_counts(job.uid) != NO_COUNTS
    if counts == job.counts or not runs:
        return ""
    view = JobView(
        known.history.bounded(job),
        running=True,
        forecast=settings.usable(forecast),
        history=known.history,
        progress=known.progress,
        config=settings.interval,
        at=question.at,
    )
    policy = settings.policy
    if not policy.traits.weighs_restarts:
        job_class = classify_anew(view, reads_forecasts=policy.traits.reads_forecasts)
        kept = _why_kept(job_class, counts)
        return (
            kept or f"{policy.name} decides all counts anew in each round, whatever a change saves"
        )
    job_class = classify(view)
    kept = _why_kept(job_class, counts)
    if kept or gain_seconds <= 0:
        return kept
    least = settings.interval.hysteresis_fraction
    gain = job_class.gain(counts, FOR_EVER)
    if gain > least:
        return ""
    return too_little_text(job_class, counts, gain, least)


def _why_kept(job_class: JobView, counts: Counts) -> str:
    """Return why an interval does not let the job go to these counts, whatever that saves."""
    if job_class.eligibility is not Eligibility.RESIZABLE:
        return job_class.reason
    now = job_class.job.counts
    grows = counts.ps > now.ps or counts.workers > now.workers
    if job_class.capped and grows:
        return job_class.reason
    return job_class.why_excluded(counts) or ""


def _refusal(question: CountsQuestion, job: Job) -> str | None:
    """Why the whole job has no place beside all others, by nodes and quotas; empty where it has
    one, ``None`` where it has none to try."""
    snapshot = question.snapshot
    if snapshot is None or not question.counts.workers:
        return None
    free = headroom(snapshot, question.settings.placement, question.claims)
    return free.move(job, question.counts) or ""
