"""A user's kubectl on the embedded back end, which brings none: here it is the one of the real control plane."""

import json
from collections.abc import Iterator

import pytest

from localcluster.binaries.locate import resolve
from localcluster.cluster import LocalCluster
from localcluster.progress import Lines
from localcluster.specs import Backend, NodeSpec
from tests.clusters import Shown

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"app": "said"}},
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "busybox", "command": ["sh", "-c", "echo one; sleep 0.5; echo two"]}],
    },
}


@pytest.fixture(scope="module")
def embedded(shown: Shown) -> Iterator[LocalCluster]:
    """An embedded cluster whose user has a kubectl on PATH."""
    found = resolve(None, Lines())
    with (
        pytest.MonkeyPatch.context() as patch,
        LocalCluster("kubectl", [NodeSpec("n1", {"cpu": "2"})], backend=Backend.EMBEDDED) as cluster,
        shown(cluster),
    ):
        patch.setenv("PATH", str(found["kubectl"].parent), prepend=":")
        yield cluster


def test_a_pod_is_applied_followed_shown_and_deleted(embedded: LocalCluster) -> None:
    kubectl = embedded.kubectl
    assert kubectl("apply", "-f", "-", input=json.dumps(POD)) == "pod/p created\n"
    kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=30s")
    assert kubectl("logs", "-f", "p") == "one\ntwo\n"
    kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/p", "--timeout=30s")
    header, row = (line.split() for line in kubectl("get", "pods", "-l", "app=said").splitlines())
    assert dict(zip(header, row, strict=True)) | {"AGE": ""} == {
        "NAME": "p",
        "READY": "0/1",
        "STATUS": "Completed",
        "RESTARTS": "0",
        "AGE": "",
    }
    assert "Successfully assigned default/p to n1" in kubectl("describe", "pod", "p")
    assert kubectl("delete", "pod", "p").startswith('pod "p" deleted')


def test_who_does_not_show_the_token_is_not_let_in(embedded: LocalCluster) -> None:
    server = json.loads(embedded.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    nobody = "http://" + server.partition("@")[2]
    with pytest.raises(Exception, match="logged in"):
        embedded.kubectl("--server", nobody, "get", "pods")
