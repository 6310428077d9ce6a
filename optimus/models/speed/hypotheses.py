"""The speed of a job that was measured at few counts: the mean over hypotheses.

A fit needs three pairs of counts (``model``). With one or two, every hypothesis says where the time
of a step goes with one PS and one worker, in the terms of Optimus, section 3.2 (eq 3 and 4):
computing, which is split among the workers where they share a batch; constant work; transfer; what
each further worker and each further PS add. All are equally likely a priori.
1. Each hypothesis is scaled to the samples, by the mean of the logs of measured / its own time.
2. It is weighed by the likelihood of what is left, under a relative error of 10 %.
3. The time per step is the weighted mean of all: minimising it minimises the expected time.
``values_of_measuring`` says what one more sample is worth: how much less time is expected where the
counts are chosen once it is known (Raiffa and Schlaifer 1961, preposterior analysis)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus.jobs import Counts, TrainingMode
from optimus.models import Matrix, Vector
from optimus.models.speed.curve import MergedSamples
from optimus.progress.types import SpeedSample

_PARTS: Final = 5
"""A hypothesis gives computing and transfer so many parts, together."""
_CONSTANTS: Final = (0.0, 0.1)
"""What is neither, as a part of the three."""
_OVERHEADS: Final = (0.003, 0.03)
"""What each worker, or each PS, adds, as a part of the three."""
_KNEES: Final = (0.0, 1.0)
"""Workers per PS below which more PSs bring nothing: none, or as where all links are equal."""
_ERROR: Final = 0.1
"""Relative error of a hypothesis at a pair of counts: more than that of a fitted curve."""
_LEAST_WEIGHT: Final = 1e-4
"""Hypotheses below this weight do not count in the value of a measurement."""
_CLOSE_LOGS: Final = 2
"""Measured speeds are compared to so many decimals of their logs there: 1 %, less than noise."""


@lru_cache(maxsize=1)
def _mixtures() -> Matrix:
    """Seconds of each term with one PS and one worker, where computing, constant work and transfer
    take 1 s together: (hypotheses, terms)."""
    found = [
        ((1 - constant) * part / _PARTS, constant, (1 - constant) * (1 - part / _PARTS), worker, ps)
        for part in range(_PARTS + 1)
        for constant in _CONSTANTS
        for worker in _OVERHEADS
        for ps in _OVERHEADS
    ]
    return np.array(found, dtype=np.float64)


class Weighed(NamedTuple):
    """Hypotheses after some samples: their weights, and the factors on their seconds. Both are
    (knees, hypotheses)."""

    weights: Matrix
    scales: Matrix


@dataclass(frozen=True, slots=True)
class StepTerms:
    """The terms of the time of a step for one kind of job."""

    mode: TrainingMode
    splits_batch: bool
    """Whether more workers make each one's part of the computing smaller."""

    def each(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """The terms at each pair of counts (broadcast), by knee: (knees, ..., terms)."""
        p, w = np.broadcast_arrays(
            np.asarray(ps, dtype=np.float64), np.asarray(workers, dtype=np.float64)
        )
        computing = 1 / w if self.splits_batch else np.ones_like(w)
        by_knee = [
            np.stack([computing, np.ones_like(w), np.maximum(w / p, knee), w, p], axis=-1)
            for knee in _KNEES
        ]
        return np.stack(by_knee)

    def steps(self, workers: ArrayLike) -> Vector:
        """Steps in that time: 1 (sync: of all workers) or w (async: one of each)."""
        w = np.asarray(workers, dtype=np.float64)
        return w if self.mode is TrainingMode.ASYNC else np.ones_like(w)

    def weigh(self, measured: MergedSamples) -> Weighed:
        """The hypotheses after these samples, one at least."""
        seconds = self.steps(measured.workers) / measured.steps_per_second
        each = np.einsum("kns,hs->khn", self.each(measured.ps, measured.workers), _mixtures())
        logs = np.log(seconds / each)
        precisions = 1 / (_ERROR**2 + measured.variance)
        scales = logs @ precisions / precisions.sum()
        squares = np.square(logs - scales[..., np.newaxis]) @ precisions
        weights = np.exp(-(squares - squares.min()) / 2)
        return Weighed(weights / weights.sum(), np.exp(scales))


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedSpeed:
    """Steps per second by the mean over the hypotheses: implements ``models.forecast.Speed``."""

    terms: StepTerms
    parts: Matrix
    """Seconds of each term, the weighted mean over the hypotheses: (knees, terms)."""

    @classmethod
    def of(cls, measured: MergedSamples, terms: StepTerms) -> "ExpectedSpeed":
        """From samples at one pair of counts at least."""
        weights, scales = terms.weigh(measured)
        return cls(terms, np.einsum("kh,kh,hs->ks", weights, scales, _mixtures()))

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """The job's steps per second at each pair of counts (arrays broadcast)."""
        seconds = np.einsum("k...s,ks->...", self.terms.each(ps, workers), self.parts)
        return np.asarray(self.terms.steps(workers) / seconds, dtype=np.float64)

    def anchored(self, counts: Counts, steps_per_second: float) -> "ExpectedSpeed":
        """The same function, multiplied so that it gives this speed at these counts."""
        factor = float(self.steps_per_second(*counts)) / steps_per_second
        return replace(self, parts=self.parts * factor)


def values_of_measuring(
    measured: MergedSamples,
    terms: StepTerms,
    allowed: Sequence[Counts],
    *,
    batch_per_worker: bool = False,
) -> Vector:
    """What a sample at each of the counts is worth, as a part of the least expected time.

    Under each hypothesis in turn, the sample shows its time at these counts; the hypotheses are
    weighed again, and the counts that are best then take the time that this hypothesis says.
    ``batch_per_worker``: a step of more workers covers more examples. No restart is counted."""
    logs = np.log(measured.steps_per_second / measured.steps_per_second[0])
    known = tuple(zip(measured.counts, np.round(logs, _CLOSE_LOGS).tolist(), strict=True))
    return _values(terms, known, tuple(allowed), batch_per_worker)


@lru_cache(maxsize=1024)
def _values(
    terms: StepTerms,
    measured: tuple[tuple[Counts, float], ...],
    allowed: tuple[Counts, ...],
    batch_per_worker: bool,
) -> Vector:
    """The same from logs of speeds: most jobs are measured once, at equal counts."""
    samples = MergedSamples.of(
        SpeedSample(counts, math.exp(log), math.inf, 0.0) for counts, log in measured
    )
    weights, scales = (each.ravel() for each in terms.weigh(samples))
    likely = weights > _LEAST_WEIGHT
    weights, scales = weights[likely] / weights[likely].sum(), scales[likely]
    ps, workers = np.array(allowed, dtype=np.float64).T
    each = np.einsum("kns,hs->khn", terms.each(ps, workers), _mixtures())
    seconds = each.reshape(-1, len(allowed))[likely] * scales[:, np.newaxis]
    left = seconds / terms.steps(workers) / (workers if batch_per_worker else 1.0)
    logs, values, least = np.log(seconds), np.empty(len(allowed)), (weights @ left).min()
    for index in range(len(allowed)):
        apart = logs[:, [index]] - logs[:, index]
        after = weights * np.exp(-np.square(apart / _ERROR) / 2)
        chosen = (after @ left).argmin(axis=1)
        values[index] = 1 - weights @ left[np.arange(len(left)), chosen] / least
    return values
