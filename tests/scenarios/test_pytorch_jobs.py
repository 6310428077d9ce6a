"""A PyTorchJob whose processes share one batch gets other workers, and goes on where it was."""

import re
from typing import Any, Final

import pytest

from tests.harness.api import KUBEFLOW, OPTIMUS, in_namespace
from tests.harness.light_jobs import CLAIM, POOL
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import SMALL
from tests.harness.waiting import LONG_SECONDS

_SCRIPT: Final = """
import os, pathlib, time
world, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
saved = pathlib.Path("/checkpoints/ddp-step")
step = int(saved.read_text()) if saved.exists() else 0
print(f"restored step {step} world {world}", flush=True)
while True:
    time.sleep(0.05 + 0.4 / world)
    step += 1
    if rank == 0:
        saved.write_text(str(step))
        print(f"step={step} loss={1 + 9 / (9 + step):.4f}", flush=True)
"""


def pytorch_job(workers: int) -> dict[str, Any]:
    pod: dict[str, Any] = {
        "schedulerName": "optimus-scheduler",
        "nodeSelector": dict(POOL),
        "tolerations": [{"key": "optimus.dl/training", "operator": "Exists"}],
        "terminationGracePeriodSeconds": 1,
        "volumes": [{"name": "saved", "persistentVolumeClaim": {"claimName": CLAIM}}],
        "containers": [
            {
                "name": "pytorch",
                "image": "optimus-examples:0.1.0",
                "command": ["python", "-c", _SCRIPT],
                "resources": {"requests": SMALL},
                "volumeMounts": [{"name": "saved", "mountPath": "/checkpoints"}],
            }
        ],
    }
    roles = {"Master": 1, "Worker": workers}
    annotations = {
        "target-steps": "1000000",
        "global-batch-size": "64",
        "rescale": "any",
        "max-workers": str(workers),
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {
            "name": "ddp",
            "annotations": {f"optimus.dl/{name}": text for name, text in annotations.items()},
        },
        "spec": {
            "pytorchReplicaSpecs": {
                role: {
                    "replicas": count,
                    "restartPolicy": "OnFailure",
                    "template": {"spec": pod},
                }
                for role, count in roles.items()
            }
        },
    }


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
