"""When a goal is met: a distribution over epochs (steps), with a point, an interval and the chance
by any epoch.

The fitted laws say with which chance the goal is met by each k, if training goes on. That is
blurred, since no law holds exactly and its misses grow with the distance, and moved somewhat away,
since most misses are of being late. Whoever sets a goal expects the run to meet it, and a run of
which k epochs are seen lasts to epoch n with the density k / n^2 (one looks at it at any moment:
Gott 1993): the point and the interval are taken under that weight, the chance to meet the goal by a
given k is not."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from optimus.models.nnls import Vector

BLUR: Final = 0.4
"""Standard deviation of the logarithm of the time ahead, about what the laws say."""
SLOWER: Final = 0.25
"""Training slows down more often than any law says: the time ahead is longer by this, in its
logarithm."""
_LOOK: Final = 2.0
"""The weight of meeting the goal at k falls with this power of k."""
_LOW, _HIGH = 0.1, 0.9
_NEVER: Final = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class TimeToGoal:
    """When a goal is met, counted from the start of training.

    ``point`` is the median, ``low`` and ``high`` bound 80 %. ``chance`` is the probability that the
    goal is met by each ``k``, both (places,) and rising, if training goes on as it does; ``in_run``
    that it is met before the run ends, as long as runs last.
    """

    point: float
    low: float
    high: float
    k: Vector
    chance: Vector
    in_run: float

    @classmethod
    def at(cls, k: float) -> "TimeToGoal":
        """The goal is met at k for certain."""
        return cls(k, k, k, np.array([k]), np.array([1.0]), 1.0)

    @classmethod
    def of(cls, seen: float, ahead: Vector, chance: Vector, least: float) -> "TimeToGoal | None":
        """From the chance at so far ``ahead`` of what is ``seen``, evenly in logarithms; ``None``:
        it is never met.

        No goal that is not met yet is met sooner than ``least`` ahead.
        """
        chance = _blurred(ahead, chance)
        k = seen + ahead
        lasts = seen / k
        parts = np.diff(chance, prepend=0.0) * lasts
        in_run = float(parts.sum())
        parts *= lasts ** (_LOOK - 1)
        if parts.sum() < _NEVER:
            return None
        share = np.concatenate([[0.0], np.cumsum(parts) / parts.sum()]) + _NEVER * np.arange(
            len(k) + 1
        )
        places = np.concatenate([[seen], k])
        low, point, high = np.maximum(np.interp([_LOW, 0.5, _HIGH], share, places), seen + least)
        return cls(float(point), float(low), float(high), k, chance, in_run)

    def probability_by(self, k: float) -> float:
        """The chance that the goal is met by k, if training goes on until then."""
        return float(np.interp(k, self.k, self.chance, left=0.0))


def _blurred(ahead: Vector, chance: Vector) -> Vector:
    """The chance where the logarithm of the time ahead is off by a normal error about
    ``SLOWER``."""
    step = float(np.log(ahead[1] / ahead[0]))
    reach = int(np.ceil((3 * BLUR + SLOWER) / step))
    weights = np.exp(-(((np.arange(-reach, reach + 1) * step - SLOWER) / BLUR) ** 2) / 2)
    padded = np.concatenate([np.full(reach, chance[0]), chance, np.full(reach, chance[-1])])
    return np.convolve(padded, weights / weights.sum(), "valid")
