"""Clients of the embedded API server continue after a dropped history."""

from collections.abc import Iterator

import pytest

from localcluster.api_calls import ApiCalls
from localcluster.cluster import LocalCluster
from localcluster.embedded.apiserver.routes import COMPACT
from localcluster.processes import alive
from localcluster.specs import Backend
from optimus.kube.client import connect
from optimus.kube.pods import Pod, watched_pods
from optimus.kube.reflector import Reflector, ReflectorConfig
from tests.integration.embedded.waiting import Core, until

RULES = ReflectorConfig(watch_seconds=2.0)


@pytest.fixture
def pods(cluster: LocalCluster) -> Iterator[Reflector[Pod]]:
    """The copy that both processes keep of pods."""
    reflector = Reflector(
        connect(cluster.kubeconfig, user_agent="test"), watched_pods(), config=RULES
    )
    reflector.start()
    assert reflector.wait_synced(180.0), reflector.failure
    yield reflector
    reflector.stop()


def make(core: Core, name: str) -> None:
    spec = {"schedulerName": "nobody", "containers": [{"name": "c", "image": "busybox"}]}
    core.create_namespaced_pod("default", {"metadata": {"name": name}, "spec": spec})


def test_a_reflector_lists_again_after_its_version_expired(
    cluster: LocalCluster, core: Core, pods: Reflector[Pod]
) -> None:
    make(core, "old")
    until(lambda: pods.find("default", "old"), "the copy has the pod")
    core.delete_namespaced_pod("old", "default")
    ApiCalls(connect(cluster.kubeconfig, user_agent="test")).create(COMPACT, {})
    make(core, "new")
    until(lambda: pods.find("default", "new"), "the copy has the new pod")
    until(lambda: pods.find("default", "old") is None, "and has lost the old one")
    core.delete_namespaced_pod("new", "default")


def test_no_process_and_no_folder_of_a_cluster_survives_its_stop() -> None:
    with LocalCluster("embedded-short", backend=Backend.EMBEDDED) as cluster:
        processes = list(cluster.status.processes())
        assert len(processes) == 3
        assert all(alive(each) for each in processes)
    assert not any(alive(each) for each in processes)
    assert not cluster.paths.root.exists()
