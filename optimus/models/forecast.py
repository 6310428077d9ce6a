"""A job's forecast: remaining time until its goal as a function of its counts.

Optimus, section 3: ``t(p, w) = Q / f(p, w)``. Q is the work left until the fitted loss curve meets
the goal, f the speed model. Work is counted in the job's steps; where the batch belongs to each
worker, a step of more workers covers more examples, so Q shrinks as workers grow. Plans use the
median of Q; users also see its 80 % interval."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist, median
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus.errors import NotReady
from optimus.jobs import (
    AmountGoal,
    ConvergenceThreshold,
    Counts,
    Goal,
    Job,
    LossGoal,
    TargetEpochs,
    TargetMetric,
    TrainingMode,
    counted,
)
from optimus.models import Vector
from optimus.models.convergence import (
    MEDIAN_OF,
    LearningRateSchedule,
    LossCurve,
    LossSeries,
    PublishedCurve,
    TimeToGoal,
    meets,
)
from optimus.models.goals import has_converged
from optimus.models.metric_goal import as_losses, series_of
from optimus.models.prior import earlier_total, met_at, usual_total, with_earlier
from optimus.models.speed.curve import MergedSamples, SpeedTerms
from optimus.models.speed.model import SpeedModel, needed_counts, why_not_ready
from optimus.progress.state import epoch_index
from optimus.progress.types import Declared, LossPoint, TrainingProgress

Curve = LossCurve | PublishedCurve


_NORMAL_90 = 1.2816
"""The 90th percentile of the standard normal distribution."""


class Speed(Protocol):
    """Predicts the whole job's training steps per second."""

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """Speed at each pair of counts, the arrays broadcast against each other."""


@dataclass(frozen=True, slots=True)
class NoWorkLeft:
    """The speed of a job that has met its goal: its value does not matter."""

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """One, at each pair of counts (arrays broadcast)."""
        return np.ones(np.broadcast_shapes(np.shape(ps), np.shape(workers)))


