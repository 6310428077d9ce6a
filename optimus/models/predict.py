"""A job's forecast from its progress: the loss curve says how much work is left, the speed model
how fast it goes.

Optimus, section 3: Q = the epochs (steps) at which the curve meets the goal, less those done; t(p,
w) = Q / f(p, w). Both models say how sure they are; what plans use is the middle one, what users
read has its interval beside it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus.errors import NotReady
from optimus.jobs import BatchScope, Goal, Job, TargetLoss, TrainingMode
from optimus.models.convergence import (
    MEDIAN_OF,
    QUIET_EPOCHS,
    Arrival,
    LossCurve,
    LossSeries,
    PublishedCurve,
)
from optimus.models.forecast import JobForecast, Speed
from optimus.models.speed.model import (
    Measured,
    SpeedForm,
    SpeedModel,
    SpeedTerms,
    needed_counts,
    why_not_ready,
)
from optimus.progress.loss_series import epoch_index
from optimus.progress.types import LossPoint, TrainingProgress

Curve = LossCurve | PublishedCurve


@dataclass(frozen=True, slots=True)
class JobOutlook:
    """What a job's progress lets one expect.

    ``remaining_epochs`` is ``None`` where the log tells no epochs. ``progress_fraction`` is the
    work done as a part of all work until the goal, 1 once it is met. ``curve`` is ``None`` where
    the goal was met before it could be fitted. ``arrival`` says when the goal is met, in epochs
    (steps) from the start of training, with its interval and its probability by any; it is ``None``
    once the goal is met. ``low_epochs`` to ``high_epochs`` remain with 80 %."""

    forecast: JobForecast
    curve: Curve | None
    remaining_epochs: float | None
    goal_met: bool
    progress_fraction: float
    low_epochs: float | None = None
    high_epochs: float | None = None
    arrival: Arrival | None = None


@dataclass(frozen=True, slots=True)
class NoWorkLeft:
    """The speed of a job that has nothing left to do: any will do."""

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """One, at each pair of counts (arrays broadcast)."""
        return np.ones(np.broadcast_shapes(np.shape(ps), np.shape(workers)))


class CurveFit(Protocol):
    """Fits a convergence curve: ``LossCurve.fit`` or ``PublishedCurve.fit``."""

    def __call__(self, points: Sequence[LossPoint], /) -> Curve | NotReady:
        """The curve of losses in training order, or why there is none yet."""
        ...


def forecast_job(
    job: Job, progress: TrainingProgress, goal: Goal | None = None, fit: CurveFit = LossCurve.fit
) -> JobOutlook | NotReady:
    """The outlook of a job towards its goal (or the one given); not ready while a model cannot be
    fitted."""
    goal = goal or job.goal
    if goal is None:
        return NotReady("the job has no goal: the annotation optimus.dl/target-loss sets one")
    losses = losses_with_epochs(progress)
    met = _is_met(goal, losses)
    curve = fit(losses)
    if met:
        forecast = JobForecast(NoWorkLeft(), 0.0)
        fitted = None if isinstance(curve, NotReady) else curve
        return JobOutlook(
            forecast,
            fitted,
            0.0 if _in_epochs(losses) else None,
            goal_met=True,
            progress_fraction=1.0,
        )
    if isinstance(curve, NotReady):
        return _complain(curve, progress)
    return _outlook(job, progress, goal, curve)


def goal_is_met(goal: Goal, progress: TrainingProgress) -> bool:
    """Whether the losses so far meet the goal.

    A target: the mean loss of a completed epoch is at most that; without epochs the median of the
    last 20 points. A threshold: for 3 epochs in a row the loss fell by less than that part of the
    largest loss."""
    return _is_met(goal, losses_with_epochs(progress))


def present_loss(progress: TrainingProgress) -> float | None:
    """The loss that a target is compared with now: the mean of the last whole epoch (of the running
    one in the first).

    Without epochs the median of the last 20 points; ``None`` before the first point.
    """
    newest = _of_two_epochs(progress)
    if not newest:
        return None
    series = LossSeries.of(newest)
    if not series.in_epochs:
        return float(median(point.loss for point in newest[-MEDIAN_OF:]))
    return float(series.complete_loss[-1] if len(series.complete_loss) else series.loss[-1])


def _of_two_epochs(progress: TrainingProgress) -> Sequence[LossPoint]:
    """The newest points from the beginning of the last epoch but one on: the last whole one is
    among them.

    Without epochs as many as a median is taken of.
    """
    newest: list[LossPoint] = []
    epochs = set()
    for point in reversed(progress.losses):
        known = _with_epoch(point, progress.steps_per_epoch)
        epochs.add(epoch_index(known))
        if len(epochs) > 2 or (known.epoch is None and len(newest) == MEDIAN_OF):
            break
        newest.append(known)
    return newest[::-1]


def losses_with_epochs(progress: TrainingProgress) -> tuple[LossPoint, ...]:
    """The losses, with the epochs that follow from steps for those that were seen before these were
    known."""
    per_epoch = progress.steps_per_epoch
    return (
        tuple(_with_epoch(point, per_epoch) for point in progress.losses)
        if per_epoch
        else progress.losses
    )


def _with_epoch(point: LossPoint, steps_per_epoch: float | None) -> LossPoint:
    if not steps_per_epoch or point.epoch is not None or point.step is None:
        return point
    return replace(point, epoch=point.step / steps_per_epoch)


def _complain(reason: NotReady, progress: TrainingProgress) -> NotReady:
    """A complaint about the log explains better than a lack of points."""
    return NotReady(progress.complaint) if progress.complaint else reason


def _in_epochs(losses: Sequence[LossPoint]) -> bool:
    return all(point.epoch is not None for point in losses)


def _is_met(goal: Goal, losses: Sequence[LossPoint]) -> bool:
    if not losses:
        return False
    series = LossSeries.of(losses)
    if isinstance(goal, TargetLoss):
        if series.in_epochs:
            return bool((series.complete_loss <= goal.loss).any())
        return (
            len(losses) >= MEDIAN_OF
            and median(point.loss for point in losses[-MEDIAN_OF:]) <= goal.loss
        )
    means = series.complete_loss
    if not series.in_epochs or len(means) <= QUIET_EPOCHS:
        return False
    falls = -np.diff(means[-QUIET_EPOCHS - 1 :])
    return bool((falls < goal.fraction * means.max()).all())


def _outlook(
    job: Job, progress: TrainingProgress, goal: Goal, curve: Curve
) -> JobOutlook | NotReady:
    arrival = curve.until(goal)
    if isinstance(arrival, NotReady):
        return arrival
    steps_per_unit = _steps_per_unit(job, progress, curve)
    speed = _speed(job, progress)
    for part in (steps_per_unit, speed):
        if isinstance(part, NotReady):
            return part
    assert isinstance(steps_per_unit, float)
    assert not isinstance(speed, NotReady)
    done = _done(progress, curve)
    least = _least_left(done, curve)
    left, low, high = (max(end - done, least) for end in (arrival.point, arrival.low, arrival.high))
    forecast = JobForecast(speed, left * steps_per_unit, *_batch_rule(job, progress))
    outlook = JobOutlook(forecast, curve, None, False, done / (done + left), arrival=arrival)
    if not curve.in_epochs:
        return outlook
    return replace(outlook, remaining_epochs=left, low_epochs=low, high_epochs=high)


def _done(progress: TrainingProgress, curve: Curve) -> float:
    done = progress.epoch if curve.in_epochs else progress.step
    return curve.seen if done is None else max(float(done), 0.0)


def _least_left(done: float, curve: Curve) -> float:
    """A goal that the curve has passed but the losses have not: they may meet it when the running
    epoch ends."""
    return math.floor(done) + 1 - done if curve.in_epochs else 1.0


def _steps_per_unit(job: Job, progress: TrainingProgress, curve: Curve) -> float | NotReady:
    if not curve.in_epochs:
        return 1.0
    steps = progress.steps_per_epoch or job.steps_per_epoch
    if steps is None:
        return NotReady(
            "how many steps make an epoch is not known yet: the annotation "
            "optimus.dl/steps-per-epoch tells"
        )
    return float(steps)


def _speed(job: Job, progress: TrainingProgress) -> Speed | NotReady:
    measured, kind = Measured.of(progress.samples), progress.node_kind
    refusal = why_not_ready(measured, needed_counts(job.bounds))
    if refusal is not None:
        return refusal
    model = SpeedModel.of(measured, SpeedTerms(job.mode, job.batch, SpeedForm.BLEND))
    newest = measured.newest_at(job.counts, kind)
    if newest is not None:
        model = model.on(newest.node_kind).anchored(job.counts, newest.steps_per_second)
    return model if kind is None else model.on(kind)


def _batch_rule(job: Job, progress: TrainingProgress) -> tuple[bool, int]:
    """Whether steps shrink as workers grow, and the workers at which steps were counted."""
    per_worker = (
        job.batch is not None
        and job.batch.scope is BatchScope.WORKER
        and job.mode is TrainingMode.SYNC
    )
    latest = max(progress.samples, key=lambda sample: sample.at, default=None)
    return per_worker, latest.counts.workers if latest and per_worker else job.counts.workers
