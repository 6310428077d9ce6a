"""The scheduler's own rules, before any extender is asked, in its words."""

from typing import Any

import pytest

from tests.conformance.api_calls import Json
from tests.conformance.scheduler.conftest import Scene
from tests.conformance.scheduler.extender import Extender

NO_ROOM = (
    "no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption "
    "victims found for incoming pod."
)
NOT_HELPFUL = (
    "no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is "
    "not helpful for scheduling."
)
TAINT = {"key": "pool", "value": "training", "effect": "NoSchedule"}


def affinity(*expressions: Json) -> Json:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def zone(operator: str, *values: str) -> Json:
    return affinity(
        {"key": "zone", "operator": operator, **({"values": list(values)} if values else {})}
    )


UNSELECTED = "1 node(s) didn't match Pod's node affinity/selector."
UNTOLERATED = "1 node(s) had untolerated taint(s)."


@pytest.mark.parametrize(
    ("node", "wanted", "why"),
    [
        pytest.param(
            {}, {"cpu": "5"}, f"1 Insufficient cpu. {NOT_HELPFUL}", id="more CPU than the node has"
        ),
        pytest.param(
            {},
            {"resources": {"requests": {"cpu": "1", "memory": "9Gi"}}},
            f"1 Insufficient memory. {NOT_HELPFUL}",
            id="more memory than the node has",
        ),
        pytest.param(
            {},
            {"resources": {"requests": {"cpu": "5", "memory": "9Gi"}}},
            f"1 Insufficient cpu, 1 Insufficient memory. {NOT_HELPFUL}",
            id="more of two resources than the node has",
        ),
        pytest.param(
            {},
            {"resources": {"limits": {"nvidia.com/gpu": "1"}}},
            f"1 Insufficient nvidia.com/gpu. {NOT_HELPFUL}",
            id="a device that the node does not have",
        ),
        pytest.param(
            {"unschedulable": True},
            {},
            f"1 node(s) were unschedulable. {NOT_HELPFUL}",
            id="a cordoned node",
        ),
        pytest.param({"taints": [TAINT]}, {}, f"{UNTOLERATED} {NOT_HELPFUL}", id="a tainted node"),
        pytest.param(
            {"taints": [{**TAINT, "effect": "NoExecute"}]},
            {},
            f"{UNTOLERATED} {NOT_HELPFUL}",
            id="a node that evicts",
        ),
        pytest.param(
            {"taints": [TAINT]},
            {"tolerations": [{"key": "pool", "value": "serving", "effect": "NoSchedule"}]},
            f"{UNTOLERATED} {NOT_HELPFUL}",
            id="a toleration of another value",
        ),
        pytest.param(
            {"labels": {"zone": "a"}},
            {"nodeSelector": {"zone": "b"}},
            f"{UNSELECTED} {NOT_HELPFUL}",
            id="a selector of another label",
        ),
        pytest.param(
            {"labels": {"zone": "a"}},
            {"affinity": zone("In", "b", "c")},
            f"{UNSELECTED} {NOT_HELPFUL}",
            id="not in",
        ),
        pytest.param(
            {"labels": {"zone": "a"}},
            {"affinity": zone("NotIn", "a")},
            f"{UNSELECTED} {NOT_HELPFUL}",
            id="in",
        ),
        pytest.param(
            {}, {"affinity": zone("Exists")}, f"{UNSELECTED} {NOT_HELPFUL}", id="not there"
        ),
        pytest.param(
            {"labels": {"zone": "a"}},
            {"affinity": zone("DoesNotExist")},
            f"{UNSELECTED} {NOT_HELPFUL}",
            id="there",
        ),
        pytest.param(
            {"labels": {"zone": "3"}},
            {"affinity": zone("Gt", "3")},
            f"{UNSELECTED} {NOT_HELPFUL}",
            id="not greater",
        ),
    ],
)
def test_a_node_is_refused_for(
    scene: Scene, extender: Extender, node: Json, wanted: Json, why: str
) -> None:
    scene.node("4", **node)
    scene.pod("p", **wanted)
    scene.wait_told("p", f"0/1 nodes are available: {why}")
    assert extender.calls == []


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        pytest.param({}, {"cpu": "4"}, id="all of the CPU"),
        pytest.param(
            {"taints": [TAINT]},
            {"tolerations": [{"key": "pool", "operator": "Exists"}]},
            id="a taint tolerated by key",
        ),
        pytest.param(
            {"taints": [TAINT]},
            {"tolerations": [{"operator": "Exists"}]},
            id="a taint tolerated with all",
        ),
        pytest.param(
            {"taints": [TAINT]},
            {"tolerations": [{"key": "pool", "value": "training", "effect": "NoSchedule"}]},
            id="a taint tolerated as it is",
        ),
        pytest.param(
            {"taints": [{**TAINT, "effect": "PreferNoSchedule"}]},
            {},
            id="a taint that only advises",
        ),
        pytest.param({"labels": {"zone": "a"}}, {"nodeSelector": {"zone": "a"}}, id="a selector"),
        pytest.param(
            {"labels": {"zone": "a"}},
            {"affinity": zone("In", "a", "b")},
            id="one of several values",
        ),
        pytest.param({}, {"affinity": zone("NotIn", "a")}, id="no label, not of a value"),
        pytest.param({"labels": {"zone": "4"}}, {"affinity": zone("Gt", "3")}, id="greater"),
    ],
)
def test_a_node_is_taken_with(scene: Scene, extender: Extender, node: Json, wanted: Json) -> None:
    name = scene.node("4", **node)
    scene.pod("p", **wanted)
    assert scene.wait_bound("p") == name


