"""The node agent works against the embedded API server as it does against a real one."""

from typing import Any

import pytest
from kubernetes import client, watch
from kubernetes.client.exceptions import NotFoundException

from localcluster.cluster import LocalCluster
from tests.integration.embedded.waiting import Core, until

TALKING = "trap 'echo bye; exit 0' TERM; echo hello; while true; do sleep 0.1; done"


def run(core: Core, name: str, script: str) -> None:
    """Make a pod and bind it by hand; return when it runs or has ended."""
    container = {"name": "c", "image": "busybox", "command": ["sh", "-c", script]}
    spec = {"schedulerName": "nobody", "restartPolicy": "Never", "containers": [container]}
    core.create_namespaced_pod("default", {"metadata": {"name": name}, "spec": spec})
    binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "node-1"}}
    core.create_namespaced_pod_binding(name, "default", binding, _preload_content=False)
    until(lambda: phase(core, name) not in {None, "Pending"}, f"{name} runs")


def phase(core: Core, name: str) -> str | None:
    try:
        found: Any = core.read_namespaced_pod(name, "default")
    except NotFoundException:
        return None
    word: str = found.status.phase
    return word


def test_the_nodes_are_registered_and_ready(core: Core) -> None:
    nodes: Any = core.list_node()
    assert [each.metadata.name for each in nodes.items] == ["node-1", "node-2"]
    until(
        lambda: not any(each.spec.taints for each in core.list_node().items), "no node is tainted"
    )


def test_a_pod_that_is_bound_by_hand_runs_to_its_end(core: Core) -> None:
    run(core, "short", "echo done")
    until(lambda: phase(core, "short") == "Succeeded", "it ends")
    assert core.read_namespaced_pod_log("short", "default") == "done\n"


def test_a_pod_is_followed_and_ends_within_its_grace(core: Core) -> None:
    run(core, "talking", TALKING)
    until(lambda: core.read_namespaced_pod_log("talking", "default") == "hello\n", "it says hello")
    following: Any = watch.Watch  # without types in the package
    lines = following().stream(
        core.read_namespaced_pod_log, name="talking", namespace="default", follow=True
    )
    assert next(lines) == "hello"
    core.delete_namespaced_pod("talking", "default", grace_period_seconds=20)
    assert list(lines) == ["bye"]
    until(lambda: phase(core, "talking") is None, "it is gone")


@pytest.mark.parametrize(
    ("kind", "roles", "container", "script"),
    [
        ("TFJob", ("PS", "Worker"), "tensorflow", 'echo "$TF_CONFIG"'),
        ("PyTorchJob", ("Master", "Worker"), "pytorch", 'test "$WORLD_SIZE $PET_NNODES" = "2 2"'),
    ],
)
def test_a_job_is_created_scheduled_run_and_reported(
    core: Core,
    cluster: LocalCluster,
    kind: str,
    roles: tuple[str, ...],
    container: str,
    script: str,
) -> None:
    with cluster.api_client() as api:
        custom = client.CustomObjectsApi(api)
        runs = {"name": container, "image": "busybox", "command": ["sh", "-c", script]}
        template = {"spec": {"containers": [runs]}}
        replicas = {"replicas": 1, "restartPolicy": "Never", "template": template}
        field = f"{kind.lower().removesuffix('job')}ReplicaSpecs"
        body = {
            "apiVersion": "kubeflow.org/v1",
            "kind": kind,
            "metadata": {"name": "j"},
            "spec": {field: dict.fromkeys(roles, replicas)},
        }
        place = ("kubeflow.org", "v1", "default", f"{kind.lower()}s")
        custom.create_namespaced_custom_object(*place, body)

        def succeeded() -> bool:
            job: Any = custom.get_namespaced_custom_object(*place, "j")
            conditions = (job.get("status") or {}).get("conditions") or ()
            return any(
                each["type"] == "Succeeded" and each["status"] == "True" for each in conditions
            )

        until(succeeded, "the job succeeds")
        custom.delete_namespaced_custom_object(*place, "j")
    until(lambda: phase(core, "j-worker-0") is None, "its pods are collected")
