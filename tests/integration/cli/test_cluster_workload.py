"""``optimus simulate --from-cluster`` against the embedded control plane."""

import json
from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from localcluster.specs import Backend
from localcluster.testing.waiting import wait_until
from optimus.cli.main import main
from tests.harness.api import CORE, KUBEFLOW, OPTIMUS, Api, in_namespace
from tests.harness.light_jobs import LightJob
from tests.harness.optimus_cluster import REPOSITORY, training_nodes
from tests.unit.cli.fake_api import stored_state

_GOAL = {"optimus.dl/target-loss": "0.2", "optimus.dl/max-workers": "8", "optimus.dl/max-ps": "8"}
_NAMESPACE = "replayed"
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two nodes, and profiles; nothing of Optimus runs."""
    nodes = training_nodes("8", "8")
    with LocalCluster("from-cluster", nodes, backend=Backend.EMBEDDED) as running:
        running.apply(REPOSITORY / "manifests" / "crds" / "crd-trainingprofiles.yaml")
        yield running


def _submit(api: Api, name: str) -> str:
    """A job that is not begun; its UID."""
    job = LightJob("TFJob", name, ps=1, workers=2, annotations=_GOAL).manifest(_NAMESPACE)
    job["spec"]["runPolicy"]["suspend"] = True
    created = api.create(in_namespace(KUBEFLOW, _NAMESPACE, "tfjobs"), job)
    return str(created["metadata"]["uid"])


def _profile(api: Api, name: str, uid: str) -> None:
    """What the autoscaler would have stored of it."""
    path = in_namespace(OPTIMUS, _NAMESPACE, "trainingprofiles")
    body = {
        "apiVersion": "optimus.dl/v1alpha1",
        "kind": "TrainingProfile",
        "metadata": {"name": name, "namespace": _NAMESPACE},
        "spec": {"jobRef": {"kind": "TFJob", "name": name, "uid": uid}},
    }
    api.create(path, body)
    status = {"phase": "Training", "decidedAt": "2026-01-01T00:04:00Z", "state": stored_state()}
    api.patch(f"{path}/{name}/status", {"status": status})


def test_another_policy_is_tried_on_the_jobs_and_nodes_of_a_cluster(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    with cluster.api_client() as client:
        api = Api(client)
        wait_until(lambda: api.find(f"{OPTIMUS}/trainingprofiles"), "profiles are served", 180)
        api.create(f"{CORE}/namespaces", {"metadata": {"name": _NAMESPACE}})
        for name in ("one", "two"):
            _profile(api, name, _submit(api, name))
        _submit(api, "new")
    capsys.readouterr()
    options = ("--from-cluster", "-n", _NAMESPACE, "--kubeconfig", str(cluster.kubeconfig))
    assert main(["simulate", *options, "--policies", "optimus,fifo", "--seeds", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["workload"], found["jobs"]) == ("cluster", 2)
    assert found["policies"].keys() == {"optimus", "fifo"}
    (said,) = found["left_out"]
    assert said.startswith(f"job {_NAMESPACE}/new: ")
