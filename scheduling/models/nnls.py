"""Non-negative least squares as the two models use it: relative errors, columns of one scale.

Lawson and Hanson's algorithm (scipy). Rows are divided by what they predict, so that what counts is the relative
error; columns are scaled to unit norm, so that the order in which they enter does not depend on their units.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


def fit_relative(columns: Matrix, target: Vector, weights: Vector) -> Vector:
    """Coefficients >= 0 that minimise the weighted sum of squared relative errors.

    ``columns`` is (rows, coefficients), ``target`` (rows,) and > 0, ``weights`` (rows,) and >= 0.
    """
    rows = np.sqrt(weights) / target
    scaled = columns * rows[:, np.newaxis]
    norms = np.linalg.norm(scaled, axis=0)
    norms = np.where(norms > 0, norms, 1.0)
    solution, _ = nnls(scaled / norms, target * rows)
    return np.asarray(solution / norms, dtype=np.float64)
