"""The scheduler's pods, of the class system-cluster-critical, on an API server that limits it.

An API server by default admits the class in every namespace. Some clusters (GKE) configure the
admission plugin ResourceQuota so that pods of the class need a quota in their namespace."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from localcluster.cluster import LocalCluster
from localcluster.errors import KubectlError
from localcluster.node.launcher import tied
from tests.e2e.extender.scheduler import free_port
from tests.e2e.kube.conftest import MANIFESTS
from tests.harness.waiting import LONG_SECONDS, wait_until

LIMITED = {
    "apiVersion": "apiserver.config.k8s.io/v1",
    "kind": "AdmissionConfiguration",
    "plugins": [
        {
            "name": "ResourceQuota",
            "configuration": {
                "apiVersion": "apiserver.config.k8s.io/v1",
                "kind": "ResourceQuotaConfiguration",
                "limitedResources": [
                    {
                        "resource": "pods",
                        "matchScopes": [
                            {
                                "scopeName": "PriorityClass",
                                "operator": "In",
                                "values": ["system-node-critical", "system-cluster-critical"],
                            }
                        ],
                    }
                ],
            },
        }
    ],
}


@pytest.fixture
def limited(granted: LocalCluster, tmp_path: Path) -> Iterator[str]:
    """The address of a second API server of the same cluster, with that configuration."""
    process = granted.components["kube-apiserver"].process
    assert process is not None
    command = Path(f"/proc/{process.pid}/cmdline").read_text().rstrip("\0").split("\0")
    admission, port = tmp_path / "admission.yaml", free_port()
    admission.write_text(yaml.safe_dump(LIMITED))
    flags = [each for each in command if not each.startswith("--secure-port=")]
    flags += [f"--secure-port={port}", f"--admission-control-config-file={admission}"]
    # Its own address would take the place of the first server's in the Service "kubernetes".
    flags += ["--endpoint-reconciler-type=none"]
    with (tmp_path / "apiserver.log").open("wb") as log:
        second = subprocess.Popen(tied(flags, tmp_path), stdout=log, stderr=log)
    server = f"https://127.0.0.1:{port}"

    def is_ready() -> bool:
        try:
            return granted.kubectl("--server", server, "get", "--raw", "/readyz") == "ok"
        except KubectlError:
            return False

    try:
        wait_until("the second API server is ready", is_ready)
        yield server
    finally:
        second.terminate()
        second.wait(LONG_SECONDS)


def create_pod(cluster: LocalCluster, *flags: str) -> str:
    """Create a pod as the Deployment would, without effect; returns its priority."""
    deployment = yaml.safe_load((MANIFESTS / "scheduler.yaml").read_text())
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "namespace": "optimus-system"},
        "spec": deployment["spec"]["template"]["spec"],
    }
    command = [*flags, "create", "--dry-run=server", "-f", "-", "-o", "json"]
    made = json.loads(cluster.kubectl(*command, stdin=json.dumps(pod)))
    return str(made["spec"]["priority"])


def test_an_api_server_with_defaults_admits_the_class_in_any_namespace(
    granted: LocalCluster,
) -> None:
    assert create_pod(granted) == "2000000000"


def test_where_the_class_needs_a_quota_the_shipped_one_admits_the_scheduler(
    granted: LocalCluster, limited: str
) -> None:
    server = ("--server", limited)
    with pytest.raises(KubectlError, match="insufficient quota to match these scopes"):
        create_pod(granted, *server)
    quota = str(MANIFESTS / "quota-scheduler.yaml")
    granted.kubectl("apply", "--server-side", "-f", quota)

    def is_admitted() -> bool:
        try:
            return create_pod(granted, *server) == "2000000000"
        except KubectlError:
            return False  # until the quota's use is counted

    try:
        wait_until("the pod is admitted", is_admitted)
    finally:
        granted.kubectl("delete", "-f", quota)