def test_a_pod_takes_capacity_of_its_node_until_it_has_ended(
    scene: Scene, extender: Extender
) -> None:
    name = scene.node("4")
    scene.pod("first", "3")
    scene.wait_bound("first")
    scene.pod("second", "3")
    scene.wait_told("second", f"0/1 nodes are available: 1 Insufficient cpu. {NO_ROOM}")
    scene.api.core.patch_namespaced_pod_status(
        "first", scene.namespace, {"status": {"phase": "Succeeded"}}
    )
    assert scene.wait_bound("second") == name


def test_pods_of_any_scheduler_take_room(scene: Scene, extender: Extender) -> None:
    name = scene.node("4")
    scene.pod("other", "3", schedulerName="nobody")
    scene.api.bind("other", scene.namespace, name)

    def refused() -> bool:
        """The scheduler hears of bound pods and of waiting ones on two ways: one of them may be
        quicker."""
        scene.pod("p", "2")
        scene.api.wait_until(lambda: scene.condition("p"), "it was tried")
        said = scene.why("p")
        scene.remove("p")
        return "Insufficient cpu" in said

    scene.api.wait_until(refused, "what the other one takes is missed")


def test_a_node_holds_so_many_pods(scene: Scene, extender: Extender) -> None:
    name = scene.node("4")
    body = {"status": {"allocatable": {"pods": "1"}}}
    scene.api.core.patch_node_status(name, body)
    scene.pod("first")
    scene.wait_bound("first")
    scene.pod("second")
    scene.wait_told("second", f"0/1 nodes are available: 1 Too many pods. {NO_ROOM}")


def test_the_largest_init_container_counts_beside_the_others(
    scene: Scene, extender: Extender
) -> None:
    scene.node("4")
    first: list[dict[str, Any]] = [
        {"name": "i", "image": "image:1", "resources": {"requests": {"cpu": "5"}}}
    ]
    scene.pod("p", "1", initContainers=first)
    assert "1 Insufficient cpu" in scene.wait_refused("p")


def test_reasons_are_counted_over_nodes(scene: Scene, extender: Extender) -> None:
    for _ in range(2):
        scene.node("1")
    scene.node("4", unschedulable=True)
    # A node on which the pod does not fit either would not wake it, and never be counted.
    scene.wait_known()
    scene.pod("p", "2")
    scene.wait_told(
        "p",
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. no new claims "
        "to deallocate, "
        "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
    )
    warning = ("Warning", "FailedScheduling", scene.why("p"))
    scene.api.wait_until(lambda: warning in events(scene, "p"), "an Event says the same")


def test_a_cluster_without_nodes_has_none(scene: Scene, extender: Extender) -> None:
    scene.pod("p")
    scene.wait_told("p", "no nodes available to schedule pods")


def test_a_bound_pod_gets_a_condition_and_an_event(scene: Scene, extender: Extender) -> None:
    name = scene.node()
    scene.pod("p")
    scene.wait_bound("p")
    condition = scene.condition("p")
    assert condition is not None
    assert (condition[0], condition[1] or "", condition[2] or "") == ("True", "", "")
    assigned = ("Normal", "Scheduled", f"Successfully assigned {scene.namespace}/p to {name}")
    scene.api.wait_until(lambda: assigned in events(scene, "p"), "an Event says so")


def test_pods_of_another_scheduler_and_gated_pods_are_not_scheduled(
    scene: Scene, extender: Extender
) -> None:
    scene.node()
    scene.pod("other", schedulerName="nobody")
    scene.pod("gated", schedulingGates=[{"name": "test/wait"}])
    scene.pod("p")
    scene.wait_bound("p")
    scene.api.holds(
        lambda: not scene.read("other").spec.node_name, "it is left to its own scheduler"
    )
    assert scene.read("gated").spec.node_name is None
    assert {call.pod for call in extender.calls} <= {"p"}
    scene.api.core.patch_namespaced_pod(
        "gated", scene.namespace, [{"op": "remove", "path": "/spec/schedulingGates/0"}]
    )
    scene.wait_bound("gated")


def events(scene: Scene, pod: str) -> list[tuple[str, str, str]]:
    found = scene.api.core.list_namespaced_event(
        scene.namespace, field_selector=f"involvedObject.name={pod}"
    ).items
    return [(each.type, each.reason, each.message) for each in found]
