"""What is known of the course after a drop of the learning rate from before it: the slow descent
goes on, slowed.

Right after a drop the loss falls fast for a few epochs, as the noise of the steps does, and a
handful of points shows only that. What follows is the same descent in steps that are smaller: the
slope of the log of the loss, times the ratio of the rates. Where the ratio is unknown, it is taken
as that of common schedules (0.1 to 0.2), less certain."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from optimus.models.nnls import Matrix, Vector

_LOOK_BACK: Final = 12
_TRANSIENT: Final = 3
_NEEDED: Final = 4
_SPREAD: Final = 0.5
"""Standard deviation of the logarithm of what the slope becomes, where the ratio of the rates is
known."""
_USUAL_RATIO: Final = 0.13
_RATIO_SPREAD: Final = 0.3
_MOST_SPREAD: Final = 2.0
_NODES: Final = np.array([-1.5, -0.9, -0.45, 0.0, 0.45, 0.9, 1.5])
_LEVELS: Final = np.array([-1.22, 0.0, 1.22])


@dataclass(frozen=True, slots=True, eq=False)
class SteadyDescent:
    """A steady fall of the log of the loss: its slopes for each epoch with their weights, and the
    levels now."""

    slopes: Vector
    slope_weights: Vector
    levels: Vector
    level_weights: Vector

    @classmethod
    def of(
        cls, log_before: Vector, log_since: Vector, ratio: float | None, noise: float
    ) -> "SteadyDescent | None":
        """From the logs of the losses before the drop (as far as the drop before it) and since;
        ``None``: too few."""
        recent = log_before[max(len(log_before) - _LOOK_BACK, min(_TRANSIENT, len(log_before))) :]
        if len(recent) < _NEEDED:
            return None
        slope, error = _slope(recent)
        slope = max(slope, error / 2, 1e-9)
        spread = np.sqrt(
            _SPREAD**2 + min(error / slope, _MOST_SPREAD) ** 2 + (0 if ratio else _RATIO_SPREAD**2)
        )
        slopes = slope * (ratio or _USUAL_RATIO) * np.exp(_NODES * spread)
        weights = np.exp(-(_NODES**2) / 2)
        last = log_since[-_TRANSIENT:]
        levels = float(last.mean()) + _LEVELS * noise / np.sqrt(len(last))
        return cls(slopes, weights / weights.sum(), levels, np.array([0.25, 0.5, 0.25]))

    def log_course(self, ahead: Vector) -> tuple[Matrix, Vector]:
        """The log of the loss so many epochs ahead (places,) in each case: (cases, places) and the
        cases' weights."""
        # The level is the mean of the last three epochs: it lies one before the last of them.
        course = self.levels[:, np.newaxis, np.newaxis] - self.slopes[:, np.newaxis] * (ahead + 1)
        weights = self.level_weights[:, np.newaxis] * self.slope_weights
        return course.reshape(-1, len(ahead)), weights.ravel()


def _slope(log_loss: Vector) -> tuple[float, float]:
    """The fall for each epoch by least squares, and its standard error."""
    at = np.arange(len(log_loss)) - (len(log_loss) - 1) / 2
    slope = -float(at @ log_loss) / float(at @ at)
    residuals = log_loss - log_loss.mean() + slope * at
    return slope, float(np.sqrt(residuals @ residuals / max(len(log_loss) - 2, 1) / (at @ at)))
