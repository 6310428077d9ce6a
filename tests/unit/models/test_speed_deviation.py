"""The deviation from the curve: a Gaussian process in doublings of the counts."""

import numpy as np
import pytest

from optimus.models.speed.model import Deviation

PS, WORKERS = np.array([1.0, 2.0, 8.0]), np.array([1.0, 4.0, 2.0])
LOGS, VARIANCE = np.array([0.05, -0.02, 0.03]), np.array([1e-4, 4e-4, 1e-3])


def by_hand(ps: float, workers: float) -> tuple[float, float]:
    """Mean and variance by the textbook's formula, with 4 % and a reach of one doubling."""

    def covariance(a: tuple[float, float], b: tuple[float, float]) -> float:
        apart = np.log2(a[0] / b[0]) ** 2 + np.log2(a[1] / b[1]) ** 2
        return float(0.04**2 * np.exp(-apart / 2))

    seen = list(zip(PS, WORKERS, strict=True))
    known = np.array([[covariance(a, b) for b in seen] for a in seen]) + np.diag(VARIANCE)
    here = np.array([covariance((ps, workers), each) for each in seen])
    return float(here @ np.linalg.solve(known, LOGS)), float(
        0.04**2 - here @ np.linalg.solve(known, here)
    )


@pytest.mark.parametrize(("ps", "workers"), [(1, 1), (2, 3), (5, 5), (8, 2), (64, 64)])
def test_is_the_mean_and_variance_of_the_process(ps: int, workers: int) -> None:
    deviation = Deviation.of(PS, WORKERS, LOGS, VARIANCE)
    mean, variance = by_hand(ps, workers)
    assert deviation.mean(ps, workers) == pytest.approx(mean, abs=1e-12)
    apart = min(
        np.hypot(np.log2(ps / p), np.log2(workers / w)) for p, w in zip(PS, WORKERS, strict=True)
    )
    assert deviation.variance(ps, workers) == pytest.approx(variance / 0.04**2 * (1 + apart) ** 2)


def test_a_grid_is_answered_at_once() -> None:
    deviation = Deviation.of(PS, WORKERS, LOGS, VARIANCE)
    ps, workers = np.arange(1, 6)[:, None], np.arange(1, 8)[None, :]
    one_by_one = [[float(deviation.mean(p, w)) for w in range(1, 8)] for p in range(1, 6)]
    assert deviation.mean(ps, workers) == pytest.approx(np.array(one_by_one), abs=1e-14)
    assert deviation.variance(ps, workers).shape == (5, 7)


def test_far_from_every_sample_there_is_none() -> None:
    assert Deviation.of(PS, WORKERS, LOGS, VARIANCE).mean(1000, 1000) == pytest.approx(
        0.0, abs=1e-9
    )
