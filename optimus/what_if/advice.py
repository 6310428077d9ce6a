"""What a job would gain from other counts, by what its log shows: for jobs that nobody manages.

1. Its goal is its own; without one, it ends where its program has declared the end of its run.
2. Its speed at other counts is the speed model's (``models.speed``). Where few counts were seen,
   that rests on the mean of hypotheses, and its error is as large.
   Where nobody says whether the workers step together, counts have to be better either way.
   Of a job without PSs the speed at its own counts alone is known, from its log.
3. Counts are compared by the time that holds with a probability of ``LIKELY``. Named are the counts
   that request least among those within 5 % of the best:
   ``sooner`` of those that request no more of anything than the job does now,
   ``leaner`` of those at which it would end at most 5 % later,
   ``larger`` of those with up to twice as many PSs and workers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from statistics import NormalDist, fmean
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus.errors import NotReady
from optimus.interval.worth import chance_of_saving
from optimus.jobs import Counts, Goal, Job, TargetEpochs, TargetSteps, TrainingMode
from optimus.models import Vector
from optimus.models.convergence import LearningRateSchedule, LossCurve
from optimus.models.forecast import (
    Forecast,
    Speed,
    SpeedNotReady,
    TimeLeft,
    batch_rule,
    expected_speed,
    forecast_job,
    losses_with_epochs,
    schedule_of,
    time_left,
)
from optimus.models.speed.model import SpeedModel
from optimus.progress.types import LossPoint, TrainingProgress
from optimus.resources import CPU, PODS, Resources

LIKELY: Final = 0.65
"""The probability with which other counts have to be better."""
SLACK: Final = 0.05
"""Part of the time left that is no difference: speeds are predicted to several percent."""
LEAST_SECONDS: Final = 20.0
"""Of steady training at the job's counts: below this a sample is mostly noise."""

_NORMAL: Final = NormalDist()
_LIKELY: Final = _NORMAL.inv_cdf(LIKELY)
_NORMAL_90: Final = _NORMAL.inv_cdf(0.9)
_MOST_MORE: Final = 32
"""PSs, or workers, that are added at most: far from what was seen nothing is known."""

_Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _OwnSpeed:
    """The speed of a job without PSs at its own counts; of others nothing is known."""

    value: float

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """The same at all counts: it is asked for its own."""
        return np.full(np.broadcast_shapes(np.shape(ps), np.shape(workers)), self.value)

    @classmethod
    def of(cls, job: Job, progress: TrainingProgress) -> "_OwnSpeed":
        """As it was measured last."""
        here = [each for each in progress.samples if each.counts == job.counts]
        return cls(max(here, key=attrgetter("at")).steps_per_second)


@dataclass(frozen=True, slots=True)
class Alternative:
    """Other counts of a job. Intervals have a probability of 80 %."""

    counts: Counts
    speed_up: TimeLeft
    """Times as fast as now; its ends may be on either side of 1."""
    chance: float
    """The probability that it ends sooner, the restart included; of ``leaner``: at most 5 %
    later."""
    requests: Resources
    """What it requests more than now; less is negative."""
    left: TimeLeft | None = None
    """Seconds until its end, the restart included; ``None`` where no end is known."""
    saves: TimeLeft | None = None
    """Seconds, by the error of the speed alone."""


@dataclass(frozen=True, slots=True)
class Flattening:
    """What training as long again is expected to do to the loss."""

    loss: float
    then: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What is known of one job's training, and of other counts."""

    job: Job
    progress: TrainingProgress
    steps_per_second: float
    measured_seconds: float
    seen_counts: int
    """At how many pairs of counts its speed was measured."""
    goal: Goal | None = None
    goal_is_declared: bool = False
    """Whether the goal is the end that its program has declared."""
    left: TimeLeft | None = None
    """Seconds until its end at its counts, from the last line of its log on."""
    no_end: str = ""
    """Why its end is not known."""
    unlikely: str = ""
    done: float | None = None
    flattening: Flattening | None = None
    """Of a job without an end."""
    sooner: Alternative | None = None
    leaner: Alternative | None = None
    larger: Alternative | None = None

    @property
    def is_compared(self) -> bool:
        """Whether its speed at other counts can be told."""
        return self.job.counts.ps > 0 or self.job.bounds.shares > 0

    @property
    def resource(self) -> str:
        """The resource by which its capacity is measured: its GPUs, else its CPUs."""
        return capacity_of(self.job.demand())

    @property
    def freed(self) -> int:
        """What of this resource helps nothing."""
        return 0 if self.leaner is None else -self.leaner.requests[self.resource]

    @property
    def freed_part(self) -> float:
        """The same as a part of what it requests."""
        return self.freed / max(self.job.demand()[self.resource], 1)


