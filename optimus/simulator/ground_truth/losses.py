"""How the training loss of the nine job types really falls: nine courses, of which one is the
paper's hyperbola.

The others are what losses of such models do and the paper's curve does not: fall exponentially, as
a power other than 1/k, as a stretched exponential, in two paces, slowly with the logarithm of time,
late as classes come apart, after a plateau, or once more where the learning rate drops. A loss is
that of the whole epoch that ends after k epochs."""

from dataclasses import dataclass
from math import exp, log
from typing import Protocol


class Course(Protocol):
    """A falling part of a loss: 1 at the start of training, towards 0."""

    def left(self, epochs: float, /) -> float:
        """What is left of the part that falls after so many epochs."""
        ...


@dataclass(frozen=True, slots=True)
class FallingLoss:
    """Implements ``optimus.simulator.jobs.TrueLoss``:
    ``floor + (first - floor) * what is left``."""

    first: float
    """The loss before training: that of guessing, for classes the logarithm of their number."""

    floor: float
    course: Course

    def after(self, epochs: float) -> float:
        """The mean loss of the epoch that ends after so many epochs."""
        middle = max(epochs - 0.5, 0.0)
        return self.floor + (self.first - self.floor) * self.course.left(middle)


@dataclass(frozen=True, slots=True)
class Power:
    """(1 + k / pace) ** -exponent; the exponent 1 is the paper's hyperbola."""

    pace: float
    exponent: float

    def left(self, epochs: float) -> float:
        """The part left after so many epochs."""
        return float((1 + epochs / self.pace) ** -self.exponent)


@dataclass(frozen=True, slots=True)
class Stretched:
    """exp(-(k / pace) ** exponent); the exponent 1 is the plain exponential."""

    pace: float
    exponent: float

    def left(self, epochs: float) -> float:
        """The part left after so many epochs."""
        return exp(-float((epochs / self.pace) ** self.exponent))


@dataclass(frozen=True, slots=True)
class TwoPaces:
    """A part of the loss falls quickly, the rest slowly, each exponentially."""

    quick_part: float
    quick_pace: float
    slow_pace: float

    def left(self, epochs: float) -> float:
        """The part left after so many epochs."""
        quick = self.quick_part * exp(-epochs / self.quick_pace)
        return quick + (1 - self.quick_part) * exp(-epochs / self.slow_pace)


@dataclass(frozen=True, slots=True)
class Logarithmic:
    """1 / (1 + log(1 + k / pace)): quick at first, and never quite done."""

    pace: float

    def left(self, epochs: float) -> float:
        """The part left after so many epochs."""
        return 1 / (1 + log(1 + epochs / self.pace))


@dataclass(frozen=True, slots=True)
class Late:
    """A logistic fall: slow, then quick about ``middle``, then slow."""

    middle: float
    pace: float

    def left(self, epochs: float) -> float:
        """The part left after so many epochs."""
        return (1 + exp(-self.middle / self.pace)) / (1 + exp((epochs - self.middle) / self.pace))


@dataclass(frozen=True, slots=True)
class Plateau:
    """Nothing but a slow slide for some epochs, then the course that follows."""

    epochs: float
    falls_to: float
    then: Course

    def left(self, epochs: float) -> float:
        """The part left after so many epochs."""
        slide = 1 - (1 - self.falls_to) * min(epochs / self.epochs, 1.0)
        return slide * (self.then.left(epochs - self.epochs) if epochs > self.epochs else 1.0)


@dataclass(frozen=True, slots=True)
class RateDrop:
    """One course towards a level, and from the epoch at which the learning rate drops another one
    from there."""

    first: Course
    level: float
    at: float
    then: Course

    def left(self, epochs: float) -> float:
        """The part left after so many epochs."""
        before = self.level + (1 - self.level) * self.first.left(min(epochs, self.at))
        return before * (self.then.left(epochs - self.at) if epochs > self.at else 1.0)
