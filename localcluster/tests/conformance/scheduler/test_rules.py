"""The scheduler's own rules, before any extender is asked, in its words."""

from typing import Any

import pytest

from tests.conformance.api_calls import Json
from tests.conformance.scheduler.conftest import SchedulingHarness
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
def test_a_node_is_infeasible_for(
    harness: SchedulingHarness, extender: Extender, node: Json, wanted: Json, why: str
) -> None:
    harness.node("4", **node)
    harness.pod("p", **wanted)
    harness.wait_message("p", f"0/1 nodes are available: {why}")
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
def test_a_node_is_feasible_with(
    harness: SchedulingHarness, extender: Extender, node: Json, wanted: Json
) -> None:
    name = harness.node("4", **node)
    harness.pod("p", **wanted)
    assert harness.wait_bound("p") == name


def test_a_pod_takes_capacity_of_its_node_until_it_has_ended(
    harness: SchedulingHarness, extender: Extender
) -> None:
    name = harness.node("4")
    harness.pod("first", "3")
    harness.wait_bound("first")
    harness.pod("second", "3")
    harness.wait_message("second", f"0/1 nodes are available: 1 Insufficient cpu. {NO_ROOM}")
    harness.api.core.patch_namespaced_pod_status(
        "first", harness.namespace, {"status": {"phase": "Succeeded"}}
    )
    assert harness.wait_bound("second") == name


def test_pods_of_any_scheduler_take_room(harness: SchedulingHarness, extender: Extender) -> None:
    name = harness.node("4")
    harness.pod("other", "3", schedulerName="nobody")
    harness.api.bind("other", harness.namespace, name)

    def refused() -> bool:
        """The scheduler hears of bound pods and of waiting ones on two ways: one of them may be
        quicker."""
        harness.pod("p", "2")
        harness.api.wait_until(lambda: harness.condition("p"), "it was tried")
        said = harness.why("p")
        harness.remove("p")
        return "Insufficient cpu" in said

    harness.api.wait_until(refused, "what the other one takes is missed")


def test_a_node_holds_so_many_pods(harness: SchedulingHarness, extender: Extender) -> None:
    name = harness.node("4")
    body = {"status": {"allocatable": {"pods": "1"}}}
    harness.api.core.patch_node_status(name, body)
    harness.pod("first")
    harness.wait_bound("first")
    harness.pod("second")
    harness.wait_message("second", f"0/1 nodes are available: 1 Too many pods. {NO_ROOM}")


def test_the_largest_init_container_counts_beside_the_others(
    harness: SchedulingHarness, extender: Extender
) -> None:
    harness.node("4")
    first: list[dict[str, Any]] = [
        {"name": "i", "image": "image:1", "resources": {"requests": {"cpu": "5"}}}
    ]
    harness.pod("p", "1", initContainers=first)
    assert "1 Insufficient cpu" in harness.wait_refused("p")


def test_reasons_are_counted_over_nodes(harness: SchedulingHarness, extender: Extender) -> None:
    for _ in range(2):
        harness.node("1")
    harness.node("4", unschedulable=True)
    # A node on which the pod does not fit either would not wake it, and never be counted.
    harness.wait_known()
    harness.pod("p", "2")
    harness.wait_message(
        "p",
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. no new claims "
        "to deallocate, "
        "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
    )
    warning = ("Warning", "FailedScheduling", harness.why("p"))
    harness.api.wait_until(lambda: warning in events(harness, "p"), "an Event says the same")


def test_a_cluster_without_nodes_has_none(harness: SchedulingHarness, extender: Extender) -> None:
    harness.pod("p")
    harness.wait_message("p", "no nodes available to schedule pods")


def test_a_bound_pod_gets_a_condition_and_an_event(
    harness: SchedulingHarness, extender: Extender
) -> None:
    name = harness.node()
    harness.pod("p")
    harness.wait_bound("p")
    condition = harness.condition("p")
    assert condition is not None
    assert (condition[0], condition[1] or "", condition[2] or "") == ("True", "", "")
    assigned = ("Normal", "Scheduled", f"Successfully assigned {harness.namespace}/p to {name}")
    harness.api.wait_until(lambda: assigned in events(harness, "p"), "an Event says so")


def test_pods_of_another_scheduler_and_gated_pods_are_not_scheduled(
    harness: SchedulingHarness, extender: Extender
) -> None:
    harness.node()
    harness.pod("other", schedulerName="nobody")
    harness.pod("gated", schedulingGates=[{"name": "test/wait"}])
    harness.pod("p")
    harness.wait_bound("p")
    harness.api.holds(
        lambda: not harness.read("other").spec.node_name, "it is left to its own scheduler"
    )
    assert harness.read("gated").spec.node_name is None
    assert {call.pod for call in extender.calls} <= {"p"}
    harness.api.core.patch_namespaced_pod(
        "gated", harness.namespace, [{"op": "remove", "path": "/spec/schedulingGates/0"}]
    )
    harness.wait_bound("gated")


def events(harness: SchedulingHarness, pod: str) -> list[tuple[str, str, str]]:
    found = harness.api.core.list_namespaced_event(
        harness.namespace, field_selector=f"involvedObject.name={pod}"
    ).items
    return [(each.type, each.reason, each.message) for each in found]
