"""Non-negative least squares, many small problems at once (Lawson and Hanson, 1974, chapter 23).

Each problem enters the column along which its error falls most, solves for the entered columns, and
where a coefficient would become negative goes only as far as the first that becomes 0, which leaves
again. Where the error falls along no column, it is least."""

import numpy as np
from numpy.typing import NDArray

from optimus.models import Matrix, Vector


def nnls(columns: Matrix, target: Vector) -> Matrix:
    """The coefficients >= 0 that minimise the squared error of each problem, (problems, terms).

    ``columns`` is (problems, rows, terms), each of norm 1 or 0; ``target`` (rows,)."""
    problems, _, terms = columns.shape
    gram, along = columns.transpose(0, 2, 1) @ columns, target @ columns
    # Less of a column is the rounding of one that others add up to.
    least = 1e-10 * np.sqrt(target @ target)
    found, entered = np.zeros((problems, terms)), np.zeros((problems, terms), dtype=np.bool_)
    for _ in range(10 * terms):
        falls = np.where(entered, 0.0, along - _times(gram, found))
        most = falls.max(axis=1, keepdims=True)
        if (most <= least).all():
            break
        # Equal columns differ by rounding: the last of them enters, on every machine.
        last = np.where(falls >= most * (1 - 1e-9), np.arange(terms), 0).max(axis=1, keepdims=True)
        entered |= (np.arange(terms) == last) & (most > least)
        found, entered = _advanced(gram, along, found, entered)
    # One step of refinement, as products of columns have the square of their condition.
    error = np.einsum("sn,snk->sk", target - _times(columns, found), columns)
    return np.maximum(found + _solved(gram, error, entered), 0.0)


def _advanced(
    gram: Matrix, along: Matrix, found: Matrix, entered: NDArray[np.bool_]
) -> tuple[Matrix, NDArray[np.bool_]]:
    """The solution for the entered columns without those whose coefficient becomes 0, and these."""
    while True:
        aim = _solved(gram, along, entered)
        below = entered & (aim <= 0)
        if not below.any():
            return aim, entered
        parts = np.where(below, found / np.maximum(found - aim, 1e-300), 1.0)
        part = parts.min(axis=1, keepdims=True)
        entered = entered & ~(below & (parts <= part))
        found = np.where(entered, found + part * (aim - found), 0.0)


def _solved(gram: Matrix, along: Matrix, entered: NDArray[np.bool_]) -> Matrix:
    """The least squares over the entered columns; 0 for all others."""
    both = entered[:, :, np.newaxis] & entered[:, np.newaxis, :]
    unit = np.eye(gram.shape[-1])
    # The ridge makes no product of columns singular, and the refinement makes up for it.
    matrices = np.where(both, gram, unit) + 1e-14 * unit
    found = np.linalg.solve(matrices, np.where(entered, along, 0.0)[..., np.newaxis])
    return np.asarray(found[..., 0], dtype=np.float64)


def _times(matrices: Matrix, vectors: Matrix) -> Matrix:
    return np.asarray((matrices @ vectors[..., np.newaxis])[..., 0], dtype=np.float64)