def capacity_of(demand: Resources) -> str:
    """The resource by which a capacity is measured: GPUs where there are any, else CPUs."""
    gpus = [name for name in demand if name.rpartition("/")[2].startswith("gpu")]
    return gpus[0] if gpus else (CPU if demand[CPU] else PODS)


def advise(
    job: Job, progress: TrainingProgress, price_seconds: float, left_seconds: float | None = None
) -> Advice | NotReady:
    """The advice for a job at its counts, or why its log is not enough for one.

    ``price_seconds`` is what a restart at other counts costs it; ``left_seconds`` what it takes yet
    at its counts, where its profile says so."""
    refusal = _why_none(job, progress)
    if refusal is not None:
        return refusal
    speed: Speed | NotReady
    is_compared = job.counts.ps or job.bounds.shares
    speed = expected_speed(job, progress) if is_compared else _OwnSpeed.of(job, progress)
    if isinstance(speed, NotReady):
        return speed
    goal = job.goal or declared_goal(progress)
    found = _forecast(job, progress, goal)
    if isinstance(found, SpeedNotReady):
        found = found.at_speed(speed)
    if isinstance(found, Forecast) and left_seconds is not None:
        found = found.taking(left_seconds, job.counts)
    here = [each.seconds for each in progress.samples if each.counts == job.counts]
    advice = Advice(
        job=job,
        progress=progress,
        steps_per_second=float(speed.steps_per_second(*job.counts)),
        measured_seconds=max(here),
        seen_counts=len({each.counts for each in progress.samples}),
        goal=goal,
        goal_is_declared=job.goal is None and goal is not None,
    )
    if isinstance(found, NotReady):
        advice = replace(advice, no_end=found.reason, flattening=_flattening(progress))
        return _compared(advice, Forecast(speed, 1.0), 0.0)
    if found.goal_met:
        return replace(advice, no_end="its goal is met, and it trains on", done=1.0)
    advice = replace(
        advice,
        left=_left(found, job.counts),
        unlikely=found.unlikely,
        done=found.progress_fraction,
    )
    return _compared(advice, found, price_seconds)


def _by_mode(job: Job, progress: TrainingProgress, forecast: Forecast) -> Sequence[Forecast]:
    """The forecast with the speed of each mode that the job may train in."""
    modes = list(TrainingMode) if job.mode_is_assumed else [job.mode]
    found = []
    for mode in modes:
        other = replace(job, mode=mode)
        speed, (per_worker, workers) = expected_speed(other, progress), batch_rule(other, progress)
        if not isinstance(speed, NotReady):
            other_steps = replace(forecast, speed=speed, batch_per_worker=per_worker)
            found.append(replace(other_steps, reference_workers=workers))
    return found


def _left(forecast: Forecast, counts: Counts) -> TimeLeft | None:
    """The seconds to the end: the error of the work left and that of the speed."""
    found = time_left(forecast, counts)
    if found is None or not isinstance(forecast.speed, SpeedModel):
        return found
    speed = math.exp(_NORMAL_90 * float(forecast.speed.uncertainty(*counts)))
    low = found.median / _times(found.median / max(found.low, 1e-9), speed)
    return TimeLeft(low, found.median, found.median * _times(found.high / found.median, speed))


