"""The paper's loss curve as published: Optimus, section 3.1, equation 1, l = 1/(b0 k + b1) + b2.

1. After a drop of the learning rate training counts as a new job: only the points since then.
2. Outliers are replaced by the mean of their neighbours, losses divided by the largest.
3. For a fixed b2 the equation is linear, 1/(l - b2) = b0 k + b1: non-negative least squares of two
   coefficients with weights (l - b2)^2, which make its residuals nearly those of l.
4. b2 minimises the residuals of l itself: a grid over [0, smallest loss), then finer ones.

It is kept as the baseline of the product's own model (module ``curve``)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus.errors import NotReady
from optimus.jobs import ConvergenceThreshold, LossGoal, TargetLoss
from optimus.models import Vector
from optimus.models.convergence.curve import NO_EPOCHS
from optimus.models.convergence.distribution import TimeToGoal, TotalPrior
from optimus.models.convergence.schedule import LearningRateSchedule
from optimus.models.convergence.series import QUIET_EPOCHS, since_last_drop
from optimus.progress.types import LossPoint

_NEIGHBOURS: Final = 5
_GRID: Final = 61


class Coefficients(NamedTuple):
    """b0, b1 and b2 of equation 1."""

    b0: float
    b1: float
    b2: float


@dataclass(frozen=True, slots=True)
class PublishedCurve:
    """A fitted loss curve; k counts epochs, or steps where epochs are unknown."""

    b0: float
    b1: float
    b2: float
    largest: float
    """The largest loss, by which all are divided."""
    seen: float
    """The k up to which the losses are known."""
    in_epochs: bool
    points: int
    error: float
    """Root mean square of the residuals."""
    start: float = 0.0
    """The k from which the curve counts: 0, or where the learning rate dropped last."""

    @classmethod
    def fit(
        cls, points: Sequence[LossPoint], _schedule: LearningRateSchedule | None = None
    ) -> "PublishedCurve | NotReady":
        """Fit to losses in training order; not ready with fewer than 5 points (or epochs).

        The paper knows of no schedule."""
        segment = since_last_drop(points)
        if isinstance(segment, NotReady):
            return segment
        series, whole, first = segment
        loss, largest = without_outliers(series.loss), float(whole.loss.max())
        start = float(series.k[0]) - series.spacing if first else 0.0
        # Of much smaller ones the fourth powers would underflow.
        best = fit_hyperbola(series.k - start, np.maximum(loss / largest, 1e-12))
        curve = cls(*best, largest, float(series.k[-1]), series.in_epochs, len(loss), 0.0, start)
        # As parts of the largest: squares of the losses of a diverged training would overflow.
        residuals = (curve.predict(series.k) - loss) / largest
        return replace(curve, error=largest * float(np.sqrt(np.mean(residuals**2))))

    def predict(self, k: ArrayLike) -> NDArray[np.float64]:
        """The loss after k epochs (steps, where epochs are unknown)."""
        at = self.b0 * (np.asarray(k, dtype=np.float64) - self.start) + self.b1
        with np.errstate(divide="ignore"):
            return np.asarray(self.largest * (1 / at + self.b2), dtype=np.float64)

    def until(self, goal: LossGoal, _prior: TotalPrior | None = None) -> TimeToGoal | NotReady:
        """Return when the curve meets the goal, from the start of training; may lie in the past.

        The paper has no prior."""
        k = self._until_target(goal) if isinstance(goal, TargetLoss) else self._until_quiet(goal)
        if isinstance(k, NotReady):
            return k
        if k > 100 * max(self.seen, 1.0):
            unit = "epochs" if self.in_epochs else "steps"
            return NotReady(
                f"the goal is not reachable at this rate: it would take some {k:.3g} {unit}"
            )
        return TimeToGoal.at(k)

    def _until_target(self, goal: TargetLoss) -> float | NotReady:
        above_floor = goal.loss / self.largest - self.b2
        if above_floor <= 0 or self.b0 <= 0:
            floor = self.largest * self.b2 if self.b0 > 0 else float(self.predict(self.seen))
            return NotReady(
                f"a loss of {goal.loss:g} is not reachable at this rate: the curve levels off "
                f"near {floor:.4g}"
            )
        return self.start + max((1 / above_floor - self.b1) / self.b0, 0.0)

    def _until_quiet(self, goal: ConvergenceThreshold) -> float | NotReady:
        if not self.in_epochs:
            return NO_EPOCHS
        if self.b0 <= 0:
            return self.seen
        # The fall from k to k+1 is b0 / (u (u + b0)) with u = b0 k + b1; it is the threshold at
        # this u.
        u = (math.sqrt(self.b0**2 + 4 * self.b0 / goal.fraction) - self.b0) / 2
        return self.start + max((u - self.b1) / self.b0, 0.0) + QUIET_EPOCHS


def without_outliers(loss: Vector) -> Vector:
    """Replace each loss below all of the next 5 or above all of the last 5 by its neighbours' mean.

    The paper's rule; the first and the last point are left as they are."""
    cleaned = loss.copy()
    for n in range(1, len(loss) - 1):
        following = loss[n + 1 : n + 1 + _NEIGHBOURS]
        before = loss[max(n - _NEIGHBOURS, 0) : n]
        if not following.min() <= loss[n] <= before.max():
            cleaned[n] = (loss[n - 1] + loss[n + 1]) / 2
    return cleaned


