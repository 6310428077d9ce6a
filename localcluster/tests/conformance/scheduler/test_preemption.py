"""Pods of higher priority: who is tried first, and who is evicted for them."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from tests.conformance.api_calls import Json
from tests.conformance.scheduler.conftest import STANDARD, Scheduling, SchedulingHarness
from tests.conformance.scheduler.extender import Answer, Extender, always, keep
from tests.conformance.scheduler.test_rules import NOT_HELPFUL, events

LEVELS = {"conformance-low": 10, "conformance-middle": 500, "conformance-high": 1000}
LOW, MIDDLE, HIGH = LEVELS
NEVER = "conformance-never"
NO_CLAIMS = "no new claims to deallocate"
FULL = "0/1 nodes are available: 1 Insufficient cpu."
_ANSWER_SECONDS = 60
"""The extender's time-out where it holds an answer back."""


@pytest.fixture(autouse=True)
def levels(harness: SchedulingHarness) -> Iterator[None]:
    """PriorityClasses, and no grace period that nobody waits for."""
    classes: Any = client.SchedulingV1Api(harness.api.client)
    for name, value in LEVELS.items():
        with suppress(ApiException):
            classes.create_priority_class({"metadata": {"name": name}, "value": value})
    with suppress(ApiException):
        never = {"value": LEVELS[HIGH], "preemptionPolicy": "Never"}
        classes.create_priority_class({"metadata": {"name": NEVER}, **never})
    yield
    for name in (*LEVELS, NEVER):
        classes.delete_priority_class(name)


@pytest.fixture
def preempting(scheduling: Scheduling, extender: Extender) -> Iterator[str]:
    """A scheduler whose extender is asked about preemptions."""
    with scheduling(urlPrefix=extender.url, preemptVerb="preempt", **STANDARD) as name:
        yield name


def place(harness: SchedulingHarness, name: str, level: str, cpu: str = "4", **spec: Any) -> str:
    """Make a pod of a priority and wait until it has a node."""
    harness.pod(name, cpu, priorityClassName=level, **spec)
    return harness.wait_bound(name)


def wait_leaving(harness: SchedulingHarness, name: str) -> Any:
    """Wait until a pod is being deleted; return it. No kubelet ends it."""
    harness.api.wait_until(
        lambda: harness.read(name).metadata.deletion_timestamp, f"{name} is being deleted"
    )
    return harness.read(name)


def stays(harness: SchedulingHarness, *names: str) -> None:
    """None of these pods is being deleted."""
    assert [n for n in names if harness.read(n).metadata.deletion_timestamp] == []


