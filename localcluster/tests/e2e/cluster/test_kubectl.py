"""A user's kubectl on the embedded back end, which brings none: here it is the one of the real
control plane, unless the machine has one."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster.binaries.locate import resolve
from localcluster.cluster import LocalCluster
from localcluster.progress import PlainProgress
from localcluster.specs import Backend, NodeSpec
from localcluster.testing.clusters import Shown
from localcluster.testing.waiting import wait_until


def pod(name: str, script: str, sign: Path) -> str:
    """A manifest of a pod that runs a script; the folder of `sign` is at /sign."""
    mounts = [{"name": "v", "mountPath": "/sign"}]
    container = {
        "name": "c",
        "image": "busybox",
        "command": ["sh", "-c", script],
        "volumeMounts": mounts,
    }
    volumes = [{"name": "v", "hostPath": {"path": str(sign.parent)}}]
    spec = {"restartPolicy": "Never", "containers": [container], "volumes": volumes}
    metadata = {"name": name, "labels": {"app": "said"}}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


@pytest.fixture(scope="module")
def embedded(shown: Shown) -> Iterator[LocalCluster]:
    """An embedded cluster whose user has a kubectl on PATH."""
    kubectl = shutil.which("kubectl") or resolve(PlainProgress())["kubectl"]
    with (
        pytest.MonkeyPatch.context() as patch,
        LocalCluster(
            "kubectl", [NodeSpec("n1", {"cpu": "2"})], backend=Backend.EMBEDDED
        ) as cluster,
        shown(cluster),
    ):
        patch.setenv("PATH", str(Path(kubectl).parent), prepend=":")
        yield cluster


def test_a_pod_is_applied_followed_shown_and_deleted(
    embedded: LocalCluster, tmp_path: Path
) -> None:
    kubectl, sign = embedded.kubectl, tmp_path / "go"
    # It runs until it is told to go on, so that whoever waits for it comes in time.
    script = "echo one; while [ ! -e /sign/go ]; do sleep 0.05; done; echo two"
    assert kubectl("apply", "-f", "-", stdin=pod("p", script, sign)) == "pod/p created\n"
    kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=180s")
    sign.touch()
    assert kubectl("logs", "-f", "p") == "one\ntwo\n"
    kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/p", "--timeout=180s")
    assert kubectl("get", "pods", "-l", "app=said").split()[:3] == ["NAME", "AGE", "p"]
    wait_until(
        lambda: "Successfully assigned default/p to n1" in kubectl("describe", "pod", "p"),
        "an Event tells its node",
        180,
    )
    assert kubectl("delete", "pod", "p").startswith('pod "p" deleted')


def test_a_call_without_the_token_is_refused(embedded: LocalCluster) -> None:
    server = json.loads(embedded.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    nobody = "http://" + server.partition("@")[2]
    with pytest.raises(Exception, match="logged in"):
        embedded.kubectl("--server", nobody, "get", "pods")