def fit_hyperbola(k: Vector, loss: Vector) -> Coefficients:
    """Equation 1 by least squares on the loss > 0, coefficients >= 0; arrays (points,)."""
    unit = float(np.abs(k).max()) or 1.0
    k = k / unit
    low, high = 0.0, float(loss.min()) * (1 - 1e-9)
    floors = np.linspace(low, high, _GRID)
    best, least = Coefficients(0.0, 1.0, 0.0), math.inf
    for _ in range(9):
        b0, b1, cost = _fit_floors(k, loss, floors)
        n = int(np.argmin(cost))
        if cost[n] <= least:
            best = Coefficients(float(b0[n]) / unit, float(b1[n]), float(floors[n]))
            least = float(cost[n])
        step = floors[1] - floors[0]
        floors = np.linspace(max(floors[n] - step, low), min(floors[n] + step, high), _GRID)
    return best


def _fit_floors(k: Vector, loss: Vector, floors: Vector) -> tuple[Vector, Vector, Vector]:
    """For each b2 in ``floors``: b0 and b1 >= 0 in closed form, and the squared error of the loss.

    The weighted residuals of the linear problem would not do: their weights vanish as b2 nears the
    smallest loss."""
    above = loss[np.newaxis, :] - floors[:, np.newaxis]
    weights, target = above**4, 1 / above
    w = weights.sum(axis=1)
    mean_k, mean_y = weights @ k / w, (weights * target).sum(axis=1) / w
    # About the means: the plain normal equations cancel where the losses span powers of ten.
    off = k[np.newaxis, :] - mean_k[:, np.newaxis]
    with np.errstate(divide="ignore", invalid="ignore"):
        covariance = (weights * off * (target - mean_y[:, np.newaxis])).sum(axis=1)
        b0 = covariance / (weights * off**2).sum(axis=1)
        b1 = mean_y - b0 * mean_k
        through_origin = b1 < 0
        b0 = np.where(through_origin, (weights * target) @ k / (weights @ k**2), b0)
        b1 = np.where(through_origin, 0.0, b1)
    flat = ~(b0 > 0)
    b0, b1 = np.where(flat, 0.0, b0), np.where(flat, mean_y, b1)
    predicted = 1 / (b0[:, np.newaxis] * k + b1[:, np.newaxis])
    return b0, b1, np.sum((predicted - above) ** 2, axis=1)
