"""Gang preemption with the deployed manifests: the component grants the rights that it needs."""

from collections.abc import Iterator

import pytest

from tests.harness.light_jobs import SLEEP, LightJob
from tests.harness.optimus_cluster import OptimusCluster
from tests.harness.scenario import Scenario

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
WIDE = {"PS": {"cpu": "1"}, "Worker": {"cpu": "2"}, "Scheduler": {"cpu": "1"}}
"""A node of four CPUs holds two workers, or one and two others."""


@pytest.fixture
def preempting(optimus: OptimusCluster) -> Iterator[None]:
    """The extender runs with the component; afterwards without it again."""
    optimus.deploy("preemption")
    if optimus.api.find(f"{CLASSES}/urgent") is None:
        optimus.api.create(CLASSES, {"metadata": {"name": "urgent"}, "value": 1000})
    yield
    optimus.deploy()


@pytest.mark.usefixtures("preempting")
def test_an_mxjob_makes_room_for_a_tfjob_and_comes_back(scenario: Scenario) -> None:
    """Four nodes of four CPUs hold both low jobs, and besides them no third one."""
    first = LightJob("TFJob", "first", 1, 3, requests=WIDE, script=SLEEP)
    second = LightJob("MXJob", "second", 1, 3, requests=WIDE, script=SLEEP)
    scenario.submit(first)
    scenario.wait_bound(first)
    scenario.wait_until_older(first)  # the youngest has to go
    scenario.submit(second)
    scenario.wait_bound(second)
    urgent = LightJob("TFJob", "urgent", 1, 3, requests=WIDE, script=SLEEP, priority="urgent")
    scenario.submit(urgent)
    scenario.wait_bound(urgent)
    scenario.wait_refused(second, "Insufficient cpu")
    assert len(scenario.bound(first)) == first.pods
    assert "Failed" not in scenario.conditions(second)
    scenario.wait_events("second", "Preempted", "Resumed")
    scenario.delete(urgent)
    scenario.wait_bound(second)