def _why_none(job: Job, progress: TrainingProgress) -> NotReady | None:
    if progress.diverged:
        return NotReady(progress.diagnostic or "the last losses in its log are not numbers")
    if progress.epoch is None and progress.step is None:
        return NotReady(progress.diagnostic or "its log shows no epoch and no step of a training")
    here = [each.seconds for each in progress.samples if each.counts == job.counts]
    seconds = max(here, default=0.0)
    if seconds < LEAST_SECONDS:
        shown = f"{seconds:.0f} s of steady training at {job.size}"
        return NotReady(f"its log shows {shown}; {LEAST_SECONDS:.0f} s are needed")
    return None


def declared_goal(progress: TrainingProgress) -> Goal | None:
    """The end of the run as its program has declared it, in the unit in which its log counts."""
    declared = progress.declared
    if declared.epochs and progress.epoch is not None:
        return TargetEpochs(float(declared.epochs))
    if declared.steps and progress.step is not None:
        return TargetSteps(declared.steps)
    return None


def _forecast(job: Job, progress: TrainingProgress, goal: Goal | None) -> Forecast | NotReady:
    if goal is None:
        return NotReady(
            "its log declares no end, and it has no goal; optimus.dl/target-loss or "
            "optimus.dl/target-epochs would say when it is done"
        )
    if isinstance(goal, TargetEpochs | TargetSteps):
        return forecast_job(job, progress, goal, _no_curve)
    return forecast_job(job, progress, goal)


def _no_curve(_: Sequence[LossPoint], __: LearningRateSchedule | None) -> NotReady:
    """An end that is an amount of training needs none, and the fit takes most of the time."""
    return NotReady("it is not asked for")


def _flattening(progress: TrainingProgress) -> Flattening | None:
    losses = losses_with_epochs(progress)
    curve = LossCurve.fit(losses, schedule_of(progress.declared, losses))
    if isinstance(curve, NotReady):
        return None
    seen = np.array([curve.seen, 2 * curve.seen])
    now, then = curve.predict(seen).tolist()
    low, high = (each.tolist()[1] for each in curve.band(seen))
    return Flattening(now, then, low, high)


class _Model(NamedTuple):
    """The time at other counts by one speed model: arrays of one length."""

    forecast: Forecast
    ratio: Vector
    """Time at these counts / time now."""
    spread: Vector
    """Standard deviation of its logarithm."""

    @classmethod
    def of(cls, job: Job, forecast: Forecast, ps: Vector, workers: Vector) -> "_Model":
        ratio = forecast.remaining_seconds(ps, workers) / forecast.at(job.counts)
        spread = np.zeros(len(ps))
        if isinstance(forecast.speed, SpeedModel):
            spread = forecast.speed.ratio_uncertainty(job.counts, ps, workers)
        return cls(forecast, ratio, spread)

    @property
    def surely(self) -> Vector:
        """The ratio that is not exceeded with a probability of ``LIKELY``."""
        return np.asarray(self.ratio * np.exp(_LIKELY * self.spread))

    def chance_of(self, index: int, most: float) -> float:
        """The probability that the ratio is at most this."""
        spread = max(float(self.spread[index]), 1e-6)
        return _NORMAL.cdf((math.log(most) - math.log(float(self.ratio[index]))) / spread)


