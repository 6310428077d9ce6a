"""TrainJobs of Kubeflow Trainer 2, where its version is named (``OPTIMUS_TEST_TRAINER``): their
pods are those of JobSets that it makes."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from localcluster.cluster import LocalCluster
from localcluster.testing.waiting import holds_for
from optimus.cli.main import main
from optimus.kube.job_kinds import JOBSET_NAME, TRAINER_GROUP, TRAINJOB
from tests.e2e.extender.controllers import JOBSET_CONTROLLER, pod_until, running, trainer_controller
from tests.e2e.extender.scheduler import TrainingJobs, unharmed
from tests.harness.api import Api, in_namespace
from tests.harness.waiting import wait_until

# The first test waits until both controllers are built.
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

VERSION: Final = f"{TRAINER_GROUP}/v1alpha1"
TRAINJOBS: Final = in_namespace(f"/apis/{VERSION}", "default", "trainjobs")
STEP: Final = f"{TRAINER_GROUP}/trainjob-ancestor-step"

Told = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module")
def controllers(own: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folders = (tmp_path_factory.mktemp(name) for name in ("jobset", "trainer"))
    with (
        running(JOBSET_CONTROLLER, own, next(folders)),
        running(trainer_controller(), own, next(folders)),
    ):
        yield


@pytest.fixture
def train_jobs(own: LocalCluster, controllers: None) -> Iterator[TrainingJobs]:
    with TrainingJobs(own, "trainjob", JOBSET_NAME) as made:
        yield made


@pytest.fixture
def told(own: LocalCluster, capsys: pytest.CaptureFixture[str]) -> Told:
    """What ``optimus why`` tells of a TrainJob of this name."""

    def why(name: str) -> dict[str, Any]:
        capsys.readouterr()
        kubeconfig = f"--kubeconfig={own.kubeconfig}"
        assert main(["why", name, "-n", "default", "--json", kubeconfig]) == 0
        return dict(json.loads(capsys.readouterr().out))

    return why


def step(name: str, step: str, file: Path, *after: str) -> dict[str, Any]:
    """A replicated job of a runtime, created once those that it comes after are complete. Each pod
    takes one CPU, and ends once the file is there."""
    job = {"backoffLimit": 0, "template": {"spec": pod_until(file, name)}}
    template = {"metadata": {"labels": {STEP: step}}, "spec": job}
    depends = [{"name": each, "status": "Complete"} for each in after]
    found = {"name": name, "template": template}
    return {**found, "dependsOn": depends} if depends else found


def make_runtime(own: LocalCluster, name: str, *jobs: dict[str, Any], **fields: Any) -> None:
    """As the runtimes that Trainer brings for PyTorch."""
    body = {
        "apiVersion": VERSION,
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name, "labels": {f"{TRAINER_GROUP}/framework": "torch"}},
        "spec": {
            "mlPolicy": {"numNodes": 1, "torch": {}},
            "template": {"spec": {"replicatedJobs": jobs, **fields}},
        },
    }
    own.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(body))


def train_job(name: str, runtime: str, nodes: int, **fields: Any) -> str:
    """A TrainJob of so many pods that train."""
    spec = {"runtimeRef": {"name": runtime}, "trainer": {"numNodes": nodes}, **fields}
    metadata = {"name": name}
    return json.dumps({"apiVersion": VERSION, "kind": TRAINJOB, "metadata": metadata, "spec": spec})


def completed(api: Api, name: str) -> bool:
    conditions = api.get(f"{TRAINJOBS}/{name}").get("status", {}).get("conditions") or ()
    return any(each["type"] == "Complete" and each["status"] == "True" for each in conditions)


def test_a_train_job_is_bound_whole_on_the_fewest_nodes_and_the_next_one_waits_whole(
    own: LocalCluster, train_jobs: TrainingJobs, api: Api, told: Told, tmp_path: Path
) -> None:
    file = tmp_path / "end"
    with unharmed(own, tmp_path):
        make_runtime(own, "torch", step("node", "trainer", file))
        train_jobs.submit("first", train_job("first", "torch", 8))
        assert len({*train_jobs.wait_bound("first", 8).values()}) == 2
        train_jobs.submit("next", train_job("next", "torch", 10))
        train_jobs.wait_refused("next", 10, "default/next")
        holds_for(lambda: not train_jobs.nodes("next"), "no part of the gang is bound", 5.0)
        found = told("next")
        assert (found["job"], found["state"]) == ("TrainJob default/next", "waiting")
        file.touch()
        wait_until("the first one has ended", lambda: completed(api, "first"))
        train_jobs.wait_bound("next", 10)  # as soon as there is room, on any nodes
        wait_until("the next one, too", lambda: completed(api, "next"))


def test_a_train_job_that_loads_data_first_is_told_of_by_its_steps(
    own: LocalCluster, train_jobs: TrainingJobs, api: Api, told: Told, tmp_path: Path
) -> None:
    loaded, file = tmp_path / "loaded", tmp_path / "end"
    loads = ("dataset-initializer", "model-initializer")
    with unharmed(own, tmp_path):
        steps = [step(each, each, loaded) for each in loads]
        make_runtime(own, "tune", *steps, step("node", "trainer", file, *loads))
        train_jobs.submit("tune", train_job("tune", "tune", 1))
        train_jobs.wait_bound("tune", 2)
        wait_until("data are loaded", lambda: told("tune")["state"] == "running")
        (later,) = (each["text"] for each in told("tune")["details"] if each["what"] == "later")
        assert later.startswith("1 pod of node")
        loaded.touch()
        train_jobs.wait_bound("tune", 3)
        wait_until("it trains", lambda: told("tune")["headline"] == "runs: its pod has a node")
        file.touch()
        wait_until("it has ended", lambda: completed(api, "tune"))
