"""The agent itself: back-off as configured, and what becomes of pods when it is killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from localcluster.specs import NodeSpec, Taint
from localcluster.testing.clusters import Shown
from localcluster.testing.waiting import wait_until
from tests.e2e.node.pods import Namespace, container, pod


@pytest.fixture(scope="module")
def own(shown: Shown) -> Iterator[Namespace]:
    """A cluster of these tests' own, with two different nodes and short back-off."""
    nodes = (
        NodeSpec("plain", {"cpu": "2"}),
        NodeSpec(
            "pool",
            {"cpu": "8", "nvidia.com/gpu": "4"},
            {"pool": "training"},
            (Taint("only", "training"),),
        ),
    )
    settings = {"settings": {"back_off": {"base_seconds": 0.5}, "refresh_seconds": 1}}
    with LocalCluster("agent", nodes, agent=settings) as cluster, shown(cluster):
        yield Namespace(cluster, "default")


def test_nodes_are_ready_as_they_were_specified(own: Namespace) -> None:
    own.kubectl("wait", "node", "--all", "--for=condition=Ready", "--timeout=180s")
    node = own.get("node", "pool")
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    assert node["metadata"]["labels"]["pool"] == "training"
    assert {"key": "only", "value": "training", "effect": "NoSchedule"} in node["spec"]["taints"]

    def lease() -> str:
        return own.cluster.kubectl(
            *("get", "lease", "pool", "-n", "kube-node-lease", "--ignore-not-found"),
            "-o=jsonpath={.spec.holderIdentity}",
        )

    assert wait_until(lease, "the node has a Lease", 180) == "pool"


def test_a_label_that_is_added_later_counts_at_admission(own: Namespace) -> None:
    own.kubectl("label", "node", "plain", "given=later")
    own.make(pod("labelled", container("true"), nodeSelector={"given": "later"}))
    own.wait("labelled", ".status.phase=Succeeded")


def test_a_config_map_in_a_volume_follows_its_object(own: Namespace, tmp_path: Path) -> None:
    own.kubectl("create", "configmap", "c", "--from-literal=k=first")
    script = "until grep -q second /c/k; do sleep 0.1; done; echo seen"
    mounts = [{"name": "c", "mountPath": "/c"}]
    own.make(
        pod(
            "watch",
            container(script, volumeMounts=mounts),
            volumes=[{"name": "c", "configMap": {"name": "c"}}],
        )
    )
    own.wait("watch", ".status.phase=Running")
    own.kubectl("patch", "configmap", "c", "-p", '{"data":{"k":"second"}}')
    assert own.ended("watch") == "seen\n"


def test_pods_of_a_killed_agent_end_with_it_and_are_run_again_by_the_next(own: Namespace) -> None:
    script = "exec sleep 1000"
    own.make(
        pod("restarts", container(script), restartPolicy="Always"),
        pod("never", container(script)),
        pod("over", container("echo done")),
    )
    own.wait("over", ".status.phase=Succeeded")
    for name in ("restarts", "never"):
        own.wait(name, ".status.phase=Running")
    own.cluster.wait_restarted("node-agent", own.cluster.kill("node-agent"))
    failed = own.wait("never", ".status.phase=Failed")["status"]["containerStatuses"][0]["state"][
        "terminated"
    ]
    assert (failed["exitCode"], failed["reason"]) == (137, "ContainerStatusUnknown")
    assert "node agent" in failed["message"]
    again = own.wait("restarts", ".status.containerStatuses[0].restartCount=1")
    own.wait("restarts", ".status.phase=Running")
    assert (
        again["status"]["containerStatuses"][0]["lastState"]["terminated"]["reason"]
        == "ContainerStatusUnknown"
    )
    assert own.get("pod", "over")["status"]["phase"] == "Succeeded"
    assert own.kubectl("logs", "over") == "done\n"
    own.kubectl("delete", "pod", "restarts", "never", "over", "--timeout=180s")
