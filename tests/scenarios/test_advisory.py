"""`scheduler-config/advisory.yaml` refuses no node: scores alone bring a job's pods to the
planned nodes."""

from collections.abc import Iterator

import pytest

from localcluster.paths import REPOSITORY
from tests.harness.brute_force import violations
from tests.harness.light_jobs import LightJob
from tests.harness.optimus_cluster import OptimusCluster
from tests.harness.scenario import Scenario


@pytest.fixture
def advisory(optimus: OptimusCluster) -> Iterator[None]:
    """The scheduler runs with the advisory configuration; afterwards with the usual one again."""
    text = (REPOSITORY / "scheduler-config" / "advisory.yaml").read_text()
    optimus.deploy(scheduler_config=text)
    yield
    optimus.deploy()


@pytest.mark.usefixtures("advisory")
def test_a_job_is_placed_on_the_planned_nodes_and_trains(scenario: Scenario) -> None:
    job = LightJob("TFJob", "advised", 2, 4, flags={"--epochs": "2"})
    free = scenario.free_resources(job)
    with scenario.history() as history:
        scenario.submit(job)
        observed = scenario.wait_bound(job)
    assert not violations(job.demand(), free, observed)
    planned = history.nominations()
    assert all(node == bound for node, bound in planned.values()), planned
    scenario.wait(lambda: "Succeeded" in scenario.conditions(job), "the job has succeeded")
