"""Remaining time at any counts: many at once, or one pair, which is worked out once."""

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from optimus.jobs import Counts
from optimus.models.forecast import Forecast


@dataclass
class Noted:
    """A speed of so many steps per second as there are PSs and workers, 0 from 5 workers on; notes
    what was asked."""

    asked: list[tuple[int, int]] = field(default_factory=list)

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        both = np.broadcast_arrays(ps, workers)
        self.asked += [
            (int(p), int(w)) for p, w in zip(*(each.ravel() for each in both), strict=True)
        ]
        return np.where(both[1] < 5, both[0] + both[1], 0.0)


@pytest.mark.parametrize("per_worker", [False, True])
@pytest.mark.parametrize("steps", [0.0, 600.0])
def test_one_pair_of_counts_has_the_seconds_that_it_has_among_many(
    steps: float, per_worker: bool
) -> None:
    forecast = Forecast(Noted(), steps, per_worker, 2)
    ps, workers = np.arange(1, 4)[:, np.newaxis], np.arange(1, 7)
    for row, each in enumerate(forecast.remaining_seconds(ps, workers)):
        assert [forecast.at(Counts(row + 1, w)) for w in range(1, 7)] == each.tolist()


def test_a_speed_of_0_takes_infinitely_long() -> None:
    assert Forecast(Noted(), 10.0).at(Counts(1, 5)) == math.inf


def test_seconds_are_computed_once_for_each_counts() -> None:
    speed = Noted()
    forecast = Forecast(speed, 600.0)
    assert [forecast.at(Counts(1, 2)) for _ in range(3)] == [200.0] * 3
    assert forecast.at(Counts(2, 1)) == 200.0
    assert speed.asked == [(1, 2), (2, 1)]
    assert replace(forecast, remaining_steps=300.0).at(Counts(1, 2)) == 100.0


def test_cached_seconds_do_not_affect_equality() -> None:
    speed = Noted()
    one, other = Forecast(speed, 600.0), Forecast(speed, 600.0)
    one.at(Counts(1, 2))
    assert one == other
