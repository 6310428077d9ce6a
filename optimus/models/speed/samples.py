"""Speed samples of one job, weighted and merged before a curve is fitted (Optimus, section 3.2).

Samples at the same counts and on the same class of node are repeats: they become one entry, their
weighted mean. A sample's weight is seconds / (seconds + 20): its noise falls with time, but runs
differ however long they are. It halves for every half hour that a newer repeat is younger; without
a newer repeat it stays. The noise of a run, 3 % a priori, is estimated from repeats; an entry's
weight in a fit is 1 / (form^2 + noise^2 / runs)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple, Self

import numpy as np

from optimus.jobs import Counts
from optimus.models import Vector
from optimus.progress.types import SpeedSample

SPEEDS: Final = (1e-12, 1e12)
"""Steps per second of any training; what lies outside is a mistake, and would overflow."""
_SETTLING_SECONDS: Final = 20.0
"""A sample of so many seconds weighs half as much as a very long one."""
_LEAST_SECONDS: Final = 2.0
"""A shorter sample covers only a line or two."""
_HALF_LIFE_SECONDS: Final = 1800.0
"""Three intervals: by then other jobs have come and gone, and a newer repeat is more accurate."""
_MAX_HALF_LIVES: Final = 50.0
"""Weights stay positive: the newest sample of an entry may be the shortest."""
_NOISE: Final = 0.03
_NOISE_REPEATS: Final = 4.0
"""Relative noise of a run a priori, and how many repeats that counts for."""
_FORM: Final = 0.03
"""Relative error of the curve itself: many repeats at few counts must not bend it to meet them."""


def mixed_kind(workers: Mapping[str, int]) -> str:
    """A sample's ``node_kind`` where its workers ran on several: ``a*3,b*1``, in order.

    The star, as no node label has one."""
    several = {kind: count for kind, count in workers.items() if count > 0}
    if len(several) == 1:
        return next(iter(several))
    return ",".join(f"{kind}*{count}" for kind, count in sorted(several.items()))


class LatestSpeed(NamedTuple):
    """The speed at some counts, and the class of node that it is of."""

    steps_per_second: float
    node_kind: str


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Samples merged by counts and class of node: arrays of one length, in the order of counts."""

    counts: tuple[Counts, ...]
    kinds: tuple[str, ...]
    steps_per_second: Vector
    runs: Vector
    """How many long, recent runs an entry is worth."""
    latest: Vector
    """When an entry's newest sample ended, seconds since the epoch, UTC."""
    noise: float
    """Relative standard deviation of one such run."""

    @classmethod
    def of(cls, samples: Iterable[SpeedSample]) -> Self:
        """Merge repeats, without failed runs (a speed of 0) and those shorter than 2 seconds."""
        low, high = SPEEDS
        good = [
            each
            for each in samples
            if low <= each.steps_per_second <= high and each.seconds >= _LEAST_SECONDS
        ]
        good.sort(key=_entry_key)
        entries = [_Entry.of(list(repeats)) for _, repeats in groupby(good, key=_entry_key)]
        freedom = sum(entry.runs * (1 - 1 / entry.repeats) for entry in entries)
        scatter = sum(entry.scatter for entry in entries)
        noise = np.sqrt((_NOISE_REPEATS * _NOISE**2 + scatter) / (_NOISE_REPEATS + freedom))
        return cls(
            tuple(entry.first.counts for entry in entries),
            tuple(entry.first.node_kind for entry in entries),
            np.array([entry.mean for entry in entries], dtype=np.float64),
            np.array([entry.runs for entry in entries], dtype=np.float64),
            np.array([entry.latest for entry in entries], dtype=np.float64),
            float(noise),
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
        return self.noise**2 / self.runs

    @property
    def fit_weights(self) -> Vector:
        """Each entry's weight in a fit: 1 for one long run of the usual noise, always below 2."""
        return (_FORM**2 + _NOISE**2) / (_FORM**2 + self.variance)

    def latest_at(self, counts: Counts, kind: str | None = None) -> LatestSpeed | None:
        """What was measured at these counts, if anything.

        On this ``kind`` of node if measured on it, else on the one where it was measured last."""
        here = [index for index, each in enumerate(self.counts) if each == counts]
        if not here:
            return None
        best = max(here, key=lambda index: (self.kinds[index] == kind, self.latest[index]))
        return LatestSpeed(float(self.steps_per_second[best]), self.kinds[best])


class _Entry(NamedTuple):
    """The repeats of one entry."""

    first: SpeedSample
    mean: float
    runs: float
    repeats: int
    scatter: float
    """The weighted sum of squared relative distances from the mean."""
    latest: float

    @classmethod
    def of(cls, samples: Sequence[SpeedSample]) -> Self:
        latest = max(sample.at for sample in samples)
        weights = [_weight(sample, latest) for sample in samples]
        total = sum(weights)
        if len(samples) == 1:
            return cls(samples[0], samples[0].steps_per_second, total, 1, 0.0, latest)
        pairs = list(zip(weights, samples, strict=True))
        # Parts of the whole first: a sum of speeds may overflow where none of them does.
        mean = sum(weight / total * each.steps_per_second for weight, each in pairs)
        scatter = sum(weight * (each.steps_per_second / mean - 1) ** 2 for weight, each in pairs)
        return cls(samples[0], mean, total, len(samples), scatter, latest)


def _entry_key(sample: SpeedSample) -> tuple[Counts, str]:
    return sample.counts, sample.node_kind


def _weight(sample: SpeedSample, latest: float) -> float:
    half_lives = min((latest - sample.at) / _HALF_LIFE_SECONDS, _MAX_HALF_LIVES)
    infinite = np.isinf(sample.seconds)
    steady = 1.0 if infinite else sample.seconds / (sample.seconds + _SETTLING_SECONDS)
    return float(steady * 0.5**half_lives)
