"""A PyTorchJob whose processes share one batch gets other workers, and goes on where it was."""

import re
from functools import partial
from typing import Final

import pytest

from tests.harness.api import KUBEFLOW, OPTIMUS, in_namespace
from tests.harness.pytorch_jobs import GRACE_SECONDS, pytorch_job
from tests.harness.scenario import Scenario
from tests.harness.waiting import LONG_SECONDS

RESTORED: Final = re.compile(r"restored step (\d+) world (\d+) after (\S+) s")


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
        return status.get("workers") if is_settled else None

    def trains_with(workers: int, step: str = "") -> bool:
        return workers_trained_with() == workers and f"step={step}" in log()

    scenario.wait(partial(trains_with, 1, "5 "), "it trains", LONG_SECONDS)
    before = 5
    for least, most, others in ((2, 4, 3), (1, 1, 1)):
        bounds = {"optimus.dl/min-workers": f"{least}", "optimus.dl/max-workers": f"{most}"}
        scenario.api.patch(stored, {"metadata": {"annotations": bounds}})
        scenario.wait(partial(trains_with, others), f"it trains with {others}", LONG_SECONDS)
        ((step, world, seconds),) = RESTORED.findall(log())
        assert int(step) >= before
        assert int(world) == others + 1, "2 workers and the master would not share 64 examples"
        assert float(seconds) < GRACE_SECONDS + 10
        before = int(step) + 1
        replicas = scenario.api.get(stored)["spec"]["pytorchReplicaSpecs"]
        counts = {role: each["replicas"] for role, each in replicas.items()}
        assert counts == {"Master": 1, "Worker": others}
    for messages in scenario.wait_events("ddp", "Rescaling", "Rescaled").values():
        assert any("3 workers" in each for each in messages), messages
        assert not any("PS" in each for each in messages), messages
    scenario.api.delete(stored)
