"""A policy that pauses jobs, and one placed by another rule: what they do to jobs ends as without a
fault where the API calls of the autoscaler meet one, and nothing is lost."""

import pytest

from localcluster.faults.faults import Effect, Kill
from localcluster.specs import Backend
from tests.integration.fault_matrix.effects import EFFECTS, WRITES, assert_written, cases, play
from tests.integration.fault_matrix.matrix_scenario import MatrixScenario

pytestmark = pytest.mark.timeout(3600)


def test_what_a_policy_does_ends_as_without_a_kill_at_any_call(
    decided_anew: MatrixScenario,
) -> None:
    assert_written(decided_anew, WRITES)
    wrong, left = decided_anew.kill_at_every_point()
    assert not wrong
    assert not [str(each) for each in left if each.is_write]


@pytest.mark.parametrize(
    ("four_nodes", "decided_anew"),
    [pytest.param(Backend.EMBEDDED, "srtf", id="embedded")],
    indirect=True,
)
@pytest.mark.parametrize(
    "effect",
    [
        pytest.param(effect, id=name)
        for name, effect in EFFECTS.items()
        if not isinstance(effect, Kill)
    ],
)
def test_a_pause_and_a_resume_end_as_without_a_fault_where_a_call(
    decided_anew: MatrixScenario, effect: Effect
) -> None:
    assert_written(decided_anew, ("Paused", "Resumed"))
    play(decided_anew, effect, cases(decided_anew.points, effect))
