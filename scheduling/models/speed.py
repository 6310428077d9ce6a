"""Speed as a function of the counts of PSs and workers (Optimus, section 3.2, equations 3 and 4).

Sync:   1/f = t0 * M/w + t1 + t2 * w/p + t3 * w + t4 * p
Async:  w/f = t0 + t1 * w/p + t2 * w + t3 * p
M is the job's batch; where each worker has a batch of its own, its term is constant and part of t1. Both are linear
in t >= 0 once f is inverted: non-negative least squares on the relative error. In the knee form w/p is max(w/p, 1):
a worker's own link carries the whole model whatever p is, so the PSs' links bind only when w > p.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scheduling.errors import NotReady
from scheduling.jobs import Batch, BatchScope, Counts, TrainingMode
from scheduling.models.nnls import Matrix, Vector, fit_relative
from scheduling.progress.record import SpeedSample

NEEDED_COUNTS: Final = 3
_SETTLING_SECONDS: Final = 20.0
"""A sample of so many seconds weighs half as much as a very long one: beyond, the form errs, not the measurement."""
_LEAST_SECONDS: Final = 2.0
"""A shorter sample is a line or two, which says nothing yet."""
_LEAST_ERROR: Final = 0.02
"""Relative error of a sample, at least: a few samples that happen to lie on a curve prove little."""
_PRIOR: Final = 1e-3


class SpeedForm(StrEnum):
    """How the transfer between w workers and p PSs enters: as w/p (the paper) or max(w/p, 1)."""

    PAPER = "paper"
    KNEE = "knee"


@dataclass(frozen=True, slots=True)
class SpeedTerms:
    """The columns of the linear model for one kind of job."""

    mode: TrainingMode
    batch: Batch | None = None
    form: SpeedForm = SpeedForm.KNEE

    def columns(self, ps: ArrayLike, workers: ArrayLike) -> Matrix:
        """The columns at each pair of counts (broadcast), shape (..., terms): what t is multiplied with."""
        p, w = np.broadcast_arrays(np.asarray(ps, dtype=np.float64), np.asarray(workers, dtype=np.float64))
        ratio = w / p if self.form is SpeedForm.PAPER else np.maximum(w / p, 1.0)
        columns = [np.ones_like(w), ratio, w, p]
        if self._batch_is_shared:
            columns.insert(0, (self.batch.size if self.batch else 1) / w)
        return np.stack(columns, axis=-1)

    def inverse(self, workers: ArrayLike) -> Vector:
        """What the linear model predicts is this divided by the speed: 1 (sync) or w (async)."""
        w = np.asarray(workers, dtype=np.float64)
        return w if self.mode is TrainingMode.ASYNC else np.ones_like(w)

    @property
    def _batch_is_shared(self) -> bool:
        """Whether more workers make each one's part smaller; taken as possible where the batch is unknown."""
        own = self.batch is not None and self.batch.scope is BatchScope.WORKER
        return self.mode is TrainingMode.SYNC and not own


@dataclass(frozen=True, slots=True)
class Measured:
    """Samples of speed put together by counts: arrays of equal length, in the order of the counts."""

    counts: tuple[Counts, ...]
    steps_per_second: Vector
    seconds: Vector

    @classmethod
    def of(cls, samples: Iterable[SpeedSample]) -> Self:
        """Repeats at the same counts are averaged, weighted by their seconds.

        A speed of 0 is a failed run and left out, as is what took less than 2 seconds.
        """
        repeats: dict[Counts, list[SpeedSample]] = {}
        for sample in samples:
            if 0 < sample.steps_per_second < np.inf and sample.seconds >= _LEAST_SECONDS:
                repeats.setdefault(sample.counts, []).append(sample)
        ordered = sorted(repeats)
        seconds = [[sample.seconds for sample in repeats[counts]] for counts in ordered]
        speeds = [[sample.steps_per_second for sample in repeats[counts]] for counts in ordered]
        means = [np.average(speed, weights=time) for speed, time in zip(speeds, seconds, strict=True)]
        return cls(tuple(ordered), np.array(means, dtype=np.float64), np.array([sum(time) for time in seconds]))

    @property
    def ps(self) -> Vector:
        """PSs of each entry."""
        return np.array([counts.ps for counts in self.counts], dtype=np.float64)

    @property
    def workers(self) -> Vector:
        """Workers of each entry."""
        return np.array([counts.workers for counts in self.counts], dtype=np.float64)

    @property
    def weights(self) -> Vector:
        """How much each entry is worth, below 1: an error of measurement that falls with time, and one that stays."""
        return self.seconds / (self.seconds + _SETTLING_SECONDS)


