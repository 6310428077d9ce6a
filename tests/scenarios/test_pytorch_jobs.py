"""A PyTorchJob whose processes share one batch gets other workers, and goes on where it was."""

import re

import pytest

from tests.harness.api import KUBEFLOW, OPTIMUS, in_namespace
from tests.harness.pytorch_jobs import pytorch_job
from tests.harness.scenario import Scenario
from tests.harness.waiting import LONG_SECONDS


@pytest.mark.embedded
def test_a_pytorch_job_gets_the_workers_that_its_bounds_ask_for_and_goes_on(
    scenario: Scenario,
) -> None:
    scenario.create(KUBEFLOW, "pytorchjobs", pytorch_job(1))
    stored = in_namespace(KUBEFLOW, scenario.namespace, "pytorchjobs", "ddp")
    profile = in_namespace(OPTIMUS, scenario.namespace, "trainingprofiles", "ddp")

    def log() -> str:
        path = f"{in_namespace('/api/v1', scenario.namespace, 'pods', 'ddp-master-0')}/log"
        return scenario.api.text(path) if scenario.pods() else ""

    def workers_trained_with() -> int | None:
        status = (scenario.api.find(profile) or {}).get("status") or {}
        is_settled = status.get("phase") == "Training" and "rescale" not in status
        return status.get("workers") if is_settled and status.get("steps", 1) else None

    scenario.wait(
        lambda: workers_trained_with() == 1 and "step=5 " in log(), "it trains", LONG_SECONDS
    )
    bounds = {"optimus.dl/min-workers": "2", "optimus.dl/max-workers": "4"}
    scenario.api.patch(stored, {"metadata": {"annotations": bounds}})
    scenario.wait(
        lambda: workers_trained_with() == 3 and "step=" in log(), "it trains on", LONG_SECONDS
    )
    (restored,) = re.findall(r"restored step (\d+) world (\d+)", log())
    assert int(restored[0]) >= 5
    assert restored[1] == "4", "2 workers and the master would not share 64 examples equally"
    replicas = scenario.api.get(stored)["spec"]["pytorchReplicaSpecs"]
    assert {role: each["replicas"] for role, each in replicas.items()} == {"Master": 1, "Worker": 3}
    for messages in scenario.wait_events("ddp", "Rescaling", "Rescaled").values():
        assert any("3 workers" in each for each in messages), messages
        assert not any("PS" in each for each in messages), messages
    scenario.api.delete(stored)
