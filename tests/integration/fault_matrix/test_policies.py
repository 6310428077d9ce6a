"""A policy that pauses jobs, and one placed by another rule: what they do to jobs ends as without a
fault where the API calls of the autoscaler meet one, and nothing is lost."""

import pytest

from localcluster.faults.faults import Effect
from localcluster.specs import Backend
from tests.integration.fault_matrix.effects import (
    EACH_BUT_KILLS,
    WRITES,
    assert_written,
    cases,
    play,
)
from tests.integration.fault_matrix.matrix_scenario import (
    FairShareScenario,
    MatrixScenario,
    PausingScenario,
)

pytestmark = pytest.mark.timeout(3600)
_FOR_A_RELEASE = [pytest.mark.e2e, pytest.mark.release]


@pytest.mark.parametrize(
    ("decided_anew", "why"),
    [("srtf", "a remaining time shorter than its"), ("gavel-sjf", "not its turn")],
    indirect=["decided_anew"],
)
def test_a_long_job_is_paused_for_a_short_one(decided_anew: PausingScenario, why: str) -> None:
    pauses = decided_anew.pauses()
    assert all(why in each for each in pauses), pauses


@pytest.mark.parametrize("decided_anew", ["drf"], indirect=True)
def test_a_job_gets_its_fair_share_on_as_many_nodes_as_it_has_replicas(
    decided_anew: FairShareScenario,
) -> None:
    assert decided_anew.replicas_by_node() == [1] * 4
    share = "its fair share by dominant resource is 1 PS + 3 workers"
    assert any(each.startswith(share) for each in decided_anew.reasons()), decided_anew.reasons()


@pytest.mark.parametrize(
    ("four_nodes", "decided_anew"),
    [
        pytest.param(Backend.EMBEDDED, "drf", id="embedded"),
        pytest.param(Backend.EMBEDDED, "srtf", id="embedded-pauses"),
        pytest.param(Backend.REAL, "drf", id="real", marks=pytest.mark.e2e),
        pytest.param(Backend.REAL, "srtf", id="real-pauses", marks=_FOR_A_RELEASE),
        pytest.param(Backend.REAL, "gavel-sjf", id="real-turns", marks=_FOR_A_RELEASE),
    ],
    indirect=True,
)
def test_what_a_policy_does_ends_as_without_a_kill_at_any_write(
    decided_anew: MatrixScenario,
) -> None:
    assert_written(decided_anew, WRITES)
    wrong, left = decided_anew.kill_at([each for each in decided_anew.points if each.is_write])
    assert not wrong
    assert not [str(each) for each in left]


@pytest.mark.parametrize(
    ("four_nodes", "decided_anew"),
    [
        pytest.param(Backend.EMBEDDED, "srtf", id="embedded"),
        pytest.param(Backend.EMBEDDED, "gavel-sjf", id="embedded-turns"),
    ],
    indirect=True,
)
@pytest.mark.release
@EACH_BUT_KILLS
def test_a_pause_and_a_resume_end_as_without_a_fault_where_a_call(
    decided_anew: MatrixScenario, effect: Effect
) -> None:
    assert_written(decided_anew, ("Paused", "Resumed"))
    play(decided_anew, effect, cases(decided_anew.points, effect))
