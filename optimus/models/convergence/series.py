"""The losses of a training run as the convergence models take them.

1. Losses become a mean per epoch, or the points at their steps.
2. The learning rate's drops cut them: Optimus, section 3.1, "treat the training after the
   adjustment as a new job".
3. Their noise is estimated from differences of neighbours.
4. They meet a goal, or do not yet.

Drops: where the log has the learning rate, a fall to at most 0.6 of it. A log that names the rate
only when it changes (MXNet's schedulers) leaves the first one unknown: its first change counts as a
drop unless the next one shows a smooth decay. Where the log never has it, a sudden fall of the
loss: the medians of three epochs before and after differ by more than noise and the slope before
explain, and by 10 % at least. A drop that only slows training down leaves no such mark.

Noise: a second difference of independent noise of standard deviation s has sqrt(6) s, a third one
sqrt(20) s, and hardly anything of a smooth course; the smaller estimate is the one that the course
disturbs less. The median of absolute values is robust to outliers; with few points their mean
square is mixed in."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimus.errors import NotReady
from optimus.jobs import LossGoal, TargetLoss
from optimus.models import Matrix, Vector
from optimus.progress.state import epoch_indexes
from optimus.progress.types import LossPoint

NEEDED_POINTS: Final = 5
QUIET_EPOCHS: Final = 3
"""Epochs in a row in which the loss must change by less than the threshold (the paper: "for
several epochs")."""
FLATTER: Final = 0.5
"""The last epochs of a plateau fall at most at this part of the average rate so far."""
TARGET_EPOCHS: Final = 2
"""Epochs in a row that must meet a target: the mean of one may be low by chance."""
MEDIAN_OF: Final = 20
"""Without epochs a target is compared with the median of this many points."""
_PARTS: Final = 10
"""Parts into which an epoch is cut where few epochs are known."""
_NEARLY: Final = 0.1
"""An epoch whose last loss is this close to its end (a part of an epoch) counts as complete."""

_RATE_DROP: Final = 0.6
"""A learning rate that falls to this part of the last one at once is a drop, not a smooth decay."""
_JITTER: Final = 3
"""Rates on either side of a drop that show that it lasts."""
_BEFORE: Final = 8
_MEDIAN_WINDOW: Final = 3
_LEAST_FALL: Final = 0.1
_TIMES_SLOPE: Final = 6.0
_TIMES_NOISE: Final = 8.0

LEAST_NOISE: Final = 1e-4
"""No log prints its losses more exactly than this."""
_SIGMAS_OF_MEDIAN: Final = 1.4826
"""The standard deviation of a normal distribution over the median of its absolute values."""
_DIFFERENCES: Final = ((2, np.sqrt(6)), (3, np.sqrt(20)))
_NOISE_RATIO: Final = 0.8
"""The noise after a drop of the learning rate as a part of that before it."""


@dataclass(frozen=True, slots=True)
class LossSeries:
    """Losses to fit: a mean per completed epoch at k = epochs done, or each point at k = steps."""

    k: Vector
    loss: Vector
    in_epochs: bool
    complete: bool = True
    """False: the first epoch is still running, and the one mean is of its beginning."""
    part: float = 1.0
    """Each mean is of so much of an epoch."""

    @property
    def complete_loss(self) -> Vector:
        """The losses of completed epochs; none while the first is running."""
        return self.loss if self.complete else self.loss[:0]

    @property
    def start_loss(self) -> float:
        """The scale of a convergence threshold: the first mean, or the second where the first is
        more than ten times as large and says nothing about the others."""
        first_is_spike = len(self.loss) > 1 and self.loss[0] > 10.0 * self.loss[1]
        return float(self.loss[1 if first_is_spike else 0])

    @property
    def unit(self) -> str:
        """Return what k counts, for messages."""
        return "epochs" if self.in_epochs else "steps"

    @property
    def spacing(self) -> float:
        """How far apart in k the losses are: a part of an epoch, or the usual number of steps."""
        if self.in_epochs:
            return self.part
        return float(np.median(np.diff(self.k))) if len(self.k) > 1 else 1.0

    @property
    def noise_and_spacing(self) -> tuple[float, float]:
        """The noise of what a goal is compared with, and how often it is: that of epochs' means,
        also where the losses are those of parts, whose noise is independent."""
        return estimate_noise(self.log_loss) * math.sqrt(self.part), self.spacing / self.part

    @property
    def log_loss(self) -> Vector:
        """The logarithms; a loss that was printed as 0 counts as half of the smallest other."""
        least = float(self.loss[self.loss > 0].min())
        return np.asarray(np.log(np.maximum(self.loss, max(least / 2, 1e-300))), np.float64)

    @property
    def rising(self) -> "LossSeries":
        """Without points that come after one of a later k: a log may be out of order."""
        rises = self.k > np.concatenate([[-math.inf], np.maximum.accumulate(self.k)[:-1]])
        return self if rises.all() else replace(self, k=self.k[rises], loss=self.loss[rises])

    def refusal(self, *, since_drop: bool) -> NotReady | None:
        """Return why no curve can be fitted to these losses, if so."""
        known = len(self.complete_loss)
        if known < NEEDED_POINTS:
            of = ("complete epoch" if self.in_epochs else "point") + ("" if known == 1 else "s")
            since = " since the learning rate dropped" if since_drop else ""
            return NotReady(f"the loss is known at {known} {of}{since}, {NEEDED_POINTS} needed")
        if (self.loss < 0).any() or not (self.loss > 0).any():
            return NotReady("the loss is not positive, which the convergence curve cannot describe")
        return None

    @classmethod
    def of(cls, points: Sequence[LossPoint]) -> "LossSeries":
        """Means per epoch where all points have epochs, else the points by step, else by order.

        The goal's rule and the fit ask for the same points one after the other: the last few tuples
        of points are known by their identity."""
        return _series(_ById(points)) if isinstance(points, tuple) else cls._of(points)

    @classmethod
    def _of(cls, points: Sequence[LossPoint]) -> "LossSeries":
        if points and all(point.epoch is not None for point in points):
            return cls._per_epoch(points)
        known = [point for point in points if point.step is not None]
        steps = [float(point.step or 0) for point in known] or list(range(1, len(points) + 1))
        loss = np.array([point.loss for point in known or points])
        return cls(np.array(steps, dtype=np.float64), loss, in_epochs=False)

    @classmethod
    def of_parts(cls, points: Sequence[LossPoint]) -> "LossSeries":
        """Means of tenths of an epoch, where epochs are so long that few are complete.

        The newest is left out until it is complete. The same as ``of`` without epochs, with fewer
        than 10 losses an epoch, or where fewer than 5 tenths are known."""
        whole = cls.of(points)
        if not whole.in_epochs:
            return whole
        epoch = np.array([point.epoch for point in points], dtype=np.float64)
        if len(points) < _PARTS * (epoch[-1] - math.floor(epoch[0])):
            return whole
        loss, weight = (
            np.array(each) for each in zip(*((p.loss, p.weight) for p in points), strict=True)
        )
        index = np.ceil(epoch * _PARTS - _NEARLY).astype(np.intp)
        starts = np.concatenate([[0], np.flatnonzero(np.diff(index)) + 1])
        means = np.add.reduceat(loss * weight, starts) / np.add.reduceat(weight, starts)
        ended = bool(epoch[-1] * _PARTS > index[-1] - _NEARLY)
        count = len(starts) if ended else len(starts) - 1
        if count < NEEDED_POINTS:
            return whole
        return cls(index[starts][:count] / _PARTS, means[:count], in_epochs=True, part=1 / _PARTS)

    @classmethod
    def _per_epoch(cls, points: Sequence[LossPoint]) -> "LossSeries":
        epoch = np.array([point.epoch for point in points], dtype=np.float64)
        loss = np.array([point.loss for point in points])
        weight = np.array([point.weight for point in points])
        index = epoch_indexes(epoch)
        starts = np.concatenate([[0], np.flatnonzero(np.diff(index)) + 1])
        means = np.add.reduceat(loss * weight, starts) / np.add.reduceat(weight, starts)
        ended = bool(epoch[-1] > math.ceil(epoch[-1]) - _NEARLY)
        k, complete = index[starts] + 1, bool(index[0] != index[-1]) or ended
        if len(starts) > 1 and not ended:
            # The beginning of an epoch is no fair sample of it: the loss falls within.
            k, means = k[:-1], means[:-1]
        return cls(k, means, in_epochs=True, complete=complete)


@dataclass(frozen=True, slots=True, eq=False)
class _ById:
    """Points as a key that is compared by identity: comparing them all takes as long as their
    means."""

    points: tuple[LossPoint, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and self.points is other.points

    def __hash__(self) -> int:
        return id(self.points)


@lru_cache(maxsize=8)
def _series(key: _ById) -> LossSeries:
    return LossSeries._of(key.points)  # noqa: SLF001 - its own cache


@dataclass(frozen=True, slots=True)
class Drop:
    """A drop of the learning rate before the point at ``index``."""

    index: int
    ratio: float | None = None
    """New rate / old rate, ``None`` where unknown."""


class Segment(NamedTuple):
    """The ``series`` of losses since the point at index ``first``, the end of the ``whole``."""

    series: LossSeries
    whole: LossSeries
    first: int


def since_last_drop(points: Sequence[LossPoint]) -> Segment | NotReady:
    """Return what a curve is fitted to: the losses since the learning rate last dropped; not ready
    with fewer than 5 points (complete epochs)."""
    whole = LossSeries.of(points)
    drops = learning_rate_drops(points, whole)
    return segment_since(points, whole, drops[-1].index if drops else 0)


def segment_since(
    points: Sequence[LossPoint], whole: LossSeries | None, first: int
) -> Segment | NotReady:
    """The losses from the point at that index on."""
    since = points[first:] if first else points
    whole = whole or LossSeries.of(points)
    series = LossSeries.of(since) if first else whole
    if len(series.complete_loss) < NEEDED_POINTS:
        series = LossSeries.of_parts(since)
    series = series.rising
    return series.refusal(since_drop=first > 0) or Segment(series, whole, first)


def learning_rate_drops(
    points: Sequence[LossPoint], series: LossSeries | None = None
) -> list[Drop]:
    """The drops of the learning rate among points in training order, by its values or the losses.

    ``series`` are the losses of these points, where they are at hand."""
    rates = [
        (n, each.learning_rate) for n, each in enumerate(points) if each.learning_rate is not None
    ]
    if not rates:
        return _drops_of_loss(points, series or LossSeries.of(points))
    changes = rates[:1] + [new for old, new in pairwise(rates) if new[1] != old[1]]
    first = changes[0][0]
    always_named = len(rates) == len(points) - first
    decays_smoothly = len(changes) > 1 and changes[1][1] > _RATE_DROP * changes[0][1]
    drops = [Drop(first)] if first > 0 and always_named and not decays_smoothly else []
    values = [rate for _, rate in rates]
    return drops + [
        Drop(n, rate / former)
        for i, ((_, former), (n, rate)) in enumerate(pairwise(rates), 1)
        if former > 0 and rate <= _RATE_DROP * former and _stays(values, i)
    ]


def _stays(rates: Sequence[float], fallen: int) -> bool:
    """Return whether a fall of the rate is no jitter, as of scripts that scale it by each batch's
    length: the rates after it, as far as they are known, are lower than those before it."""
    before, after = rates[max(fallen - _JITTER, 0) : fallen], rates[fallen : fallen + _JITTER]
    return max(after) <= _RATE_DROP * min(before)


def _drops_of_loss(points: Sequence[LossPoint], series: LossSeries) -> list[Drop]:
    """Drops of the learning rate that the epoch means alone show; none without epochs."""
    few = len(series.complete_loss) < _BEFORE + _MEDIAN_WINDOW
    if not series.in_epochs or few or not (series.loss > 0).all():
        return []
    epochs = [series.k[start] for start in sudden_falls(np.log(series.loss))]
    return [
        Drop(next(n for n, p in enumerate(points) if p.epoch is not None and p.epoch > k - 1))
        for k in epochs
    ]


def sudden_falls(log_loss: Vector) -> list[int]:
    """The indexes at which the logs of epoch means fall suddenly to another level."""
    window = _MEDIAN_WINDOW
    if len(log_loss) < _BEFORE + window:
        return []
    medians = middle(_stretches(log_loss, window))
    at = np.arange(_BEFORE, len(log_loss) - window + 1)
    level, earlier, earliest = medians[at - window], medians[at - 2 * window], medians[at - _BEFORE]
    slope = np.maximum(
        np.maximum(earliest - level, 0) / (_BEFORE - window), (earlier - level) / window
    )
    fall = level - medians[at] - window * slope
    noise = sliding_noise(log_loss, _BEFORE)[at - _BEFORE]
    needed = np.maximum(np.maximum(_TIMES_NOISE * noise, _LEAST_FALL), _TIMES_SLOPE * slope)
    starts: list[int] = []
    for n in at[fall > needed]:
        if not starts or n >= starts[-1] + _BEFORE:
            nearby = np.arange(n - 1, min(n + window, len(log_loss)))
            starts.append(int(nearby[np.argmax(log_loss[nearby - 1] - log_loss[nearby])]))
    return starts


def estimate_noise(log_loss: Vector) -> float:
    """The standard deviation of the logs of epoch means about their course; at least 1e-4."""
    if len(log_loss) < 4:
        return 0.01
    found = (_scatter(np.diff(log_loss, order) / norm) for order, norm in _DIFFERENCES)
    return max(min(found), LEAST_NOISE)


def middle(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The median along the last axis, of numbers without NaN.

    ``np.median`` gives the same; its checks take longer than sorting the few values of a fit."""
    ordered, half = np.sort(values, axis=-1), values.shape[-1] // 2
    if values.shape[-1] % 2:
        return np.asarray(ordered[..., half])
    return np.asarray((ordered[..., half - 1] + ordered[..., half]) / 2)


def _scatter(differences: Vector) -> float:
    robust = _SIGMAS_OF_MEDIAN * float(middle(np.abs(differences)))
    if len(differences) > 9:
        return robust
    return float(np.sqrt((robust**2 + float(np.mean(differences**2))) / 2))


def pooled_noise(noise: float, points: int, before: float) -> float:
    """The noise of ``points`` after a drop, pooled with the noise from before it (in logs)."""
    # Four points after it weigh as much as the noise from before it.
    share = max(points - 2, 0) / (max(points - 2, 0) + 4.0)
    expected = max(_NOISE_RATIO * before, LEAST_NOISE)
    return float(np.exp(share * np.log(noise) + (1 - share) * np.log(expected)))


def sliding_noise(log_loss: Vector, window: int) -> Vector:
    """The noise of each stretch of ``window`` points, which is short; (points - window + 1,)."""
    second = (log_loss[2:] - 2 * log_loss[1:-1] + log_loss[:-2]) / np.sqrt(6)
    stretches = _stretches(np.abs(second), window - 2)
    square = np.mean(stretches**2, axis=1)
    noise = np.sqrt(((_SIGMAS_OF_MEDIAN * middle(stretches)) ** 2 + square) / 2)
    return np.maximum(np.asarray(noise, dtype=np.float64), LEAST_NOISE)


def _stretches(values: Vector, length: int) -> Matrix:
    """All stretches of ``length`` points, (points - length + 1, length).

    numpy's ``sliding_window_view`` gives the same; its checks take longer than this copy."""
    starts = np.arange(len(values) - length + 1)
    return values.take(starts[:, np.newaxis] + np.arange(length))


def is_converged(recent: Sequence[float], largest: float, lowest: float, fraction: float) -> bool:
    """Return whether the loss has fallen and is flat now, by ``fraction`` of its ``largest`` mean.

    ``recent`` are the means of the last epochs, ``QUIET_EPOCHS`` + 1 of them. A loss that rises
    slowly is flat, too: it must be within one threshold of its ``lowest`` mean."""
    if len(recent) <= QUIET_EPOCHS:
        return False
    threshold = fraction * largest
    changes = [abs(latter - former) for former, latter in pairwise(recent[-QUIET_EPOCHS - 1 :])]
    has_fallen = largest - recent[-1] >= needed_fall(fraction, largest)
    return has_fallen and recent[-1] <= lowest + threshold and max(changes) < threshold


def needed_fall(fraction: float, largest: float) -> float:
    """Return how far the loss must have fallen from its largest mean, as before it falls it is flat
    too: by five thresholds, or by half if that is less."""
    return min(5.0 * fraction, 0.5) * largest


def needed_plateau(points: Sequence[LossPoint], series: LossSeries, fraction: float) -> float:
    """Return how many epochs a plateau must last to be no mere stage of a schedule.

    As long as the stretch before the last drop of the learning rate lasted. Before the first drop,
    where the log names the rate: as long as the training before the plateau, and 20 epochs:
    common schedules drop it after 30 and more."""
    drops = learning_rate_drops(points, series)
    if drops:
        starts = [0.0, *(float(points[drop.index].epoch or 0.0) for drop in drops)]
        return starts[-1] - starts[-2]
    if all(point.learning_rate is None for point in points):
        return 0.0
    return max(float(series.k[-1]) - plateau_epochs(series, fraction), 20.0)


def plateau_epochs(series: LossSeries, fraction: float) -> int:
    """For how many epochs the loss has changed by less than ``fraction`` of its largest mean."""
    loud = np.flatnonzero(np.abs(np.diff(series.loss)) >= fraction * series.loss.max())
    return len(series.loss) - 1 - (int(loud[-1]) + 1 if len(loud) else 0)


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdRule:
    """What the rule for a threshold asks of the epochs ahead, by the losses so far.

    A forecast follows the rule by which the goal is met (``models.goals``): quiet epochs alone do
    not meet it. The loss has fallen far enough from its start, is near its lowest, has become
    flatter than the descent so far, and the plateau is no mere stage of the schedule."""

    series: LossSeries
    points: tuple[LossPoint, ...]

    @classmethod
    def of(cls, points: Sequence[LossPoint], series: LossSeries) -> "ThresholdRule":
        """Of losses in training order, and their epochs' means."""
        return cls(series, tuple(points))

    def may_hold(
        self, fraction: float, k: Vector, losses: Matrix, falls: Matrix
    ) -> NDArray[np.bool_]:
        """Return whether each course can meet the threshold after k epochs, (courses, places).

        ``losses`` are those of the courses, ``falls`` by how much an epoch lowers them."""
        means, start = self.series.loss, self.series.start_loss
        first, threshold = min(float(means[0]), start), fraction * start
        fallen = start - losses >= needed_fall(fraction, start)
        near = losses <= float(means.min()) + threshold
        epochs = np.maximum(k - float(self.series.k[0]), 1.0)
        flat = falls <= FLATTER * np.maximum(first - losses, 0.0) / epochs
        return np.asarray(fallen & near & flat & (k >= self.stage_ends(fraction)), dtype=np.bool_)

    def stage_ends(self, fraction: float) -> float:
        """The epochs before which a plateau is a mere stage of the schedule."""
        needed = needed_plateau(self.points, self.series, fraction)
        began = float(self.series.k[-1]) - plateau_epochs(self.series, fraction)
        return began + needed if needed > 0 else 0.0


def meets(goal: LossGoal, losses: Sequence[LossPoint]) -> bool:
    """Return whether losses in training order meet the goal.

    A target: the mean losses of two completed epochs in a row are at most that; without epochs the
    median of the last 20 points. A threshold: ``is_converged``, and the plateau is no mere stage of
    a schedule (``needed_plateau``)."""
    if not losses:
        return False
    series = LossSeries.of(losses)
    means = series.complete_loss
    if isinstance(goal, TargetLoss):
        if series.in_epochs:
            met = means <= goal.loss
            return bool((met[1:] & met[:-1]).any())
        newest = losses[-MEDIAN_OF:]
        return len(newest) == MEDIAN_OF and median(each.loss for each in newest) <= goal.loss
    if not series.in_epochs or len(means) <= QUIET_EPOCHS:
        return False
    recent = means[-QUIET_EPOCHS - 1 :].tolist()
    if not is_converged(recent, float(means.max()), float(means.min()), goal.fraction):
        return False
    plateau = plateau_epochs(series, goal.fraction)
    return plateau >= needed_plateau(losses, series, goal.fraction)