class TestVictims:
    def test_a_pod_of_lower_priority_makes_room(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        node = harness.node("4")
        place(harness, "low", LOW)
        harness.pod("high", "4", priorityClassName=HIGH)
        leaving = wait_leaving(harness, "low")
        assert leaving.metadata.deletion_grace_period_seconds == 30
        (condition,) = [c for c in leaving.status.conditions if c.type == "DisruptionTarget"]
        assert (condition.status, condition.reason, condition.message) == (
            "True",
            "PreemptionByScheduler",
            f"{harness.scheduler}: preempting to accommodate a higher priority pod",
        )
        uid = harness.read("high").metadata.uid
        preempted = ("Normal", "Preempted", f"Preempted by pod {uid} on node {node}")
        harness.api.wait_until(lambda: preempted in events(harness, "low"), "an Event says so")
        harness.api.wait_until(
            lambda: harness.read("high").status.nominated_node_name == node, "it is nominated"
        )
        harness.wait_message("high", FULL)
        harness.remove("low")
        assert harness.wait_bound("high") == node
        assert extender.asked("high", "preempt") == []

    def test_the_fewest_and_least_important_go_and_the_others_stay(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        harness.node("4")
        place(harness, "low", LOW, "1")
        place(harness, "other", LOW, "1")
        place(harness, "middle", MIDDLE, "1")
        place(harness, "high", HIGH, "1")
        harness.pod("p", "2", priorityClassName=HIGH)
        wait_leaving(harness, "low")
        wait_leaving(harness, "other")
        stays(harness, "middle", "high")

    def test_the_node_is_taken_whose_victims_matter_least(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        one, two = harness.node("4"), harness.node("4")
        harness.wait_known()
        place(harness, "middle", MIDDLE, nodeSelector={"kubernetes.io/hostname": one})
        place(harness, "low", LOW, nodeSelector={"kubernetes.io/hostname": two})
        harness.pod("high", "4", priorityClassName=HIGH)
        wait_leaving(harness, "low")
        stays(harness, "middle")

    def test_victims_that_leave_are_waited_for(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        harness.node("4")
        place(harness, "low", LOW, "2")
        place(harness, "other", LOW, "2")
        harness.pod("high", "2", priorityClassName=HIGH)
        harness.api.wait_until(
            lambda: any(harness.read(n).metadata.deletion_timestamp for n in ("low", "other")),
            "one of them is being deleted",
        )
        harness.api.wait_until(
            lambda: harness.read("high").status.nominated_node_name, "it is nominated"
        )
        harness.node("1")  # it is tried again, and fits nowhere
        harness.api.holds(
            lambda: (
                len([n for n in ("low", "other") if harness.read(n).metadata.deletion_timestamp])
                == 1
            ),
            "nobody else is evicted",
            2.0,
        )

    def test_a_pod_of_lower_priority_loses_its_nomination(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        node = harness.node("4")
        place(harness, "low", LOW)
        harness.pod("middle", "3", priorityClassName=MIDDLE)
        wait_leaving(harness, "low")
        harness.api.wait_until(
            lambda: harness.read("middle").status.nominated_node_name == node, "it is nominated"
        )
        place(harness, "waits", HIGH, "0")
        harness.pod("high", "4", priorityClassName=HIGH)
        harness.api.wait_until(
            lambda: harness.read("high").status.nominated_node_name == node,
            "it is nominated instead",
        )
        harness.remove("low")
        assert harness.wait_bound("high") == node


class TestWithoutVictims:
    @pytest.fixture
    def full(self, harness: SchedulingHarness, extender: Extender) -> str:
        """A node that a pod of middle priority fills."""
        node = harness.node("4")
        place(harness, "middle", MIDDLE)
        return node

    @pytest.mark.parametrize(
        ("wanted", "why"),
        [
            pytest.param(
                {"priorityClassName": LOW},
                f"{NO_CLAIMS}, preemption: 0/1 nodes are available: 1 No preemption victims found "
                "for incoming pod.",
                id="lower",
            ),
            pytest.param(
                {"priorityClassName": MIDDLE},
                f"{NO_CLAIMS}, preemption: 0/1 nodes are available: 1 No preemption victims found "
                "for incoming pod.",
                id="equal",
            ),
            pytest.param(
                {"priorityClassName": NEVER},
                f"{NO_CLAIMS}, preemption: not eligible due to preemptionPolicy=Never.",
                id="never",
            ),
            pytest.param({"priorityClassName": HIGH, "cpu": "5"}, NOT_HELPFUL, id="larger"),
        ],
    )
    def test_is_evicted_for_a_pod_that_is(
        self, harness: SchedulingHarness, full: str, wanted: Json, why: str
    ) -> None:
        harness.pod("p", **{"cpu": "1", **wanted})
        harness.wait_message("p", f"{FULL} {why}")
        stays(harness, "middle")

    @pytest.mark.parametrize(
        ("disabled", "says"),
        [
            pytest.param(["*"], ("", False), id="no plugin is on"),
            pytest.param(["DefaultPreemption"], (f" {NO_CLAIMS}", True), id="that plugin is off"),
        ],
    )
    def test_is_evicted_where(
        self,
        harness: SchedulingHarness,
        full: str,
        scheduling: Scheduling,
        disabled: list[str],
        says: tuple[str, bool],
    ) -> None:
        """And whether the pod keeps a nomination that an extender wrote."""
        why, nominated = says
        off = {"disabled": [{"name": name} for name in disabled]}
        with scheduling(post_filter=off) as name:
            harness.pod("p", "1", priorityClassName=HIGH, schedulerName=name)
            harness.wait_refused("p")
            harness.wait_message("p", FULL + why)
            harness.nominate("p", full)
            harness.api.core.patch_node_status(full, {"status": {"allocatable": {"cpu": "3"}}})
            harness.api.core.patch_node_status(full, {"status": {"allocatable": {"cpu": "4500m"}}})
            if nominated:
                harness.api.holds(
                    lambda: harness.read("p").status.nominated_node_name, "it keeps the nomination"
                )
            else:
                harness.api.wait_until(
                    lambda: not harness.read("p").status.nominated_node_name,
                    "the nomination is gone",
                )
            stays(harness, "middle")

    def test_is_evicted_because_an_extender_refuses_the_node_until_somebody_leaves(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        node = harness.node("8")
        place(harness, "low", LOW)
        extender.filter = always({"NodeNames": [], "FailedNodes": {node: "later"}})
        harness.pod("p", "1", priorityClassName=HIGH)
        harness.wait_message(
            "p",
            "0/1 nodes are available: 1 later. preemption: expected at least one victim pod on "
            f'node "{node}"',
        )
        stays(harness, "low")

    def test_is_evicted_because_a_pod_contradicts_its_class(
        self, harness: SchedulingHarness
    ) -> None:
        with harness.api.refused(403, "Forbidden") as refusal:
            harness.pod("p", "1", priorityClassName=HIGH, preemptionPolicy="Never")
        assert refusal.message == (
            'pods "p" is forbidden: the string value of PreemptionPolicy (Never) must not be '
            "provided in pod spec; priority admission controller computed PreemptLowerPriority "
            "from the given PriorityClass name"
        )


class TestExtenders:
    def victims(self, harness: SchedulingHarness, scheduler: str) -> tuple[str, str]:
        """Two full nodes; the pods are called as the nodes."""
        nodes = harness.node("4"), harness.node("4")
        harness.wait_known()
        for node in nodes:
            selector = {"kubernetes.io/hostname": node}
            place(harness, node, LOW, schedulerName=scheduler, nodeSelector=selector)
        return nodes

    def test_preempt_is_sent_the_victims_on_each_node(
        self, harness: SchedulingHarness, extender: Extender, preempting: str
    ) -> None:
        nodes = self.victims(harness, preempting)
        harness.pod("p", "4", priorityClassName=HIGH, schedulerName=preempting)
        harness.api.wait_until(
            lambda: any(harness.read(n).metadata.deletion_timestamp for n in nodes), "one goes"
        )
        (call,) = [call for call in extender.calls if call.verb == "preempt"]
        assert set(call.body) == {"Pod", "NodeNameToVictims", "NodeNameToMetaVictims"}
        assert call.body["NodeNameToVictims"] is None
        assert call.body["NodeNameToMetaVictims"] == {
            node: {"Pods": [{"UID": harness.read(node).metadata.uid}], "NumPDBViolations": 0}
            for node in nodes
        }
        assert set(call.body["Pod"]) == {"metadata", "spec", "status"}

    def test_the_node_that_it_leaves_is_taken(
        self, harness: SchedulingHarness, extender: Extender, preempting: str
    ) -> None:
        one, two = self.victims(harness, preempting)
        uid = harness.read(two).metadata.uid
        extender.preempt = always({"NodeNameToMetaVictims": {two: {"Pods": [{"UID": uid}]}}})
        harness.pod("p", "4", priorityClassName=HIGH, schedulerName=preempting)
        wait_leaving(harness, two)
        stays(harness, one)

    @pytest.mark.parametrize(
        ("answer", "why"),
        [
            pytest.param(
                {"NodeNameToMetaVictims": {}},
                f"{NO_CLAIMS}, preemption: no candidate node for preemption",
                id="an empty map",
            ),
            pytest.param(
                {}, f"{NO_CLAIMS}, preemption: no candidate node for preemption", id="no map"
            ),
            pytest.param(
                {"NodeNameToMetaVictims": {"nowhere": {"Pods": [{"UID": "u"}]}}},
                'preemption: nodeinfo not found for node name "nowhere"',
                id="a node that is not there",
            ),
            pytest.param(500, "preemption: failed preempt with extender at URL", id="a failure"),
        ],
    )
    def test_nobody_is_evicted_after(
        self,
        harness: SchedulingHarness,
        extender: Extender,
        preempting: str,
        answer: Answer,
        why: str,
    ) -> None:
        node = harness.node("4")
        place(harness, "low", LOW, schedulerName=preempting)
        extender.preempt = always(answer)
        harness.pod("p", "4", priorityClassName=HIGH, schedulerName=preempting)
        harness.api.wait_until(
            lambda: harness.why("p").startswith(f"{FULL} {why}"), f"p is told: {why}"
        )
        stays(harness, "low")
        assert node

    def test_an_empty_map_leaves_the_nomination(
        self, harness: SchedulingHarness, extender: Extender, preempting: str
    ) -> None:
        node = harness.node("4")
        place(harness, "low", LOW, schedulerName=preempting)
        extender.preempt = always({})
        harness.pod("p", "4", priorityClassName=HIGH, schedulerName=preempting)
        harness.wait_refused("p")
        asked = len(extender.asked("p", "preempt"))
        harness.nominate("p", node)
        harness.api.core.patch_node(node, {"metadata": {"labels": {"x": "1"}}})
        harness.node("1")
        harness.api.wait_until(
            lambda: len(extender.asked("p", "preempt")) > asked, "it is asked again"
        )
        harness.api.holds(lambda: harness.read("p").status.nominated_node_name, "it is kept")


def test_the_highest_priority_is_tried_first(
    harness: SchedulingHarness, extender: Extender, scheduling: Scheduling
) -> None:
    """Pods are created while the one scheduling thread waits for an answer, so that none of them
    has been tried, and waits in back-off, when the node is theirs."""
    node, answered = harness.node("2"), threading.Event()

    def filter_nodes(body: Json) -> Answer:
        if body["Pod"]["metadata"]["name"] == "first":
            answered.wait(_ANSWER_SECONDS)
            return keep()(body)
        return keep(node)(body)

    extender.filter = filter_nodes
    off = {"disabled": [{"name": "*"}]}
    patient = {**STANDARD, "httpTimeout": f"{_ANSWER_SECONDS}s"}
    with scheduling(post_filter=off, urlPrefix=extender.url, **patient) as name:
        harness.pod("first", "1", schedulerName=name)
        harness.api.wait_until(lambda: extender.asked("first"), "the scheduler waits for an answer")
        for level in (LOW, MIDDLE, HIGH):
            harness.pod(level, "1", priorityClassName=level, schedulerName=name)
        harness.api.holds(
            lambda: not extender.asked(HIGH), "it waits while its watch shows them", 4
        )
        answered.set()
        assert {harness.wait_bound(HIGH), harness.wait_bound(MIDDLE)} == {node}
        harness.wait_message(LOW, FULL)
