"""The curve of the time per step through what was measured: each shape fitted, then averaged
(Optimus, section 3.2).

For each shape of the PSs' term non-negative least squares on the relative error gives its
coefficients. Its weight is its odds times how likely its residuals are when their scale is unknown:
about 3 %, far less if they are no accident. The average of the curves is again a curve of the same
terms. Few samples leave it near the odds, many decide. What the curve is uncertain of is what each
shape is uncertain of, and how far the shapes are apart."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus.models.nnls import Matrix, Vector, fit_each_relative
from optimus.models.speed.samples import Measured
from optimus.models.speed.terms import SpeedTerms

_USUAL_ERROR: Final = 0.03
_USUAL_WORTH: Final = 2.0
"""Relative error of a curve around its samples, and how many samples that guess is worth."""
_SMALLER_ERRORS: Final = np.array([1.0, 1 / 30, 1e-3, 1 / 30e3])
_SMALLER_ODDS: Final = np.array([1.0, 0.01, 0.01, 0.01])
"""Perhaps the error is much smaller than usual. That shows only where there are more samples than
coefficients."""
_PRIOR: Final = 1e-3
_LEAST_ERROR: Final = 0.05
_LEAST_WORTH: Final = 4.0
"""For the uncertainty: what the error is taken for, and for how many samples that counts, as a few
prove little."""


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Seconds per step, as an average over shapes: ``weights`` (shapes,), ``coefficients`` (shapes,
    terms).

    ``error`` is the relative error of the samples around it. ``information`` is what the samples
    say of the coefficients, (shapes, terms, terms): X'WX of rows relative to the time, with columns
    divided by ``scale``."""

    terms: SpeedTerms
    weights: Vector
    coefficients: Matrix
    error: float
    information: Matrix
    scale: Matrix

    @classmethod
    def fit(cls, measured: Measured, terms: SpeedTerms, factors: Vector | None = None) -> "Curve":
        """Fit to all entries; ``factors`` are those of their nodes, by which their speeds are
        divided first."""
        columns = terms.columns(measured.ps, measured.workers)
        speed = (
            measured.steps_per_second if factors is None else measured.steps_per_second / factors
        )
        target, worth = terms.work(measured.workers) / speed, measured.worth
        coefficients = fit_each_relative(columns, target, worth)
        errors = np.einsum("snk,sk->sn", columns, coefficients) / target - 1
        weights = _likely(errors**2 @ worth, worth, columns.shape[-1], terms)
        freedom = max(len(target) - columns.shape[-1], 0)
        squares = worth @ (weights @ errors) ** 2
        error = np.sqrt((_LEAST_WORTH * _LEAST_ERROR**2 + squares) / (_LEAST_WORTH + freedom))
        rows = columns / target[:, np.newaxis]
        scale = np.sqrt(np.mean(rows**2, axis=1))
        scaled = rows / scale[:, np.newaxis]
        information = np.einsum("sni,n,snj->sij", scaled, worth, scaled)
        return cls(terms, weights, coefficients, float(error), information, scale)

    def seconds(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """Seconds of a step of all workers (sync) or of one step of each (async), arrays
        broadcast."""
        return self.terms.total(ps, workers, self.weights[:, np.newaxis] * self.coefficients)

    def variances(
        self, ps: ArrayLike, workers: ArrayLike
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Relative variance of the time at each pair of counts: within the shapes per squared
        error, and between them.

        The first is x'A^-1 x with A the information and a weak prior, averaged over the shapes.
        """
        columns = self.terms.columns(ps, workers)
        each = np.einsum("s...k,sk->s...", columns, self.coefficients)
        mean = np.tensordot(self.weights, each, 1)
        inverse = np.linalg.inv(self.information + _PRIOR * np.eye(columns.shape[-1]))
        lead = (slice(None), *(np.newaxis,) * np.ndim(mean), slice(None))
        rows = columns / mean[..., np.newaxis] / self.scale[lead]
        within = np.einsum(
            "s,s...i,sij,s...j->...", self.weights, rows, inverse, rows, optimize=True
        )
        between = np.tensordot(self.weights, (each / mean - 1) ** 2, 1)
        return np.asarray(within), np.asarray(between)


def _likely(squares: Vector, worth: Vector, coefficients: int, terms: SpeedTerms) -> Vector:
    """How likely each shape is, given the weighted sum of its squared relative errors; sums to
    1."""
    odds = np.array([shape.odds for shape in terms.shapes])
    if len(odds) == 1:
        return np.ones(1)
    spare = max(len(worth) - coefficients, 0)
    scales = _USUAL_WORTH * (_USUAL_ERROR * _SMALLER_ERRORS) ** 2
    exponent = -(_USUAL_WORTH + worth.sum()) / 2
    powers = (
        np.log(_SMALLER_ODDS)
        - spare * np.log(_SMALLER_ERRORS)
        + exponent * np.log1p(squares[:, None] / scales)
    )
    logs = np.log(odds) + np.logaddexp.reduce(powers, axis=1)
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())
