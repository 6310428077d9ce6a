"""Non-negative least squares, against scipy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls as of_scipy

from optimus.models.nnls import nnls

_SIZES = st.tuples(st.integers(1, 8), st.integers(1, 5))


@given(st.integers(0, 2**32 - 1), _SIZES, st.sampled_from([0.0, 1e-7, 1.0]))
def test_the_error_is_as_small_as_that_of_scipy(
    seed: int, size: tuple[int, int], apart: float
) -> None:
    generator = np.random.default_rng(seed)
    columns = generator.uniform(0, 1, (4, *size))
    columns[:2, :, -1] = columns[:2, :, 0] + apart * columns[:2, :, -1]  # nearly, or quite, equal
    columns /= np.linalg.norm(columns, axis=1, keepdims=True)
    target = generator.uniform(-0.5, 2, size[0])
    for each, found in zip(columns, nnls(columns, target), strict=True):
        best, error = of_scipy(each, target)
        assert (found >= 0).all()
        assert np.linalg.norm(each @ found - target) == pytest.approx(error, rel=1e-7, abs=1e-9)
        if size[0] >= size[1] and np.linalg.cond(each) < 1e4:
            assert found == pytest.approx(best, rel=1e-6, abs=1e-6)


def test_of_equal_columns_the_last_is_taken() -> None:
    column = np.array([[1.0], [2.0], [3.0]])
    columns = np.hstack([column, 3 * column]) / np.linalg.norm(column) / np.array([1.0, 3.0])
    (found,) = nnls(columns[np.newaxis], np.array([1.0, 2.0, 3.0]))
    assert found == pytest.approx([0.0, np.sqrt(14)])
