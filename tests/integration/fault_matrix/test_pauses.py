"""Each API call of a pause and of a resume meets each kind of fault: the job is paused, resumed and
ends where it would have ended, and nothing is lost."""

import pytest

from localcluster.faults.faults import Effect
from tests.integration.fault_matrix.effects import (
    EACH_EFFECT,
    WRITES,
    assert_written,
    cases,
    play,
)
from tests.integration.fault_matrix.matrix_scenario import PausingScenario

pytestmark = pytest.mark.timeout(3600)


@EACH_EFFECT
def test_a_pause_and_a_resume_end_as_without_a_fault_where_a_call(
    pausing: PausingScenario, effect: Effect
) -> None:
    play(pausing, effect, cases(pausing.points, effect))


def test_the_points_are_all_that_a_pause_and_a_resume_do(pausing: PausingScenario) -> None:
    """The list is made from what was seen: it has at least the writes of the machine."""
    assert_written(pausing, (*WRITES, "Paused", "Resumed"))
