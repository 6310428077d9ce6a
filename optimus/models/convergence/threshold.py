"""What the rule for a convergence threshold asks of the epochs ahead (``models.goals``).

A forecast follows the rule by which the goal is met: quiet epochs alone do not meet it. The loss
has fallen far enough from its start, is near its lowest, has become flatter than the descent so
far, and the plateau is no mere stage of the learning rate's schedule."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimus.models import Matrix, Vector
from optimus.models.convergence.series import (
    FLATTER,
    LossSeries,
    needed_fall,
    needed_plateau,
    plateau_epochs,
)
from optimus.progress.types import LossPoint


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdRule:
    """The losses so far, as far as the rule depends on them."""

    series: LossSeries
    points: tuple[LossPoint, ...]

    @classmethod
    def of(cls, points: Sequence[LossPoint], series: LossSeries) -> "ThresholdRule":
        """Of losses in training order, and their epochs' means."""
        return cls(series, tuple(points))

    def may_hold(
        self, fraction: float, k: Vector, losses: Matrix, falls: Matrix
    ) -> NDArray[np.bool_]:
        """Whether each course can meet the threshold after k epochs, (courses, places).

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
