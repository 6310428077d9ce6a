"""What the speed samples of one job are worth, before a curve is fitted to them (Optimus, section
3.2).

Samples at the same counts and on the same kind of node are repeats: they become one entry, their
weighted mean. A sample weighs seconds / (seconds + 20): its noise falls with time, but runs differ
however long they are. It weighs half as much for every half hour that a newer repeat is younger; a
sample that nothing newer contradicts keeps its weight. The noise of a run, 3 % at first, is
estimated from repeats; an entry is worth 1 / (form^2 + noise^2 / weight)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple, Self

import numpy as np

from optimus.jobs import Counts
from optimus.models.nnls import Vector
from optimus.progress.types import SpeedSample

_SETTLING_SECONDS: Final = 20.0
"""A sample of so many seconds weighs half as much as a very long one."""
SPEEDS: Final = (1e-12, 1e12)
"""Steps per second of any training; what lies outside is a mistake, and would overwhelm the
arithmetic."""
_LEAST_SECONDS: Final = 2.0
"""A shorter sample is a line or two, which says nothing yet."""
_HALF_LIFE_SECONDS: Final = 1800.0
"""Three intervals: by then neighbours have come and gone, and a newer repeat tells more."""
_NOISE: Final = 0.03
_NOISE_REPEATS: Final = 4.0
"""Relative noise of a run, and how many repeats this guess is worth against those that were
measured."""
_FORM: Final = 0.03
"""Relative error of the curve itself: many repeats at few counts must not bend it to meet them."""


class Newest(NamedTuple):
    """The speed at some counts, and the kind of node that it is of."""

    steps_per_second: float
    node_kind: str


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Samples of speed put together by counts and kind of node: arrays of one length, in the order
    of the counts.

    ``weight`` is how many long runs of today stand behind an entry; ``noise`` the relative standard
    deviation of one such run; ``latest`` when the newest sample of the entry ended (seconds since
    the epoch, UTC)."""

    counts: tuple[Counts, ...]
    kinds: tuple[str, ...]
    steps_per_second: Vector
    weight: Vector
    latest: Vector
    noise: float

    @classmethod
    def of(cls, samples: Iterable[SpeedSample]) -> Self:
        """Put repeats together. A speed of 0 is a failed run and left out, as is what took less
        than 2 seconds."""
        low, high = SPEEDS
        good = [
            each
            for each in samples
            if low <= each.steps_per_second <= high and each.seconds >= _LEAST_SECONDS
        ]
        good.sort(key=_entry)
        entries = [_Repeats.of(list(repeats)) for _, repeats in groupby(good, key=_entry)]
        freedom = sum(entry.weight * (1 - 1 / len(entry.weights)) for entry in entries)
        scatter = sum(entry.scatter for entry in entries)
        return cls(
            tuple(entry.first.counts for entry in entries),
            tuple(entry.first.node_kind for entry in entries),
            np.array([entry.mean for entry in entries], dtype=np.float64),
            np.array([entry.weight for entry in entries], dtype=np.float64),
            np.array([entry.latest for entry in entries], dtype=np.float64),
            float(np.sqrt((_NOISE_REPEATS * _NOISE**2 + scatter) / (_NOISE_REPEATS + freedom))),
        )

    @property
    def ps(self) -> Vector:
        """PSs of each entry."""
        return np.array([counts.ps for counts in self.counts], dtype=np.float64)

    @property
    def workers(self) -> Vector:
        """Workers of each entry."""
        return np.array([counts.workers for counts in self.counts], dtype=np.float64)

    @property
    def variance(self) -> Vector:
        """Relative variance of each entry's mean, as far as runs differ from one another."""
        return self.noise**2 / self.weight

    @property
    def worth(self) -> Vector:
        """What each entry counts in a fit: 1 for one long run of the usual noise, less than 2 for
        any number."""
        return (_FORM**2 + _NOISE**2) / (_FORM**2 + self.variance)

    def newest_at(self, counts: Counts, kind: str | None = None) -> "Newest | None":
        """What was measured at these counts; ``None`` if nothing was.

        On this ``kind`` of node, where it was measured on that; else on the kind where it was
        measured last."""
        here = [index for index, each in enumerate(self.counts) if each == counts]
        if not here:
            return None
        newest = max(here, key=lambda index: (self.kinds[index] == kind, self.latest[index]))
        return Newest(float(self.steps_per_second[newest]), self.kinds[newest])


@dataclass(frozen=True, slots=True, eq=False)
class _Repeats:
    """The samples of one entry; ``scatter`` is the sum of their squared relative distances from the
    mean."""

    first: SpeedSample
    mean: float
    weights: Sequence[float]
    scatter: float
    latest: float

    @classmethod
    def of(cls, samples: Sequence[SpeedSample]) -> Self:
        if len(samples) == 1:
            return cls(
                samples[0],
                samples[0].steps_per_second,
                [_weight(samples[0], samples[0].at)],
                0.0,
                samples[0].at,
            )
        latest = max(sample.at for sample in samples)
        weights = [_weight(sample, latest) for sample in samples]
        total = sum(weights)
        # Parts of the whole first: a sum of speeds may overflow where none of them does.
        mean = sum(
            weight / total * each.steps_per_second
            for weight, each in zip(weights, samples, strict=True)
        )
        apart = [each.steps_per_second / mean - 1 for each in samples]
        scatter = sum(weight * error**2 for weight, error in zip(weights, apart, strict=True))
        return cls(samples[0], mean, weights, scatter, latest)

    @property
    def weight(self) -> float:
        return sum(self.weights)


def _entry(sample: SpeedSample) -> tuple[Counts, str]:
    return sample.counts, sample.node_kind


def _weight(sample: SpeedSample, latest: float) -> float:
    # Never nothing at all: the newest sample of an entry may be the shortest.
    age = min((latest - sample.at) / _HALF_LIFE_SECONDS, 50.0)
    steady = (
        1.0 if np.isinf(sample.seconds) else sample.seconds / (sample.seconds + _SETTLING_SECONDS)
    )
    return float(steady * 0.5**age)
