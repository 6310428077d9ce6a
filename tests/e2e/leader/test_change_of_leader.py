"""Of two autoscalers one acts, whatever happens to it in the middle of a rescale."""

from collections.abc import Callable

import pytest

from tests.e2e.leader.cases import CASES
from tests.e2e.leader.leader_scenario import LeaderScenario

pytestmark = pytest.mark.timeout(600)  # 20 s are waited for; what else takes long has its own limit


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(each, id=name, marks=[] if name == "killed" else pytest.mark.release)
        for name, each in CASES.items()
    ],
)
def test_a_job_is_rescaled_once_when_the_leader_is(
    scenario: LeaderScenario, case: Callable[[LeaderScenario], None]
) -> None:
    case(scenario)


def test_the_audit_log_shows_who_wrote(scenario: LeaderScenario) -> None:
    log = scenario.scenario.optimus.cluster.paths.audit_log.read_text()
    assert f"optimus-autoscaler/{scenario.holder()}" in log
