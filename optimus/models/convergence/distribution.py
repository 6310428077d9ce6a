"""When a goal is met: one distribution, from which every figure comes.

A run that does not meet its goal is over all the same, at its declared end, or without one when
runs usually are. Quantiles are those of the time at which the goal is met or the run over."""

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimus.models import Vector

_LOW, _HIGH = 0.1, 0.9
_SIGMAS: Final = np.linspace(-6.0, 6.0, 241)
_LATER: Final = np.geomspace(1.01, 20.0, 60)
_ROUNDING: Final = 1e-6
"""Of the epoch at which a probability is reached."""


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
    whole: bool = False
    """The goal is looked at after whole epochs alone, so that every quantile is one."""
    over: Vector | None = None
    """The probability that the run is over by each ``k``, (places,); where it is not known, a run
    that does not meet its goal is over at its declared end, or the last ``k``."""

    @classmethod
    def at(cls, k: float) -> "TimeToGoal":
        """The goal is met at k with certainty."""
        return cls(np.array([k]), np.array([1.0]))

    @classmethod
    def of(cls, k: Vector, parts: Vector, probability: float) -> "TimeToGoal":
        """From the place that is seen and those ahead, the weight of each of the latter, and the
        probability that the goal is met by the last of them."""
        shares = np.concatenate([[0.0], np.cumsum(parts)])
        return cls(k, shares / shares[-1] * probability)

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
        """Return whether the run rather ends without having met the goal."""
        return self.in_run < 0.5

    @property
    def is_late(self) -> bool:
        """Return whether there is no time by which the goal is met with a probability of 90 %."""
        return self.in_run < _HIGH

    @property
    def is_wide(self) -> bool:
        """Return whether only its lower bound says something: the end is not declared, and the
        upper bound is many times as far ahead."""
        seen = float(self.k[0])
        return self.end is None and self.high - seen > 8.0 * (self.low - seen)

    def quantile(self, probability: float) -> float:
        """Return when the goal is met, or the run over, with that probability."""
        over = self.cdf if self.over is None else self.over
        if probability > over[-1]:
            at = float(self.k[-1]) if self.end is None else self.end
        else:
            at = float(np.interp(probability, over, self.k))
        at = max(at, self.earliest)
        return at if not self.whole else min(math.ceil(at - _ROUNDING), self.end or math.inf)

    def probability_by(self, k: float) -> float:
        """The probability that the goal is met by k."""
        if self.whole and k < self.k[-1]:
            k = math.floor(k + _ROUNDING)
        return float(np.interp(k, self.k, self.cdf, left=0.0))

    def within(self, end: float) -> "TimeToGoal":
        """The same of a run that ends then."""
        before = self.k < end
        k, cdf = (
            np.append(self.k[before], end),
            np.append(self.cdf[before], self.probability_by(end)),
        )
        return TimeToGoal(k, cdf, end, min(self.earliest, end), self.whole)

    def mixed_with(self, other: "TimeToGoal") -> "TimeToGoal":
        """Half this one and half another of the runs that meet the goal within this one's end; how
        many do, this one says."""
        cut = other if self.end is None else other.within(self.end)
        if cut.in_run <= 0:
            return self
        k = np.union1d(self.k, cut.k)
        own, others = (np.interp(k, each.k, each.cdf, left=0.0) for each in (self, cut))
        cdf = (own + others * (self.in_run / cut.in_run)) / 2
        return TimeToGoal(k, cdf, self.end, self.earliest, self.whole)


class TotalPrior(NamedTuple):
    """What is known of the length of a run before its losses say more: the log of the epochs
    (steps) in which it meets its goal follows Student's distribution about ``log``."""

    log: float
    spread: float

    def density(self, k: Vector) -> Vector:
        """The density at k, but for a factor."""
        return np.asarray(student((np.log(k) - self.log) / self.spread)[1] / k, np.float64)

    @property
    def furthest(self) -> float:
        """Hardly any run is expected to take longer."""
        return math.exp(self.log + 3 * self.spread)

    def given(self, logs: Vector, spread: float, runs: float) -> "TotalPrior":
        """What is known of one more run of a group, by the logs of those that ended, (runs,).

        The runs are normal about the group's mean, and that about this prior's. Their ``spread`` a
        priori counts for so many ``runs``."""
        if not len(logs):
            return self
        squares = float(np.square(logs - logs.mean()).sum()) + runs * spread**2
        variance = squares / (runs + len(logs) - 1)
        of_mean = 1 / (len(logs) / variance + 1 / self.spread**2)
        log = of_mean * (float(logs.sum()) / variance + self.log / self.spread**2)
        return TotalPrior(log, math.sqrt(variance + of_mean))

    def after(self, done: float) -> TimeToGoal:
        """Return when a run meets its goal that has not met it after so much."""
        k = np.union1d(np.exp(self.log + self.spread * _SIGMAS), done * _LATER)
        k = np.concatenate([[done], k[k > done]])
        cdf = student((np.log(np.maximum(k, 1e-9)) - self.log) / self.spread)[0]
        cdf = (cdf - cdf[0]) / (1 - cdf[0])
        return TimeToGoal(k, cdf / cdf[-1], None, done)


def student(sigmas: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Student's distribution with 4 degrees of freedom, as some runs are unlike all others: the
    probability of at most so many standard deviations, and the density but for a factor."""
    scaled = 4 + sigmas**2
    part = sigmas / np.sqrt(scaled)
    return 0.5 + part * (0.75 - part**2 / 4), scaled**-2.5


NOTHING_KNOWN: Final = TotalPrior(0.0, math.inf)
"""The prior of a group's mean that any run of it replaces."""
USUAL_EPOCHS: Final = TotalPrior(math.log(60.0), 0.9)
"""Epochs of a run of which nothing is known: about 60, from 14 to 260 in four of five."""


def usual_steps(seen: float) -> TotalPrior:
    """Steps of such a run of which so many are seen: how long a step is, nobody knows."""
    return TotalPrior(math.log(2 * seen), USUAL_EPOCHS.spread)
