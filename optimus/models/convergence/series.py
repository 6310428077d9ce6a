"""The losses of a training run as the convergence models take them: a mean per epoch, or the points
at their steps."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from optimus.errors import NotReady
from optimus.models.nnls import Vector
from optimus.progress.loss_series import epoch_indexes
from optimus.progress.types import LossPoint

NEEDED_POINTS: Final = 5
QUIET_EPOCHS: Final = 3
"""So many epochs in a row the loss must fall by less than the threshold (the paper: "for several
epochs")."""
MEDIAN_OF: Final = 20
"""Without epochs a target is compared with the median of so many points."""
_LEAST_LOSS: Final = 1e-300
_NEARLY: Final = 0.1
"""An epoch whose last loss comes so close to its end (a part of an epoch) counts as complete."""


@dataclass(frozen=True, slots=True)
class LossSeries:
    """Losses to fit: one mean per completed epoch at k = epochs done, or one per point at k =
    steps.

    Not ``complete``: the first epoch is still running, and the one mean is of its beginning.
    """

    k: Vector
    loss: Vector
    in_epochs: bool
    complete: bool = True

    @property
    def complete_loss(self) -> Vector:
        """The losses of completed epochs; none while the first is running."""
        return self.loss if self.complete else self.loss[:0]

    @property
    def unit(self) -> str:
        """What k counts, for sentences."""
        return "epochs" if self.in_epochs else "steps"

    @property
    def spacing(self) -> float:
        """How far apart in k the losses are: an epoch, or the usual number of steps."""
        return 1.0 if self.in_epochs or len(self.k) < 2 else float(np.median(np.diff(self.k)))

    @property
    def log_loss(self) -> Vector:
        """The logarithms; a loss that was printed as 0 counts as half of the smallest other."""
        least = float(self.loss[self.loss > 0].min())
        return np.asarray(
            np.log(np.maximum(self.loss, max(least / 2, _LEAST_LOSS))), dtype=np.float64
        )

    @property
    def rising(self) -> "LossSeries":
        """Without what comes after a later k: a log may be out of order."""
        rises = self.k > np.concatenate([[-math.inf], np.maximum.accumulate(self.k)[:-1]])
        return self if rises.all() else replace(self, k=self.k[rises], loss=self.loss[rises])

    def refusal(self, *, since_drop: bool) -> NotReady | None:
        """Why no curve can be fitted to these losses, if so."""
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
        """Means per epoch where the points know their epochs, else the points at their steps, else
        in their order."""
        if points and all(point.epoch is not None for point in points):
            return cls._per_epoch(points)
        known = [point for point in points if point.step is not None]
        steps = [float(point.step or 0) for point in known] or [
            float(n) for n in range(1, len(points) + 1)
        ]
        return cls(
            np.array(steps), np.array([point.loss for point in known or points]), in_epochs=False
        )

    @classmethod
    def _per_epoch(cls, points: Sequence[LossPoint]) -> "LossSeries":
        epoch = np.array([point.epoch for point in points], dtype=np.float64)
        loss = np.array([point.loss for point in points])
        weight = np.array([point.weight for point in points])
        index = epoch_indexes(epoch)
        starts = np.concatenate([[0], np.flatnonzero(np.diff(index)) + 1])
        means = np.add.reduceat(loss * weight, starts) / np.add.reduceat(weight, starts)
        k, complete = index[starts] + 1, bool(index[0] != index[-1]) or _completes_epoch(epoch[-1])
        if len(starts) > 1 and not _completes_epoch(epoch[-1]):
            k, means = (
                k[:-1],
                means[:-1],
            )  # the beginning of an epoch is no fair sample of it: the loss falls within
        return cls(k, means, in_epochs=True, complete=complete)


def _completes_epoch(epoch: float) -> bool:
    return epoch > math.ceil(epoch) - _NEARLY
