"""Each API call of a rescale, and of a new job's profiling, meets each kind of fault: the job ends
where it would have ended, and nothing is lost."""

import pytest

from localcluster.faults.faults import Effect
from tests.integration.fault_matrix.effects import (
    EACH_BUT_KILLS,
    EACH_EFFECT,
    WRITES,
    assert_written,
    cases,
    play,
)
from tests.integration.fault_matrix.matrix_scenario import MatrixScenario, ProfilingScenario

pytestmark = pytest.mark.timeout(3600)


@EACH_BUT_KILLS
def test_a_rescale_ends_as_without_a_fault_where_a_call(
    matrix: MatrixScenario, effect: Effect
) -> None:
    play(matrix, effect, cases(matrix.points, effect, writes=True))


@EACH_EFFECT
def test_profiling_ends_as_without_a_fault_where_a_call(
    profiling: ProfilingScenario, effect: Effect
) -> None:
    play(profiling, effect, cases(profiling.points, effect, share=3))


def test_the_points_are_all_that_a_rescale_does(matrix: MatrixScenario) -> None:
    """The list is made from what was seen: it has at least the writes of the machine."""
    assert_written(matrix, WRITES)


def test_the_points_are_all_that_profiling_does(profiling: ProfilingScenario) -> None:
    """Likewise; before the first rescale its profile is created."""
    assert_written(profiling, (*WRITES, "POST /apis/optimus.dl"))
