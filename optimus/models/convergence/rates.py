"""Where the learning rate dropped: Optimus, section 3.1, "treat the training after the adjustment
as a new job".

Where the log tells the rate, a drop is a fall of it to at most 0.6 of the one before. A log that
names the rate only when it changes (MXNet's schedulers) leaves the first one unknown: its first
change counts as a drop unless the next one shows a smooth decay. Where the log never tells, a drop
is a fall of the loss at once: the medians of three epochs before and after lie further apart than
noise, and the slope before, explain, by 10 % at least. A drop that only slows training down leaves
no such mark."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from optimus.errors import NotReady
from optimus.models.convergence.noise import sliding_noise
from optimus.models.convergence.series import LossSeries
from optimus.models.nnls import Vector
from optimus.progress.types import LossPoint

_RATE_DROP: Final = 0.6
"""A learning rate that falls to this part of the one before at once is a drop, not a smooth
decay."""
_BEFORE: Final = 8
_MEDIAN_OF: Final = 3
_LEAST_FALL: Final = 0.1
_TIMES_SLOPE: Final = 6.0
_TIMES_NOISE: Final = 8.0


@dataclass(frozen=True, slots=True)
class Drop:
    """A drop of the learning rate before the point at ``index``; ``ratio`` new / old, ``None``
    where unknown."""

    index: int
    ratio: float | None = None


def rate_drops(points: Sequence[LossPoint], series: LossSeries | None = None) -> list[Drop]:
    """The drops of the learning rate among points in training order: as the log tells, else as the
    losses show.

    ``series`` are the losses of these points, where they are at hand.
    """
    if all(point.learning_rate is None for point in points):
        return _falls_of_the_loss(points, series or LossSeries.of(points))
    return _told(points)


class Segment(NamedTuple):
    """The ``series`` of losses since the learning rate last dropped, which ends the ``whole``, and
    all ``drops``."""

    series: LossSeries
    whole: LossSeries
    drops: Sequence[Drop]


def since_last_drop(points: Sequence[LossPoint]) -> Segment | NotReady:
    """What a curve is fitted to, of points in training order; not ready with fewer than 5 (complete
    epochs)."""
    whole = LossSeries.of(points)
    drops = rate_drops(points, whole)
    series = (LossSeries.of(points[drops[-1].index :]) if drops else whole).rising
    return series.refusal(since_drop=bool(drops)) or Segment(series, whole, drops)


def _told(points: Sequence[LossPoint]) -> list[Drop]:
    told = [
        (n, point.learning_rate)
        for n, point in enumerate(points)
        if point.learning_rate is not None
    ]
    drops = []
    changes = [
        (n, rate)
        for place, (n, rate) in enumerate(told)
        if place == 0 or rate != told[place - 1][1]
    ]
    first_index = changes[0][0]
    silent_since_then = len(told) < len(points) - first_index
    if (
        first_index > 0
        and not silent_since_then
        and not _decays_smoothly([rate for _, rate in changes])
    ):
        drops.append(Drop(first_index))
    for (_, former), (n, rate) in pairwise(changes):
        if former > 0 and rate <= _RATE_DROP * former:
            drops.append(Drop(n, rate / former))
    return drops


def _decays_smoothly(rates: Sequence[float]) -> bool:
    return len(rates) > 1 and rates[1] > _RATE_DROP * rates[0]


def _falls_of_the_loss(points: Sequence[LossPoint], series: LossSeries) -> list[Drop]:
    """Drops of the learning rate that the epoch means alone show; none where the log tells no
    epochs."""
    if (
        not series.in_epochs
        or len(series.complete_loss) < _BEFORE + _MEDIAN_OF
        or not (series.loss > 0).all()
    ):
        return []
    epochs = [series.k[start] for start in sudden_falls(np.log(series.loss))]
    return [
        Drop(next(n for n, p in enumerate(points) if p.epoch is not None and p.epoch > k - 1))
        for k in epochs
    ]


def sudden_falls(log_loss: Vector) -> list[int]:
    """The indexes at which the logs of the losses, one for each epoch, fall to another level at
    once."""
    if len(log_loss) < _BEFORE + _MEDIAN_OF:
        return []
    medians = np.median(np.lib.stride_tricks.sliding_window_view(log_loss, _MEDIAN_OF), axis=1)
    at = np.arange(_BEFORE, len(log_loss) - _MEDIAN_OF + 1)
    level, earlier, earliest = (
        medians[at - _MEDIAN_OF],
        medians[at - 2 * _MEDIAN_OF],
        medians[at - _BEFORE],
    )
    slope = np.maximum(
        np.maximum(earliest - level, 0) / (_BEFORE - _MEDIAN_OF), (earlier - level) / _MEDIAN_OF
    )
    fall = level - medians[at] - _MEDIAN_OF * slope
    noise = sliding_noise(log_loss, _BEFORE)[at - _BEFORE]
    falling = at[
        fall > np.maximum(np.maximum(_TIMES_NOISE * noise, _LEAST_FALL), _TIMES_SLOPE * slope)
    ]
    starts: list[int] = []
    for n in falling:
        if not starts or n >= starts[-1] + _BEFORE:
            nearby = np.arange(n - 1, min(n + _MEDIAN_OF, len(log_loss)))
            starts.append(int(nearby[np.argmax(log_loss[nearby - 1] - log_loss[nearby])]))
    return starts
