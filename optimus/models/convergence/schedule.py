"""The schedule of a run's learning rate and the run's end, as a program or its user declares them.

Sources: what the program prints at its top (``progress.types.Declared``), and the annotation
``optimus.dl/lr-schedule``. Shapes are the common ones: constant, drops by a factor after named
epochs, half a cosine, a line, a parabola; each after an optional linear warm-up. Only ratios of
rates matter to the models, so the rate is given as a part of its largest value."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np

from optimus.models import Vector
from optimus.progress.types import Declared

_USUAL_FACTOR: Final = 0.1
_NEEDED_RATES: Final = 5
_LEAST_WARMUP: Final = 0.5
_DISAGREES: Final = 0.6
"""Rates that have come to differ from the schedule by this factor contradict it."""


class DecayShape(StrEnum):
    """How the learning rate changes over a run, after its warm-up."""

    CONSTANT = "constant"
    STEP = "step"
    COSINE = "cosine"
    LINEAR = "linear"
    POLYNOMIAL = "poly"


_SHAPES: Final[Mapping[str, DecayShape]] = {
    **{each.value: each for each in DecayShape},
    "polynomial": DecayShape.POLYNOMIAL,
}


@dataclass(frozen=True, slots=True)
class LearningRateSchedule:
    """The learning rate over a run that ends after ``end`` epochs (steps)."""

    end: float
    shape: DecayShape = DecayShape.CONSTANT
    drops: tuple[float, ...] = ()
    """The epochs (steps) after which the rate is multiplied by ``factor``."""
    factor: float = _USUAL_FACTOR
    warmup: float = 0.0
    """How long the rate rises in a line from 0."""

    @classmethod
    def of(cls, declared: Declared, *, in_epochs: bool) -> "LearningRateSchedule | None":
        """In the unit in which the losses are known; ``None`` where no end is declared in it.

        A shape that is not known, or an exponential one without its factor, counts as constant."""
        end = declared.epochs if in_epochs else declared.steps
        if not end:
            return None
        shape = _SHAPES.get(declared.schedule or "", DecayShape.CONSTANT)
        warmup = (declared.warmup_epochs if in_epochs else declared.warmup_steps) or 0.0
        warmup = min(warmup or (declared.warmup_fraction or 0.0) * end, end / 2)
        if shape is not DecayShape.STEP or not in_epochs:  # drops are declared in epochs
            return cls(
                float(end),
                DecayShape.CONSTANT if shape is DecayShape.STEP else shape,
                warmup=warmup,
            )
        drops = tuple(sorted(each for each in declared.drops if each < end))
        factor = declared.drop_factor or _USUAL_FACTOR
        return cls(float(end), shape, drops, factor if factor < 1 else _USUAL_FACTOR, warmup)

    def seen_in(self, k: Vector, rates: Vector) -> "LearningRateSchedule":
        """This one, or where only its end is declared: the line, cosine or parabola down to that
        end that the rates printed after k epochs (steps) follow."""
        if self.shape is not DecayShape.CONSTANT or len(rates) < _NEEDED_RATES:
            return self
        peak = int(np.argmax(rates))
        # One that has hardly fallen shows no shape.
        if rates[-1] > 0.95 * rates[peak] or not rates[peak] > 0:
            return self
        warmup = float(k[peak]) if peak > 0 else 0.0
        for shape in (DecayShape.LINEAR, DecayShape.COSINE, DecayShape.POLYNOMIAL):
            found = replace(self, shape=shape, warmup=min(warmup, self.end / 2))
            expected = found.rate(k[peak:]) / found.rate(k[peak : peak + 1])
            # As parts of the largest.
            if np.abs(rates[peak:] / rates[peak] - expected).max() < 0.03:
                return found
        return self

    @property
    def varies(self) -> bool:
        """Return whether the rate changes at all."""
        return (
            self.shape not in (DecayShape.CONSTANT, DecayShape.STEP)
            or bool(self.drops)
            or self.warmup > 0
        )

    def rate(self, k: Vector) -> Vector:
        """The rate after k epochs (steps) as a part of its largest value, (places,)."""
        left = 1 - np.clip((k - self.warmup) / (self.end - self.warmup), 0.0, 1.0)
        match self.shape:
            case DecayShape.STEP:
                passed = np.searchsorted(np.array(self.drops), k, side="left")
                rate = self.factor ** passed.astype(np.float64)
            case DecayShape.COSINE:
                rate = (1 - np.cos(np.pi * left)) / 2
            case DecayShape.LINEAR:
                rate = left
            case DecayShape.POLYNOMIAL:
                rate = left**2
            case DecayShape.CONSTANT:
                rate = np.ones_like(left)
        if self.warmup > 0:
            rising = np.maximum(k, _LEAST_WARMUP) / max(self.warmup, _LEAST_WARMUP)
            rate = np.where(k < self.warmup, np.minimum(rising, 1.0), rate)
        # Cosines and lines end at 0; one this far below its largest changes the loss no more.
        return np.asarray(np.maximum(rate, 1e-4), dtype=np.float64)

    def followed_rate(self, k: Vector, lag: float) -> Vector:
        """The rate as a loss follows it, (places,): of each drop the part (1 + n / 0.2)^-lag is
        still to come n epochs after it; with a lag of infinity none.

        Only drops are followed late: other shapes change slowly."""
        rate = self.rate(k)
        if self.shape is not DecayShape.STEP or not self.drops or math.isinf(lag):
            return rate
        since = np.maximum(k - np.array(self.drops)[:, np.newaxis], 0.0)
        # The loss has begun to follow a drop within the first epoch.
        done = 1 - (1 + since / 0.2) ** -lag
        falls = self.factor ** np.arange(len(self.drops)) * (1 - self.factor)
        return np.asarray(np.where(k > self.drops[0], 1 - falls @ done, rate), dtype=np.float64)

    def last_drop(self, k: float) -> float:
        """Return where the rate dropped last before k; 0 where it did not."""
        return max((each for each in self.drops if each < k), default=0.0)

    def log_dropped(self, since: float, k: Vector) -> Vector:
        """The log of the rate after k epochs (steps) as a part of that after ``since``, by the
        drops alone, (places,)."""
        passed = np.searchsorted(np.array([*self.drops, math.inf]), [since, *k], side="left")
        return np.asarray((passed[1:] - passed[0]) * math.log(self.factor), dtype=np.float64)

    def agrees(self, k: Vector, rates: Vector) -> bool:
        """Whether the rates printed after k epochs (steps) are those of this schedule by now.

        They may jitter: the last five count, against all."""
        factors = rates / self.rate(k)
        usual = float(np.median(factors))
        now = float(np.median(factors[-_NEEDED_RATES:]))
        return _DISAGREES * usual <= now <= usual / _DISAGREES