@dataclass(frozen=True, slots=True)
class _Options:
    """Counts beside those of the job: arrays of one length."""

    job: Job
    ps: Vector
    workers: Vector
    models: Sequence[_Model]
    """Of each mode that the job may train in."""
    amount: Vector
    """What they request of the resource that counts."""
    is_within: _Mask
    """Whether they request no more of anything than the job does now."""
    surely: Vector

    @classmethod
    def of(cls, job: Job, forecasts: Sequence[Forecast]) -> "_Options":
        """All within the job's bounds, up to twice as many as now."""
        most = Counts(*(min(2 * each, each + _MOST_MORE) for each in job.counts))
        allowed = [each for each in job.bounds.up_to(most) if each != job.counts]
        ps, workers = np.array(allowed, dtype=np.float64).reshape(-1, 2).T
        models = [_Model.of(job, forecast, ps, workers) for forecast in forecasts]
        now, is_within = job.demand(), np.ones(len(allowed), dtype=bool)
        fixed = now - job.ps.resources * job.counts.ps - job.worker.resources * job.counts.workers
        main, amount = capacity_of(now), np.zeros(len(allowed))
        for name in [each for each in now if each != PODS] or [PODS]:
            each = fixed[name] + job.ps.resources[name] * ps + job.worker.resources[name] * workers
            is_within &= each <= now[name]
            amount = each if name == main else amount
        surely = np.max([each.surely for each in models], axis=0)
        return cls(job, ps, workers, models, amount, is_within, surely)

    def least(self, mask: _Mask) -> int | None:
        """Of these counts within 5 % of the best, those that request least."""
        if not mask.any():
            return None
        near = mask & (self.surely <= self.surely[mask].min() * (1 + SLACK))
        return self.smallest(near)

    def smallest(self, mask: _Mask) -> int:
        """Of these counts, at least one, those that request least."""
        return int(min(np.flatnonzero(mask), key=lambda n: (self.amount[n], self.surely[n])))

    def alternative(self, index: int, left: TimeLeft | None, price: float) -> Alternative:
        """One of them in full; ``left``: the seconds until its end at the job's counts."""
        counts, now = Counts(int(self.ps[index]), int(self.workers[index])), self.job.counts
        each = [(float(model.ratio[index]), float(model.spread[index])) for model in self.models]
        early = min(ratio * math.exp(-_NORMAL_90 * spread) for ratio, spread in each)
        late = max(ratio * math.exp(_NORMAL_90 * spread) for ratio, spread in each)
        median = math.exp(fmean(math.log(ratio) for ratio, _ in each))
        found = Alternative(
            counts,
            TimeLeft(1 / late, 1 / median, 1 / early),
            min(chance_of_saving(model.forecast, now, counts, price) for model in self.models),
            self.job.demand(counts) - self.job.demand(),
        )
        if left is None:
            return found
        below = _times(left.median / max(left.low, 1e-9), median / early)
        above = _times(left.high / max(left.median, 1e-9), late / median)
        end = median * left.median
        return replace(
            found,
            left=TimeLeft(end / below + price, end + price, end * above + price),
            saves=TimeLeft(*(left.median * (1 - part) - price for part in (late, median, early))),
        )


def _times(one: float, other: float) -> float:
    """The factor of two independent errors, each a factor of 1 or more."""
    return math.exp(math.hypot(math.log(max(one, 1.0)), math.log(max(other, 1.0))))


def _compared(advice: Advice, forecast: Forecast, price: float) -> Advice:
    """With the counts that are better; the forecast may have no more than the speed."""
    job = advice.job
    if not advice.is_compared:
        return advice
    options = _Options.of(job, _by_mode(job, advice.progress, forecast))
    if not options.ps.size:
        return advice

    def faster(index: int | None, than: float) -> Alternative | None:
        if index is None or options.surely[index] > than * (1 - SLACK):
            return None
        found = options.alternative(index, advice.left, price)
        return found if found.chance >= LIKELY else None

    sooner_at = options.least(options.is_within)
    sooner = faster(sooner_at, 1.0)
    best = 1.0 if sooner is None or sooner_at is None else float(options.surely[sooner_at])
    larger = faster(options.least(~options.is_within), best)
    if sooner and larger and larger.speed_up.median < sooner.speed_up.median * (1 + SLACK):
        larger = None
    return replace(advice, sooner=sooner, larger=larger, leaner=_leaner(advice, options))


def _leaner(advice: Advice, options: _Options) -> Alternative | None:
    """The counts that request least of those at which it ends at most 5 % later."""
    now = advice.job.demand()[advice.resource]
    is_enough = options.is_within & (options.amount < now) & (options.surely <= 1 + SLACK)
    if not is_enough.any():
        return None
    index = options.smallest(is_enough)
    chance = min(model.chance_of(index, 1 + SLACK) for model in options.models)
    return replace(options.alternative(index, advice.left, 0.0), chance=chance)