@dataclass(frozen=True, slots=True, eq=False)
class SpeedModel:
    """A fitted speed: implements ``models.forecast.Speed``.

    All values come from the fitted curve, also where a speed was measured: a difference between a measured and
    a fitted value is mostly the error of the fit, and would be taken for a gain. ``anchored`` multiplies the whole
    curve instead, so that it meets a measured value and all its ratios stay. ``coefficients`` are t of the paper.
    """

    terms: SpeedTerms
    coefficients: tuple[float, ...]
    samples: int
    error: float
    """Relative error of the samples around the curve."""
    factor: float = 1.0
    spread: Matrix = field(default_factory=lambda: np.empty((0, 0)), repr=False)
    """(X'WX + prior)^-1 of relative rows with scaled columns; ``scale`` are the columns' scales."""
    scale: Vector = field(default_factory=lambda: np.empty(0), repr=False)

    @classmethod
    def fit(
        cls,
        samples: Sequence[SpeedSample],
        mode: TrainingMode,
        batch: Batch | None = None,
        form: SpeedForm = SpeedForm.KNEE,
    ) -> "SpeedModel | NotReady":
        """Fit to samples; not ready with fewer than 3 different counts, or only such as have p = w.

        On the diagonal the terms 1 and w/p, and w and p, are the same, and the answer would be arbitrary.
        """
        measured = Measured.of(samples)
        if len(measured.counts) < NEEDED_COUNTS:
            return NotReady(f"speed was measured at {len(measured.counts)} different counts, {NEEDED_COUNTS} needed")
        if all(counts.ps == counts.workers for counts in measured.counts):
            return NotReady("speed was measured only with as many PSs as workers, which cannot tell the two apart")
        return cls._fit(measured, SpeedTerms(mode, batch, form))

    @classmethod
    def _fit(cls, measured: Measured, terms: SpeedTerms) -> "SpeedModel":
        columns = terms.columns(measured.ps, measured.workers)
        target = terms.inverse(measured.workers) / measured.steps_per_second
        coefficients = fit_relative(columns, target, measured.weights)
        errors = columns @ coefficients / target - 1
        freedom = max(len(target) - int(np.count_nonzero(coefficients)), 1)
        error = float(np.sqrt(np.sum(measured.weights * errors**2) / freedom))
        spread, scale = information_inverse(columns / target[:, np.newaxis], measured.weights)
        return cls(terms, tuple(map(float, coefficients)), len(target), max(error, _LEAST_ERROR), 1.0, spread, scale)

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """The job's steps per second at each pair of counts (arrays broadcast); see the class about what is given."""
        predicted = self.terms.columns(ps, workers) @ np.asarray(self.coefficients)
        with np.errstate(divide="ignore"):
            return np.asarray(self.factor * self.terms.inverse(workers) / predicted, dtype=np.float64)

    def at(self, counts: Counts) -> float:
        """Steps per second at these counts."""
        return float(self.steps_per_second(counts.ps, counts.workers))

    def uncertainty(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """Relative standard deviation of the fitted speed at each pair of counts (arrays broadcast)."""
        columns = self.terms.columns(ps, workers)
        predicted = columns @ np.asarray(self.coefficients)
        rows = columns / predicted[..., np.newaxis] / self.scale
        variance = np.einsum("...i,ij,...j->...", rows, self.spread, rows)
        return np.asarray(self.error * np.sqrt(variance), dtype=np.float64)

    def anchored(self, counts: Counts, steps_per_second: float) -> "SpeedModel":
        """The same curve, multiplied so that it gives this speed at these counts."""
        factor = self.factor * steps_per_second / self.at(counts)
        return SpeedModel(self.terms, self.coefficients, self.samples, self.error, factor, self.spread, self.scale)


def information_inverse(rows: Matrix, weights: Vector, scale: Vector | None = None) -> tuple[Matrix, Vector]:
    """The inverse of prior + sum of weight * row row', with columns divided by their scale; and that scale.

    The scale is the columns' root mean square where it is not given. Shapes (terms, terms) and (terms,).
    """
    if scale is None:
        scale = np.sqrt(np.mean(rows**2, axis=0))
    scaled = rows / scale
    information = _PRIOR * np.eye(rows.shape[1]) + (scaled * weights[:, np.newaxis]).T @ scaled
    return np.asarray(np.linalg.inv(information), dtype=np.float64), scale
