"""Each API call of a rescale, and of a new job's profiling, meets each kind of fault: the job ends
where it would have ended, and nothing is lost."""

import pytest

from localcluster.faults.faults import Effect
from tests.integration.fault_matrix.effects import (
    EACH_EFFECT,
    WRITES,
    assert_written,
    cases,
    play,
    profiling_cases,
)
from tests.integration.fault_matrix.matrix_scenario import MatrixScenario, ProfilingScenario

pytestmark = pytest.mark.timeout(3600)


@EACH_EFFECT
def test_a_rescale_ends_as_without_a_fault_where_a_call(
    matrix: MatrixScenario, effect: Effect
) -> None:
    play(matrix, effect, cases(matrix.points, effect))


@EACH_EFFECT
def test_profiling_ends_as_without_a_fault_where_a_call(
    profiling: ProfilingScenario, effect: Effect
) -> None:
    play(profiling, effect, profiling_cases(profiling.points, effect))


def test_the_points_are_all_that_a_rescale_does(matrix: MatrixScenario) -> None:
    """The list is made from what was seen: it has at least the writes of the machine."""
    assert_written(matrix, WRITES)


def test_the_points_are_all_that_profiling_does(profiling: ProfilingScenario) -> None:
    """Likewise; before the first rescale its profile is created."""
    assert_written(profiling, (*WRITES, "POST /apis/optimus.dl"))
