"""The losses of a training run as a bounded list of points in training order.

Where there are too many, neighbours among the old ones are averaged, within an epoch first, so that
means over an epoch stay the same. A restore from a checkpoint removes what it undid."""

import math
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from optimus.progress.types import LossPoint

_SLACK_EPOCHS: Final = 1e-6
"""An epoch that is step / steps per epoch may miss a whole number by rounding."""


def epoch_index(point: LossPoint) -> int | None:
    """The epoch a point belongs to, counted from 0: a point at 3.0 closes epoch 2."""
    return None if point.epoch is None else max(math.ceil(point.epoch - _SLACK_EPOCHS) - 1, 0)


def epoch_indexes(epochs: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same of many epochs at once."""
    return np.asarray(np.maximum(np.ceil(epochs - _SLACK_EPOCHS) - 1, 0.0), dtype=np.float64)


def add(
    points: list[LossPoint],
    point: LossPoint,
    *,
    replace_last: bool = False,
    cumulative: bool = False,
) -> None:
    """Append a point; ``cumulative``: it is the mean since its epoch began and replaces that."""
    index = epoch_index(point)
    if replace_last and points:
        points.pop()
    while cumulative and index is not None and points and epoch_index(points[-1]) == index:
        points.pop()
    points.append(point)


def add_epoch_mean(points: list[LossPoint], point: LossPoint, *, of_all: bool) -> None:
    """Append an epoch's mean from its last line.

    With ``of_all`` the mean is of the whole epoch and replaces the epoch's points; otherwise it
    only closes an epoch that has points."""
    last = points[-1] if points else None
    if of_all:
        add(points, point, cumulative=True)
    elif last is not None and epoch_index(last) == epoch_index(point):
        points[-1] = replace(last, epoch=point.epoch, step=point.step)
    else:
        points.append(point)


def drop_undone(points: list[LossPoint], *, step: int | None, epoch: float | None) -> None:
    """Remove the points after the step (or else epoch) that training was restored to."""
    while points and _is_after(points[-1], step, epoch):
        points.pop()


def _is_after(point: LossPoint, step: int | None, epoch: float | None) -> bool:
    if step is not None and point.step is not None:
        return point.step > step
    return epoch is not None and point.epoch is not None and point.epoch > epoch + _SLACK_EPOCHS


def thin(points: list[LossPoint], limit: int) -> list[LossPoint]:
    """At most ``limit`` points, neighbours averaged; the newest fifth is kept if possible."""
    while len(points) > limit:
        newest = len(points) - limit // 5
        merged = _merge_pairs(points[:newest], within_epochs=True)
        if len(merged) > newest * 3 // 4:
            merged = _merge_pairs(points[:newest], within_epochs=False)
        points = merged + points[newest:]
    return points


def _merge_pairs(points: list[LossPoint], *, within_epochs: bool) -> list[LossPoint]:
    merged: list[LossPoint] = []
    mergeable = False
    for point in points:
        same_epoch = bool(merged) and epoch_index(merged[-1]) == epoch_index(point)
        if mergeable and (same_epoch or not within_epochs):
            merged[-1] = _mean(merged[-1], point)
            mergeable = False
        else:
            merged.append(point)
            mergeable = True
    return merged


def _mean(first: LossPoint, second: LossPoint) -> LossPoint:
    weight = first.weight + second.weight
    loss = (first.loss * first.weight + second.loss * second.weight) / weight
    return LossPoint(loss, second.epoch, second.step, weight, second.learning_rate)
