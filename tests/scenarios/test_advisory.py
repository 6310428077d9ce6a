"""Under `scheduler-config/advisory.yaml` nothing is refused: scores alone bring a job's pods to the
planned nodes."""

from collections.abc import Iterator

import pytest

from tests.harness.brute_force import complaints
from tests.harness.jobs import LightJob
from tests.harness.scene import Scene
from tests.harness.stack import Optimus


@pytest.fixture
def advisory(optimus: Optimus) -> Iterator[None]:
    """The scheduler runs with the advisory configuration; afterwards with the usual one again."""
    optimus.deploy(advisory=True)
    yield
    optimus.deploy()


@pytest.mark.slow
@pytest.mark.usefixtures("advisory")
def test_a_job_lands_on_the_planned_nodes_and_trains(stage: Scene) -> None:
    job = LightJob("TFJob", "advised", 2, 4, flags={"--epochs": "2"})
    free = stage.free_room(job)
    with stage.history() as history:
        stage.submit(job)
        observed = stage.wait_bound(job)
    assert not complaints(job.demand(), free, observed)
    planned = history.nominations()
    assert all(node == bound for node, bound in planned.values()), planned
    stage.wait(lambda: "Succeeded" in stage.conditions(job), "the job has succeeded", 90)