@dataclass(frozen=True, slots=True)
class Forecast:
    """Remaining seconds of one job until its goal, or until its run ends without it, at any
    counts."""

    speed: Speed
    remaining_steps: float
    """The job's steps left at ``reference_workers`` workers."""
    batch_per_worker: bool = False
    """Whether a step at w workers covers w / reference_workers times as many examples (sync only:
    an async step is one worker's, whatever their number)."""
    reference_workers: int = 1
    goal_met: bool = False
    progress_fraction: float = 0.0
    """Work done as a part of all work until the goal; 1 once the goal is met."""
    curve: Curve | None = None
    """``None`` where the goal was met before a curve could be fitted."""
    remaining_epochs: float | None = None
    """Median, with the 80 % interval ``low_epochs`` to ``high_epochs``; ``None`` without epochs."""
    low_epochs: float | None = None
    high_epochs: float | None = None
    late_factor: float = 1.0
    """The upper end of the 80 % interval of the work left, as a multiple of its median."""
    time_to_goal: TimeToGoal | None = None
    """In epochs (steps) from the start of training; ``None`` once the goal is met."""
    earlier_runs: int = 0
    """How many earlier runs of its workload went into it."""
    is_expected: bool = False
    """Whether it is the expectation of a young job (``models.expectation``) and not a fit: its
    counts are decided by it, and no user is shown a time."""
    _seconds: dict[Counts, float] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def remaining_seconds(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """Remaining seconds at each pair of counts (arrays broadcast); inf where the speed is 0."""
        steps = np.asarray(self.remaining_steps, dtype=np.float64)
        if self.batch_per_worker:
            steps = steps * self.reference_workers / np.asarray(workers, dtype=np.float64)
        speed = self.speed.steps_per_second(ps, workers)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(steps > 0, steps / speed, 0.0)

    def late_seconds(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """The seconds within which the goal is met with a probability of 90 %, at each pair of
        counts (arrays broadcast): both the work left and the speed may be worse than expected.
        Infinite where the run ends without it with a probability of more than 10 %.

        Their logarithms are taken as normal and independent."""
        if self.time_to_goal is not None and self.time_to_goal.is_late:
            return np.full(np.broadcast_shapes(np.shape(ps), np.shape(workers)), np.inf)
        return np.asarray(self.remaining_seconds(ps, workers) * np.exp(self._spread(ps, workers)))

    def _spread(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """The logarithm of the time left, from its median to where 90 % of it ends."""
        work = math.log(max(self.late_factor, 1.0))
        speed: ArrayLike = 0.0
        if isinstance(self.speed, SpeedModel):
            speed = _NORMAL_90 * self.speed.uncertainty(ps, workers)
        return np.hypot(work, speed)

    def probability_within(self, seconds: float, counts: Counts) -> float:
        """How likely the goal is met within these seconds at counts, by the same distribution."""
        if self.goal_met:
            return 1.0
        median, spread = self.at(counts), float(self._spread(counts.ps, counts.workers))
        in_run = 1.0 if self.time_to_goal is None else self.time_to_goal.in_run
        if seconds <= 0 or not math.isfinite(median):
            return 0.0
        if median <= 0 or spread <= 0:
            return in_run if median <= seconds else 0.0
        deviations = math.log(seconds / median) * _NORMAL_90 / spread
        return min(0.5 * math.erfc(-deviations / math.sqrt(2)), in_run)

    def work_factors(self, probabilities: Vector) -> Vector:
        """Quantiles of the work left as multiples of its median, both ``(probabilities,)``."""
        found, part = self.time_to_goal, self.progress_fraction
        if found is None:
            spread = math.log(max(self.late_factor, 1.0)) / _NORMAL_90
            return np.exp(spread * np.array([NormalDist().inv_cdf(p) for p in probabilities]))
        left = self.remaining_steps if self.remaining_epochs is None else self.remaining_epochs
        done = left * part / (1 - part) if part < 1 else 0.0
        ends = np.array([found.quantile(each) for each in probabilities.tolist()])
        return np.asarray(np.maximum(ends - done, 0.01 * left) / left)

    @property
    def unlikely(self) -> str:
        """``goal unlikely: 3 %`` where the run rather ends without having met it; else empty."""
        found = self.time_to_goal
        return "" if found is None or not found.is_unlikely else unlikely_text(found)

    def at(self, counts: Counts) -> float:
        """Remaining seconds at these counts; cached, as a plan asks for the same few repeatedly."""
        if counts not in self._seconds:
            self._seconds[counts] = float(self.remaining_seconds(counts.ps, counts.workers))
        return self._seconds[counts]

    def taking(self, seconds: float, counts: Counts) -> "Forecast":
        """The same with so many seconds left at these counts: at others in proportion."""
        if self.goal_met or not isinstance(self.speed, SpeedModel) or seconds <= 0:
            return self
        speed = self.speed.at(counts) * self.at(counts) / seconds
        return replace(self, speed=self.speed.anchored(counts, speed))

    def prefetch(self, *counts: Counts) -> None:
        """Answer ``at`` for several counts in one evaluation: most of its cost is per call."""
        missing = [each for each in counts if each not in self._seconds]
        if missing:
            ps, workers = zip(*missing, strict=True)
            values = self.remaining_seconds(np.array(ps), np.array(workers)).tolist()
            self._seconds.update(zip(missing, values, strict=True))


def unlikely_text(found: TimeToGoal) -> str:
    """That a goal is unlikely, and how likely it is."""
    return f"goal unlikely: {100 * found.in_run:.0f} %"


def when_text(found: TimeToGoal, unit: str) -> str:
    """When a goal is met that is not unlikely, and whether it may never be."""
    never = f"; it may never be met: it is with {found.in_run:.0%}" if found.is_late else ""
    low, high = f"{found.low:.4g}", f"{found.high:.4g}"
    if found.is_wide:
        return (
            f"after {low} {unit} or later with 90 %, and half of such runs need {found.point:.4g}; "
            f"too few losses are known, and no end is declared{never}"
        )
    between = f", with 80 % between {low} and {high}" if low != high else ""
    return f"after {counted(float(f'{found.point:.4g}'), unit)}{between}{never}"


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """Seconds until the goal is met: the median, and 80 % around it, by the work left."""

    low: float
    median: float
    high: float


def time_left(forecast: Forecast, counts: Counts) -> TimeLeft | None:
    """The seconds to the goal at counts: the median, and 80 % of the work left."""
    if forecast.goal_met:
        return TimeLeft(0, 0, 0)
    median = forecast.at(counts)
    if not math.isfinite(median):
        return None
    early, late = max(_early_factor(forecast), 1.0), max(forecast.late_factor, 1.0)
    return TimeLeft(*(round(each, 1) for each in (median / early, median, median * late)))


def _early_factor(forecast: Forecast) -> float:
    """The median of the work left as a multiple of the lower end of its 80 % interval."""
    if forecast.remaining_epochs and forecast.low_epochs:
        return max(forecast.remaining_epochs / forecast.low_epochs, 1.0)
    found, left = forecast.time_to_goal, forecast.remaining_steps
    if found is None or left <= 0:
        return 1.0
    return left / max(left - (found.point - found.low), min(left, 1.0))


ForecastFn = Callable[[Job, TrainingProgress], Forecast | NotReady]
"""Makes one job's forecast, or gives the reason why there is none."""

ExpectFn = Callable[[Job, TrainingProgress, NotReady], Forecast | NotReady]
"""Makes the expectation of a job that has no forecast for this reason."""


@dataclass(frozen=True, slots=True)
class SpeedNotReady(NotReady):
    """The work that is left is known, but not the speed; ``at_speed`` is the forecast with one."""

    at_speed: Callable[[Speed], Forecast | NotReady] = field(repr=False, compare=False)


CurveFit = Callable[[Sequence[LossPoint], LearningRateSchedule | None], Curve | NotReady]
"""Fits a convergence curve: ``LossCurve.fit``, or ``PublishedCurve.fit``, which needs no
schedule."""


def schedule_of(declared: Declared, losses: Sequence[LossPoint]) -> LearningRateSchedule | None:
    """The declared schedule in the unit in which the losses are known, if it has an end there."""
    if declared.epochs is None and declared.steps is None:
        return None
    in_epochs = all(point.epoch is not None for point in losses)
    schedule = LearningRateSchedule.of(declared, in_epochs=in_epochs)
    known = [each for each in losses if each.learning_rate is not None]
    if schedule is None or not known:
        return schedule
    k = [(each.epoch if in_epochs else each.step) or 0.0 for each in known]
    rates = [each.learning_rate or 0.0 for each in known]
    return schedule.seen_in(np.array(k, dtype=np.float64), np.array(rates))


def forecast_job(
    job: Job, progress: TrainingProgress, goal: Goal | None = None, fit: CurveFit = LossCurve.fit
) -> Forecast | NotReady:
    """The job's forecast towards its goal (or the one given), or why no model can be fitted."""
    goal = goal or job.goal
    if goal is None:
        return NotReady("the job has no goal: the annotation optimus.dl/target-loss sets one")
    if isinstance(goal, TargetMetric):
        return _until_metric(job, progress, goal, fit)
    losses = losses_with_epochs(progress)
    curve = fit(losses, schedule_of(progress.declared, losses))
    if isinstance(goal, AmountGoal):
        return _until_amount(job, progress, goal, curve)
    return _until_loss(job, progress, goal, curve)


def _until_loss(
    job: Job,
    progress: TrainingProgress,
    goal: LossGoal,
    curve: Curve | NotReady,
) -> Forecast | NotReady:
    losses = losses_with_epochs(progress)
    if _losses_meet(goal, progress, losses):
        return _met(curve, in_epochs=all(point.epoch is not None for point in losses))
    if progress.diverged:
        # The last known losses would leave it nearly done for ever.
        return NotReady(progress.diagnostic or "the last losses in the log are not numbers")
    if isinstance(curve, NotReady) and progress.diagnostic:
        # What is wrong with the log explains more than a lack of points.
        return NotReady(progress.diagnostic)
    total = _total(progress, goal, curve)
    if isinstance(total, NotReady):
        return total
    return _until(job, progress, curve, total)


def _met(curve: Curve | NotReady, *, in_epochs: bool) -> Forecast:
    return Forecast(
        NoWorkLeft(),
        0.0,
        goal_met=True,
        progress_fraction=1.0,
        curve=None if isinstance(curve, NotReady) else curve,
        remaining_epochs=0.0 if in_epochs else None,
    )


def _until_metric(
    job: Job,
    progress: TrainingProgress,
    goal: TargetMetric,
    fit: CurveFit,
) -> Forecast | NotReady:
    """The forecast towards a value of a metric: that of its error as the loss."""
    found = as_losses(goal, progress.metrics)
    if isinstance(found, NotReady):
        return NotReady(progress.diagnostic or found.reason)
    if progress.diverged:
        return NotReady(progress.diagnostic or "the last losses in the log are not numbers")
    # Earlier runs of the workload have losses alone.
    seen = replace(progress, losses=found.losses, earlier=())
    losses = losses_with_epochs(seen)
    schedule = schedule_of(progress.declared, losses)
    why = f"{found.series.name} rises without a bound: when it reaches its goal cannot be predicted"
    curve = fit(losses, schedule) if found.bounded else NotReady(why)
    if found.is_met:
        return _met(curve, in_epochs=all(point.epoch is not None for point in losses))
    total = _total(seen, found.goal, curve)
    if isinstance(total, NotReady):
        return total if isinstance(curve, NotReady) else found.explained(total)
    return _until(job, progress, curve, total)


def _until_amount(
    job: Job,
    progress: TrainingProgress,
    goal: AmountGoal,
    curve: Curve | NotReady,
) -> Forecast | NotReady:
    """The forecast of a job that is done after an amount of training: only its speed is fitted."""
    in_epochs = isinstance(goal, TargetEpochs)
    if goal_is_met(goal, progress):
        return _met(curve, in_epochs=in_epochs)
    if (progress.epoch if in_epochs else progress.step) is None:
        unit = "epoch" if in_epochs else "step"
        return NotReady(progress.diagnostic or f"its log has shown no {unit} yet")
    total = TimeToGoal.at(amount(goal)), in_epochs
    return _until(job, progress, curve, total)


def amount(goal: AmountGoal) -> float:
    """The epochs, or steps, after which the job is done."""
    return goal.epochs if isinstance(goal, TargetEpochs) else float(goal.steps)


def goal_is_met(goal: Goal, progress: TrainingProgress) -> bool:
    """Return whether the losses so far meet the goal (``models.goals.meets``), or the epochs or
    steps."""
    if isinstance(goal, AmountGoal):
        done = progress.epoch if isinstance(goal, TargetEpochs) else progress.step
        # An epoch that is step / steps per epoch may miss a whole number by rounding.
        return done is not None and done >= amount(goal) - 1e-6
    if isinstance(goal, TargetMetric):
        found = as_losses(goal, progress.metrics)
        return not isinstance(found, NotReady) and found.is_met
    return _losses_meet(goal, progress, losses_with_epochs(progress))


def _losses_meet(goal: LossGoal, progress: TrainingProgress, losses: Sequence[LossPoint]) -> bool:
    if isinstance(goal, ConvergenceThreshold):
        return has_converged(goal, losses, progress.declared)
    return meets(goal, losses)


def why_never_ready(goal: Goal | None, progress: TrainingProgress) -> str | None:
    """Return why a job will have no forecast, as far as its log shows after two epochs: it prints
    nothing that the goal is about. ``None`` where it may have one."""
    if progress.epoch is None or progress.epoch < 2:
        return None
    if isinstance(goal, LossGoal) and not progress.losses:
        return progress.diagnostic or "its log has shown no training loss in two epochs"
    if isinstance(goal, TargetMetric):
        found = series_of(goal, progress.metrics)
        return found.reason if isinstance(found, NotReady) else None
    return None


def current_value(goal: Goal | None, progress: TrainingProgress) -> tuple[str, float] | None:
    """Name and newest value of the metric that a goal is about, as the log prints them."""
    found = as_losses(goal, progress.metrics) if isinstance(goal, TargetMetric) else None
    if found is None or isinstance(found, NotReady):
        return None
    return found.series.name, found.series.points[-1].loss


def current_loss(progress: TrainingProgress) -> float | None:
    """The loss that a target is compared with now; ``None`` before the first point.

    The mean of the last complete epoch (in the first epoch, of the running one); without epochs the
    median of the last 20 points."""
    newest: list[LossPoint] = []
    epochs = set()
    # The points of the last two epochs are enough: the last complete one is among them.
    for point in reversed(progress.losses):
        newest.append(_with_epoch(point, progress.steps_per_epoch))
        epochs.add(epoch_index(newest[-1]))
        if len(epochs) > 2 or (newest[-1].epoch is None and len(newest) > MEDIAN_OF):
            newest.pop()
            break
    if not newest:
        return None
    series = LossSeries.of(newest[::-1])
    if not series.in_epochs:
        return float(median(point.loss for point in newest[:MEDIAN_OF]))
    return float(series.complete_loss[-1] if len(series.complete_loss) else series.loss[-1])


def losses_with_epochs(progress: TrainingProgress) -> tuple[LossPoint, ...]:
    """The losses; points from before the epoch length was known get their epoch from their step."""
    losses, steps_per_epoch = progress.losses, progress.steps_per_epoch
    if not steps_per_epoch or all(point.epoch is not None for point in losses):
        return losses
    return tuple(_with_epoch(point, steps_per_epoch) for point in losses)


def _with_epoch(point: LossPoint, steps_per_epoch: float | None) -> LossPoint:
    if not steps_per_epoch or point.epoch is not None or point.step is None:
        return point
    return replace(point, epoch=point.step / steps_per_epoch)


def _until(
    job: Job,
    progress: TrainingProgress,
    curve: Curve | NotReady,
    total: tuple[TimeToGoal, bool],
) -> Forecast | NotReady:
    time_to_goal, in_epochs = total
    steps_per_unit = _steps_per_epoch(job, progress) if in_epochs else 1.0
    if steps_per_unit is None:
        return NotReady(
            "the number of steps per epoch is not known yet: set the annotation "
            "optimus.dl/steps-per-epoch"
        )
    known = progress.epoch if in_epochs else progress.step
    seen = 0.0 if isinstance(curve, NotReady) else curve.seen
    done = seen if known is None else max(float(known), 0.0)
    # Where the curve has passed the goal but the losses have not, the running epoch may meet it.
    # (So many epochs that one more makes no difference are what a log or annotation makes up.)
    least = (math.floor(done) + 1 - done or 1.0) if in_epochs else 1.0
    left, low, high = (
        max(end - done, least) for end in (time_to_goal.point, time_to_goal.low, time_to_goal.high)
    )
    per_worker, workers = batch_rule(job, progress)

    def at_speed(speed: Speed) -> Forecast:
        forecast = Forecast(
            speed,
            left * steps_per_unit,
            per_worker,
            workers,
            progress_fraction=done / (done + left),
            curve=None if isinstance(curve, NotReady) else curve,
            late_factor=high / left,
            time_to_goal=time_to_goal,
            earlier_runs=len(progress.earlier),
        )
        if not in_epochs:
            return forecast
        return replace(forecast, remaining_epochs=left, low_epochs=low, high_epochs=high)

    speed = fitted_speed(job, progress)
    return SpeedNotReady(speed.reason, at_speed) if isinstance(speed, NotReady) else at_speed(speed)


def _total(
    progress: TrainingProgress, goal: LossGoal, curve: Curve | NotReady
) -> tuple[TimeToGoal, bool] | NotReady:
    """When the goal is met, and whether that counts epochs: by the job's own losses and by earlier
    runs of its workload."""
    in_epochs = _counts_epochs(curve, progress, goal)
    prior = earlier_total(progress, goal, in_epochs=in_epochs)
    known = prior or usual_total(progress, in_epochs=in_epochs)
    own = curve if isinstance(curve, NotReady) else curve.until(goal, known)
    if prior is None or not isinstance(own, NotReady):
        return own if isinstance(own, NotReady) else (own, in_epochs)
    declared = progress.declared.epochs if in_epochs else progress.declared.steps
    done = (progress.epoch if in_epochs else progress.step) or 0.0
    expected = prior.after(done)
    # A run that has passed its declared end has another one, which is not known.
    if declared and declared > done:
        expected = expected.within(float(declared))
    return expected, in_epochs


def _counts_epochs(curve: Curve | NotReady, progress: TrainingProgress, goal: LossGoal) -> bool:
    """Whether the job's training is counted in epochs: by its curve, its losses, earlier runs."""
    if not isinstance(curve, NotReady):
        return curve.in_epochs
    if progress.losses:
        return all(point.epoch is not None for point in losses_with_epochs(progress))
    known = [run.in_epochs for run in progress.earlier if met_at(run, goal) is not None]
    return known[-1] if known else True


def _steps_per_epoch(job: Job, progress: TrainingProgress) -> float | None:
    """As known of the job, else of the newest earlier run that shows it, at the job's workers."""
    own = progress.steps_per_epoch or progress.units_per_epoch or job.steps_per_epoch
    if own is not None:
        return own
    known = [run.steps_per_epoch for run in progress.earlier if run.steps_per_epoch]
    if not known:
        return None
    per_worker, workers = batch_rule(job, progress, of_epoch=True)
    return known[-1] / workers if per_worker else known[-1]


def known_samples(job: Job, progress: TrainingProgress) -> MergedSamples:
    """Its own samples, and those of earlier runs of its workload."""
    measured = MergedSamples.of(progress.samples)
    if not progress.earlier:
        return measured
    return with_earlier(measured, progress.earlier, SpeedTerms.of(job))


def fitted_speed(job: Job, progress: TrainingProgress) -> Speed | NotReady:
    """The speed model of a job that was measured at enough counts."""
    measured = known_samples(job, progress)
    refusal = why_not_ready(measured, needed_counts(job.bounds))
    return _speed_here(job, progress, measured) if refusal is None else refusal


def expected_speed(job: Job, progress: TrainingProgress) -> Speed | NotReady:
    """The speed model of a job that was measured at all, on the nodes where it runs."""
    measured = known_samples(job, progress)
    if not measured.counts:
        return NotReady("its speed has not been measured yet")
    return _speed_here(job, progress, measured)


def _speed_here(job: Job, progress: TrainingProgress, measured: MergedSamples) -> SpeedModel:
    """The model of these samples, at its speed now on the nodes where the job runs."""
    model, kind = SpeedModel.of(measured, SpeedTerms.of(job)), progress.node_kind
    model, latest = model.where_it_ran(kind), measured.latest_at(job.counts, kind)
    if latest is not None:
        model = model.on(latest.node_kind).anchored(job.counts, latest.steps_per_second)
    return model if kind is None else model.on(kind)


def batch_rule(job: Job, progress: TrainingProgress, *, of_epoch: bool = False) -> tuple[bool, int]:
    """Whether the steps that are left (``of_epoch``: those of an epoch) shrink as workers grow, and
    the workers at which they were counted. With an unchanged learning rate none are saved."""
    batch, is_async = job.batch, job.mode is not TrainingMode.SYNC
    if is_async or batch is None or not (batch.rate_follows or (of_epoch and batch.of_worker)):
        return False, job.counts.workers
    latest = max(progress.samples, key=lambda sample: sample.at, default=None)
    return True, latest.counts.workers if latest else job.counts.workers
