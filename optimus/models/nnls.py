"""Non-negative least squares as the two models use it: relative errors, columns of one scale.

Lawson and Hanson's algorithm (scipy). Rows are divided by what they predict, so that what counts is
the relative error; columns are scaled to unit norm, so that the order in which they enter does not
depend on their units."""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

_ROUNDS: Final = 100
"""Rounds of the algorithm per column, at most; a few are usual, and giving up would be an
exception."""


def fit_relative(columns: Matrix, target: Vector, weights: Vector) -> Vector:
    """Coefficients >= 0 that minimise the weighted sum of squared relative errors.

    ``columns`` is (rows, coefficients), ``target`` (rows,) and > 0, ``weights`` (rows,) and >= 0.
    """
    return np.asarray(fit_each_relative(columns[np.newaxis], target, weights)[0])


def fit_each_relative(columns: Matrix, target: Vector, weights: Vector) -> Matrix:
    """The same for several sets of columns, (sets, rows, coefficients), at once: (sets,
    coefficients)."""
    roots = np.sqrt(weights)
    scaled = columns * (roots / target)[:, np.newaxis]
    norms = np.sqrt(np.einsum("sij,sij->sj", scaled, scaled))
    norms = np.where(norms > 0, norms, 1.0)
    scaled /= norms[:, np.newaxis]
    solutions = [nnls(each, roots, maxiter=_ROUNDS * each.shape[1])[0] for each in scaled]
    return np.asarray(np.array(solutions) / norms, dtype=np.float64)
