"""The manifests: what a job tells Optimus is what its flags make it do."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from examples.light.settings import parse_settings

_FOLDER = Path(__file__).parents[3] / "examples" / "light"
_JOBS = ["tfjob.yaml", "mxjob.yaml"]


def _load(name: str) -> dict[str, Any]:
    document = yaml.safe_load((_FOLDER / name).read_text())
    assert isinstance(document, dict)
    return document


def _pods(job: dict[str, Any]) -> list[dict[str, Any]]:
    specs = next(value for key, value in job["spec"].items() if key.endswith("ReplicaSpecs"))
    return [replicas["template"]["spec"] for replicas in specs.values()]


@pytest.mark.parametrize("name", _JOBS)
def test_annotations_agree_with_the_flags(name: str) -> None:
    job = _load(name)
    annotations = {
        key.removeprefix("optimus.dl/"): value
        for key, value in job["metadata"]["annotations"].items()
    }
    settings = parse_settings(_pods(job)[0]["containers"][0]["args"])
    batch_name = "global-batch-size" if settings.mode == "sync" else "worker-batch-size"
    assert annotations["training-mode"] == settings.mode
    assert annotations[batch_name] == str(settings.batch_size)
    assert annotations["steps-per-epoch"] == str(settings.examples_per_epoch // settings.batch_size)
    assert float(annotations["target-loss"]) > 0.08, (
        "below the floor of the loss the target is never reached"
    )


@pytest.mark.parametrize("name", _JOBS)
def test_every_role_has_the_same_flags_names_the_scheduler_and_asks_for_resources(
    name: str,
) -> None:
    pods = _pods(_load(name))
    assert len({tuple(pod["containers"][0]["args"]) for pod in pods}) == 1
    for pod in pods:
        assert pod["schedulerName"] == "optimus-scheduler"
        assert set(pod["containers"][0]["resources"]["requests"]) == {"cpu", "memory"}
        assert {"key": "optimus.dl/training", "operator": "Exists", "effect": "NoSchedule"} in pod[
            "tolerations"
        ]


@pytest.mark.parametrize("name", _JOBS)
def test_workers_keep_their_checkpoints_on_the_claim_that_is_shipped(name: str) -> None:
    worker = _pods(_load(name))[-1]
    container = worker["containers"][0]
    folder = parse_settings(container["args"]).checkpoint_dir
    assert folder is not None
    assert folder.is_relative_to(container["volumeMounts"][0]["mountPath"])
    claim = worker["volumes"][0]["persistentVolumeClaim"]["claimName"]
    assert claim == _load("checkpoints-pvc.yaml")["metadata"]["name"]
