"""The manifests of the two examples: what Optimus needs is in each template, and the programs take
their flags."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from examples.mxnet.train import parse_arguments as mxnet_arguments
from examples.pytorch.train import parse_arguments as pytorch_arguments
from examples.tensorflow.train import parse_arguments as tensorflow_arguments

EXAMPLES = Path(__file__).parents[3] / "examples"
TOLERATION = {"key": "optimus.dl/training", "operator": "Exists", "effect": "NoSchedule"}

pytestmark = pytest.mark.parametrize(
    ("path", "name", "container", "parse"),
    [
        pytest.param(
            "mxnet/mxjob-sync.yaml", "mxnet-sync", "mxnet", mxnet_arguments, id="MXNet, synchronous"
        ),
        pytest.param(
            "mxnet/mxjob-async.yaml",
            "mxnet-async",
            "mxnet",
            mxnet_arguments,
            id="MXNet, asynchronous",
        ),
        pytest.param(
            "tensorflow/tfjob.yaml",
            "tensorflow-ps",
            "tensorflow",
            tensorflow_arguments,
            id="TensorFlow",
        ),
        pytest.param(
            "pytorch/pytorchjob.yaml", "pytorch-ddp", "pytorch", pytorch_arguments, id="PyTorch"
        ),
    ],
)
Parse = Callable[[list[str]], Any]


def load(path: str) -> dict[str, Any]:
    job: dict[str, Any] = yaml.safe_load((EXAMPLES / path).read_text())
    return job


def templates(job: dict[str, Any]) -> list[dict[str, Any]]:
    spec = job["spec"]
    (replicas,) = (found for key, found in spec.items() if key.endswith("ReplicaSpecs"))
    return [replica["template"]["spec"] for replica in replicas.values()]


def test_every_template_names_the_scheduler_and_tolerates_the_pool(
    path: str, name: str, container: str, parse: Parse
) -> None:
    for template in templates(load(path)):
        assert template["schedulerName"] == "optimus-scheduler"
        assert template["tolerations"] == [TOLERATION]


def test_every_container_asks_for_resources_and_is_named_as_the_operator_wants_it(
    path: str, name: str, container: str, parse: Parse
) -> None:
    for template in templates(load(path)):
        (only,) = template["containers"]
        assert only["name"] == container
        assert only["image"] == f"optimus-examples-{container}:0.1.0"
        assert only["resources"]["requests"].keys() == {"cpu", "memory"}


def test_the_program_takes_the_flags_and_saves_where_the_volume_is_mounted(
    path: str, name: str, container: str, parse: Parse
) -> None:
    settings = [parse(template["containers"][0]["args"]) for template in templates(load(path))]
    assert all(vars(each) == vars(settings[0]) for each in settings)
    assert str(settings[0].checkpoint_dir) == f"/checkpoints/{name}"


def test_the_volume_claim_is_the_one_beside_it(
    path: str, name: str, container: str, parse: Parse
) -> None:
    claim = load(str(Path(path).with_name("checkpoints-pvc.yaml")))["metadata"]["name"]
    volumes = [
        volume for template in templates(load(path)) for volume in template.get("volumes", ())
    ]
    claims = [each["persistentVolumeClaim"] for each in volumes if "persistentVolumeClaim" in each]
    assert claims
    assert all(each["claimName"] == claim for each in claims)


def test_what_the_annotations_say_is_what_the_program_does(
    path: str, name: str, container: str, parse: Parse
) -> None:
    job = load(path)
    said = {
        key.removeprefix("optimus.dl/"): text
        for key, text in job["metadata"]["annotations"].items()
    }
    settings = parse(templates(job)[0]["containers"][0]["args"])
    kvstore = getattr(settings, "kvstore", "dist_async")
    assert kvstore == f"dist_{said.get('training-mode', 'async')}"
    batch = int(said.get("global-batch-size") or said["worker-batch-size"])
    flag = (
        "global_batch"
        if kvstore == "dist_sync"
        else "worker_batch"
        if container == "mxnet"
        else "batch"
    )
    assert batch == getattr(settings, flag)
    assert int(said["steps-per-epoch"]) == settings.examples // batch
