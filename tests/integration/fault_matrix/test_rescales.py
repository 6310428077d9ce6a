"""Each API call of a rescale meets each kind of fault: the job ends where it would have ended, and
nothing is lost."""

import pytest

from localcluster.faults.faults import Effect
from tests.integration.fault_matrix.effects import (
    EACH_BUT_KILLS,
    WRITES,
    assert_written,
    cases,
    play,
)
from tests.integration.fault_matrix.matrix_scenario import MatrixScenario

pytestmark = pytest.mark.timeout(3600)


@EACH_BUT_KILLS
def test_a_rescale_ends_as_without_a_fault_where_a_call(
    matrix: MatrixScenario, effect: Effect
) -> None:
    play(matrix, effect, cases(matrix.points, effect, writes=True))


def test_the_points_are_all_that_a_rescale_does(matrix: MatrixScenario) -> None:
    """The list is made from what was seen: it has at least the writes of the machine."""
    assert_written(matrix, WRITES)
