"""What is remembered of a job's logs: plain data, bounded, stored in the job's profile.

The losses are points in training order. Where there are too many, neighbours among the old ones are
averaged, within an epoch first, so that means over an epoch stay the same. A restore from a
checkpoint removes the points after it.
"""

import math
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from optimus.jobs import Counts
from optimus.progress.pod_progress import PodState
from optimus.progress.types import LossPoint, SpeedSample

_SLACK_EPOCHS: Final = 1e-6
"""An epoch that is step / steps per epoch may miss a whole number by rounding."""


@dataclass(slots=True)
class EpochClock:
    """At which global steps the printed epoch number changed."""

    epoch: int | None = None
    first: tuple[int, int] | None = None
    """The first change, as (epoch, step); ``last`` is the latest."""
    last: tuple[int, int] | None = None

    def tick(self, epoch: int, step: int) -> None:
        """Record the current position."""
        is_later = self.last is None or epoch > self.last[0]
        if self.epoch is not None and epoch > self.epoch and is_later:
            self.last = (epoch, step)
            self.first = self.first or self.last
        self.epoch = epoch

    @property
    def steps_per_epoch(self) -> float | None:
        """Steps of the job from one change to the next; after one change, those since step 0."""
        if self.first is None or self.last is None or self.last[0] <= 0:
            return None
        if self.last[1] <= self.first[1]:
            return max(self.last[1] - 1, 1) / self.last[0]
        return (self.last[1] - self.first[1]) / (self.last[0] - self.first[0])


@dataclass(slots=True)
class LogState:
    """All that is remembered of one job's logs."""

    run: str | None = None
    """One incarnation of the job's pods, at ``ps`` and ``workers``."""
    former_run: str | None = None
    ps: int = 1
    workers: int = 1
    lead: str | None = None
    """The pod whose losses count."""
    pods: list[PodState] = field(default_factory=list)
    losses: list[LossPoint] = field(default_factory=list)
    samples: list[SpeedSample] = field(default_factory=list)
    clock: EpochClock = field(default_factory=EpochClock)
    first_epoch: int = 1
    """The number that the log gives to the first epoch: 1 until a 0 is seen."""
    step: int | None = None
    epoch: float | None = None
    steps_per_epoch: float | None = None
    """As last known."""
    reference_steps: float | None = None
    """Where the size of a step may differ between runs: the steps in an epoch of the first run, at
    ``reference_workers`` and with ``reference_examples`` in a step."""
    reference_workers: int | None = None
    reference_examples: float | None = None
    checkpoint_step: int | None = None
    checkpoint_at: float | None = None
    checkpoint_since: float | None = None
    trained_seconds: float = 0.0
    bad_losses: int = 0
    """Losses in a row that are no finite number."""
    lossless: int = 0
    """Lines of progress without a loss; their values are named in ``metrics``."""
    unread_lines: int = 0
    """Lines that say nothing about the training."""
    metrics: list[str] = field(default_factory=list)
    epoch_line_is_mean: bool = False
    """The line at an epoch's end gives the whole epoch's mean."""
    learning_rate: float | None = None
    """The last one that the log announced on a line of its own."""
    node_kind: str | None = None
    """The class of the run's workers' nodes; ``None`` before it was determined."""

    @property
    def counts(self) -> Counts:
        """The PSs and workers of the run."""
        return Counts(self.ps, self.workers)

    def copied(self) -> "LogState":
        """A copy that later lines do not change."""
        # Immutable values are shared: there may be thousands of losses, and every job is stored
        # again and again.
        shared = (*self.losses, *self.samples)
        return deepcopy(self, {id(each): each for each in shared})


def epoch_index(point: LossPoint) -> int | None:
    """The epoch a point belongs to, counted from 0: a point at 3.0 closes epoch 2."""
    return None if point.epoch is None else max(math.ceil(point.epoch - _SLACK_EPOCHS) - 1, 0)


def epoch_indexes(epochs: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same of many epochs at once."""
    return np.asarray(np.maximum(np.ceil(epochs - _SLACK_EPOCHS) - 1, 0.0), dtype=np.float64)


def add_loss(
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
        add_loss(points, point, cumulative=True)
    elif last is not None and epoch_index(last) == epoch_index(point):
        points[-1] = replace(last, epoch=point.epoch, step=point.step)
    else:
        points.append(point)


def drop_undone_losses(points: list[LossPoint], *, step: int | None, epoch: float | None) -> None:
    """Remove the points after the step (or else epoch) that training was restored to."""
    while points and _is_after(points[-1], step, epoch):
        points.pop()


def _is_after(point: LossPoint, step: int | None, epoch: float | None) -> bool:
    if step is not None and point.step is not None:
        return point.step > step
    return epoch is not None and point.epoch is not None and point.epoch > epoch + _SLACK_EPOCHS


def thin_losses(points: list[LossPoint], limit: int) -> list[LossPoint]:
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
