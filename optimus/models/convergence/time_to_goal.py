"""When a goal is met: one distribution, with its mass beyond the end of the run.

Median, interval, probability and deadline are all read from it, so that none contradicts another. A
quantile that lies beyond the declared end is the end: the run is over then, whether its goal is met
or not. Without a declared end it is the furthest place that the model looks at.

Users set targets that they expect their runs to meet before the end that they declare: before any
loss is seen, the odds are 29 to 1 (``expected``). The model's own probability, which knows nothing
of that, multiplies them by its odds."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from optimus.models import Vector

_EXPECTED_ODDS: Final = 29.0
_LOW, _HIGH = 0.1, 0.9


@dataclass(frozen=True, slots=True, eq=False)
class TimeToGoal:
    """When a goal is met, as a distribution over epochs (steps) from the start of training."""

    k: Vector
    cdf: Vector
    """The probability that the goal is met by each ``k``, both (places,), rising; the last is that
    of meeting it at all before the run ends."""
    end: float | None = None
    """The declared end of the run."""
    earliest: float = 0.0
    """No quantile is before it: the next check of a goal that is not met yet."""

    @classmethod
    def at(cls, k: float) -> "TimeToGoal":
        """The goal is met at k with certainty."""
        return cls(np.array([k]), np.array([1.0]))

    @classmethod
    def of(
        cls, k: Vector, parts: Vector, probability: float, earliest: float, end: float | None = None
    ) -> "TimeToGoal":
        """From the place that is seen and those ahead, the weight of each of the latter, and the
        probability that the goal is met by the last of them."""
        shares = np.concatenate([[0.0], np.cumsum(parts)])
        return cls(k, shares / shares[-1] * probability, end, earliest)

    @property
    def point(self) -> float:
        """The median; ``low`` and ``high`` bound 80 %."""
        return self.quantile(0.5)

    @property
    def low(self) -> float:
        """The lower bound of the 80 % interval."""
        return self.quantile(_LOW)

    @property
    def high(self) -> float:
        """The upper bound of the 80 % interval."""
        return self.quantile(_HIGH)

    @property
    def in_run(self) -> float:
        """The probability that the goal is met before the run ends."""
        return float(self.cdf[-1])

    @property
    def is_unlikely(self) -> bool:
        """Whether the run rather ends without having met the goal."""
        return self.in_run < 0.5

    @property
    def is_late(self) -> bool:
        """Whether there is no time by which the goal is met with a probability of 90 %."""
        return self.in_run < _HIGH

    def quantile(self, probability: float) -> float:
        """When the goal is met, or the run over, with that probability."""
        if probability > self.in_run:
            at = float(self.k[-1]) if self.end is None else self.end
        else:
            at = float(np.interp(probability, self.cdf, self.k))
        return max(at, self.earliest)

    def if_met(self, probability: float) -> float:
        """The same of the runs that meet the goal."""
        return self.quantile(probability * self.in_run)

    def probability_by(self, k: float) -> float:
        """The probability that the goal is met by k."""
        return float(np.interp(k, self.k, self.cdf, left=0.0))


def expected(probability: float) -> float:
    """The probability that a target is met, of a user who expects that."""
    odds = _EXPECTED_ODDS * probability
    return odds / (odds + max(1.0 - probability, 0.0)) if odds > 0 else 0.0
