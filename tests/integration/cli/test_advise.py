"""``optimus advise`` on a cluster on which nothing of Optimus is installed, with jobs that ask for
nothing of it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from localcluster.cluster import LocalCluster
from localcluster.specs import Backend
from localcluster.testing.waiting import wait_until
from optimus.cli.main import main
from tests.harness.api import CORE, KUBEFLOW, PLURALS, Api, in_namespace
from tests.harness.light_jobs import CLAIM, SLEEP, LightJob
from tests.harness.optimus_cluster import training_nodes
from tests.harness.small_jobs import SMALL

_REQUESTS: Final = {"PS": SMALL, "Worker": SMALL, "Scheduler": SMALL}
_SLOW: Final = {"--epochs": "200", "--examples-per-epoch": "640", "--log-seconds": "0.5"}
_PLAIN: Final = LightJob(
    "TFJob", "declares", requests=_REQUESTS, flags=_SLOW, scheduler="default-scheduler"
)
JOBS: Final = (
    _PLAIN,
    replace(_PLAIN, name="many", ps=1, workers=4, annotations={"optimus.dl/training-mode": "sync"}),
    replace(_PLAIN, kind="MXJob", name="mxnet"),
    replace(_PLAIN, name="endless", flags={**_SLOW, "--epochs": "0"}),
    replace(_PLAIN, name="silent", script=SLEEP),
    replace(_PLAIN, name="waits", node_selector={"there-is": "none"}),
    replace(_PLAIN, name="short", flags={**_SLOW, "--epochs": "1"}),
)


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cluster with the jobs."""
    folder = tmp_path_factory.mktemp("checkpoints")
    nodes = training_nodes("4", "4", "4")
    with (
        LocalCluster("advise", nodes, backend=Backend.EMBEDDED) as cluster,
        cluster.api_client() as client,
    ):
        api = Api(client)
        spec = {"accessModes": ["ReadWriteMany"], "volumeName": CLAIM, "storageClassName": ""}
        volume = {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": str(folder)},
            "claimRef": {"namespace": "default", "name": CLAIM},
        }
        api.create(f"{CORE}/persistentvolumes", {"metadata": {"name": CLAIM}, "spec": volume})
        claim = {
            "metadata": {"name": CLAIM},
            "spec": {**spec, "resources": {"requests": {"storage": "1Gi"}}},
        }
        api.create(in_namespace(CORE, "default", "persistentvolumeclaims"), claim)
        for job in JOBS:
            path = in_namespace(KUBEFLOW, "default", PLURALS[job.kind])
            api.create(path, job.manifest("default"))
        yield cluster.kubeconfig


def _advice(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["advise", "--json", "--kubeconfig", str(kubeconfig)]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.timeout(600)
def test_each_job_is_advised_or_said_why_it_is_not(
    kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = wait_until(
        lambda: (
            (advice := _advice(kubeconfig, capsys))["summary"]["advised"] == 4
            and advice["summary"]["ended"] == 1
            and advice
        ),
        "four jobs have shown enough, and one has ended",
        300,
        lambda: json.dumps(_advice(kubeconfig, capsys), indent=1),
    )
    assert found["summary"]["running"] == 6
    jobs = {each["name"]: each for each in found["jobs"]}
    for name in ("declares", "many", "mxnet"):
        job = jobs[name]
        assert job["goal"] == "200 epochs"
        left = job["remainingSeconds"]
        assert 0 < left["low"] < left["median"] < left["high"]
        assert job["stepsPerSecond"] > 0
    assert "declares no end" in jobs["endless"]["noEnd"]
    assert jobs["silent"]["problem"]
    assert jobs["waits"]["problem"] == "none of its pods trains"
    assert jobs["short"]["outcome"] == "Succeeded"
    assert "no metrics API" in found["notKnown"][0]
    assert main(["advise", "--kubeconfig", str(kubeconfig)]) == 0
    text = capsys.readouterr().out
    assert text.startswith(
        "namespace default: 6 jobs have not ended: 4 advised, 2 not advised; 1 has ended."
    )
    assert main(["advise", "many", "--kubeconfig", str(kubeconfig)]) == 0
    full = capsys.readouterr().out
    assert "its end (200 epochs, as its program declares)" in full
