"""The true loss curves of the nine job types; one is the paper's hyperbola.

The others do what real losses do and the paper's curve does not: exponentials, powers other than
1/k, stretched exponentials, two rates, logarithmic, logistic, after a plateau, or again where the
learning rate drops. A loss is the mean over the epoch that ends after k epochs."""

from dataclasses import dataclass
from functools import partial
from math import exp, log

Course = partial[float]
"""One of the functions below without ``k``: the part left of the loss that falls, from 1 to 0."""


@dataclass(frozen=True, slots=True)
class FallingLoss:
    """``floor + (first - floor) * course``; implements ``optimus.simulator.jobs.TrueLoss``."""

    first: float
    """The loss before training: for a classifier the logarithm of the number of classes."""
    floor: float
    course: Course

    def after(self, epochs: float) -> float:
        """The mean loss of the epoch that ends after so many epochs."""
        return self.floor + (self.first - self.floor) * self.course(max(epochs - 0.5, 0.0))


def power(scale: float, exponent: float, k: float) -> float:
    """(1 + k / scale) ** -exponent; the exponent 1 is the paper's hyperbola."""
    return float((1 + k / scale) ** -exponent)


def stretched(scale: float, exponent: float, k: float) -> float:
    """exp(-(k / scale) ** exponent); the exponent 1 is the plain exponential."""
    return exp(-float((k / scale) ** exponent))


def two_rates(fast_part: float, fast_scale: float, slow_scale: float, k: float) -> float:
    """The sum of a fast and a slow exponential."""
    return fast_part * exp(-k / fast_scale) + (1 - fast_part) * exp(-k / slow_scale)


def logarithmic(scale: float, k: float) -> float:
    """1 / (1 + log(1 + k / scale)): fast at first, with a long tail."""
    return 1 / (1 + log(1 + k / scale))


def logistic(middle: float, scale: float, k: float) -> float:
    """A logistic fall: steepest at ``middle``."""
    return (1 + exp(-middle / scale)) / (1 + exp((k - middle) / scale))


def plateau(epochs: float, falls_to: float, then: Course, k: float) -> float:
    """A linear fall to ``falls_to`` for some epochs, then the course that follows."""
    fallen = 1 - (1 - falls_to) * min(k / epochs, 1.0)
    return fallen * (then(k - epochs) if k > epochs else 1.0)


def rate_drop(first: Course, level: float, at: float, then: Course, k: float) -> float:
    """One course towards a level, then another from the epoch at which the learning rate drops."""
    before = level + (1 - level) * first(min(k, at))
    return before * (then(k - at) if k > at else 1.0)
