"""Gang scheduling: all pods of a job are placed, or none."""

import pytest

from tests.harness.brute_force import violations
from tests.harness.light_jobs import LightJob
from tests.harness.scenario import Scenario

# Four nodes of four CPUs: a worker takes most of one, so four workers take them all.
WIDE = {"PS": {"cpu": "500m", "memory": "64Mi"}, "Worker": {"cpu": "2500m", "memory": "64Mi"}}


def two_ps_job(name: str, workers: int) -> LightJob:
    return LightJob("TFJob", name, ps=2, workers=workers, requests=WIDE)


@pytest.mark.embedded
def test_a_gang_that_does_not_fit_waits_and_is_placed_once_capacity_is_free(
    scenario: Scenario,
) -> None:
    first, second = two_ps_job("first", 3), two_ps_job("second", 3)
    with scenario.history() as history:
        scenario.submit(first)
        scenario.wait_bound(first)
        scenario.submit(second)
        scenario.wait_refused(
            second, f"job {scenario.namespace}/second (2 PS + 3 workers) does not fit as a whole"
        )
        scenario.holds(
            lambda: not scenario.bound(second), "no pod of the waiting job has a node", 3
        )
        assert not history.ever(lambda bound: "second" in bound)
        scenario.delete(first)
        scenario.wait_bound(second)
    assert not violations(
        second.demand(), scenario.free_resources_without(second), scenario.placement(second)
    )


def test_a_waiting_gang_causes_no_writes_and_its_message_does_not_change(
    scenario: Scenario,
) -> None:
    first, second = two_ps_job("first", 3), two_ps_job("second", 3)
    scenario.submit(first)
    scenario.wait_bound(first)
    with scenario.history() as history:
        scenario.submit(second)
        scenario.wait_refused(second, "does not fit as a whole")
        scenario.touch_node("train-1")  # kube-scheduler tries every refused pod again
        scenario.wait(
            lambda: history.quiet_seconds() > 4, "nothing is written on the waiting pods any more"
        )
    for name, sentences in history.refusals().items():
        assert len([each for each in sentences if "does not fit" in each]) <= 1, (name, sentences)
