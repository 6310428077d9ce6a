"""The speed that recommendations assume where one pair of counts was measured."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.jobs import Counts, TrainingMode
from optimus.models.forecast import AssumedSpeed

COUNTS = st.builds(Counts, st.integers(1, 40), st.integers(1, 40))


@given(
    counts=COUNTS, mode=st.sampled_from(TrainingMode), splits=st.booleans(), speed=st.floats(0.1, 9)
)
def test_it_is_the_measured_one_where_it_was_measured(
    counts: Counts, mode: TrainingMode, splits: bool, speed: float
) -> None:
    assumed = AssumedSpeed(counts, speed, mode, splits)
    assert float(assumed.steps_per_second(*counts)) == pytest.approx(speed)


@pytest.mark.parametrize(
    ("mode", "splits", "speeds"),
    [
        # seconds per step at (2, 4): 0.45 * 2/4 + 0.45 * (4/2)/(2/1) + 0.1 * 6/3
        pytest.param(TrainingMode.SYNC, True, [1.0, 1 / 0.875], id="sync, one batch"),
        pytest.param(TrainingMode.SYNC, False, [1.0, 1 / 1.1], id="sync, a batch for each worker"),
        pytest.param(TrainingMode.ASYNC, False, [1.0, 2 / 1.1], id="async"),
    ],
)
def test_its_terms_are_those_of_the_paper(
    mode: TrainingMode, splits: bool, speeds: list[float]
) -> None:
    found = AssumedSpeed(Counts(1, 2), 1.0, mode, splits).steps_per_second([1, 2], [2, 4])
    assert found == pytest.approx(np.array(speeds))


def test_more_tasks_do_not_pay_for_ever() -> None:
    assumed = AssumedSpeed(Counts(1, 2), 1.0, TrainingMode.SYNC, splits_batch=True)
    many = assumed.steps_per_second(np.array([4, 40]), np.array([8, 80]))
    assert many[1] < many[0]
