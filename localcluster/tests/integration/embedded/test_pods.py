"""The node agent works against the embedded API server as it does against a real one."""

from typing import Any

from kubernetes import watch
from kubernetes.client.exceptions import NotFoundException

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
