"""Pods of higher priority: who is tried first, and who is evicted for them."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from tests.conformance.api_calls import Json
from tests.conformance.scheduler.conftest import STANDARD, Scene, Scheduling
from tests.conformance.scheduler.extender import Answer, Extender, always, keep
from tests.conformance.scheduler.test_rules import NOT_HELPFUL, events

LEVELS = {"conformance-low": 10, "conformance-middle": 500, "conformance-high": 1000}
LOW, MIDDLE, HIGH = LEVELS
NEVER = "conformance-never"
NO_CLAIMS = "no new claims to deallocate"
FULL = "0/1 nodes are available: 1 Insufficient cpu."
_ANSWER_SECONDS = 25
"""The extender's time-out where it holds an answer back."""


@pytest.fixture(autouse=True)
def levels(scene: Scene) -> Iterator[None]:
    """PriorityClasses, and no grace period that nobody waits for."""
    classes: Any = client.SchedulingV1Api(scene.api.client)
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


def place(scene: Scene, name: str, level: str, cpu: str = "4", **spec: Any) -> str:
    """Make a pod of a priority and wait until it has a node."""
    scene.pod(name, cpu, priorityClassName=level, **spec)
    return scene.wait_bound(name)


def wait_leaving(scene: Scene, name: str) -> Any:
    """Wait until a pod is being deleted; return it. No kubelet ends it."""
    scene.api.wait_until(
        lambda: scene.read(name).metadata.deletion_timestamp, f"{name} is being deleted"
    )
    return scene.read(name)


def stays(scene: Scene, *names: str) -> None:
    """None of these pods is being deleted."""
    assert [n for n in names if scene.read(n).metadata.deletion_timestamp] == []


class TestVictims:
    def test_a_pod_of_lower_priority_makes_room(self, scene: Scene, extender: Extender) -> None:
        node = scene.node("4")
        place(scene, "low", LOW)
        scene.pod("high", "4", priorityClassName=HIGH)
        leaving = wait_leaving(scene, "low")
        assert leaving.metadata.deletion_grace_period_seconds == 30
        (condition,) = [c for c in leaving.status.conditions if c.type == "DisruptionTarget"]
        assert (condition.status, condition.reason, condition.message) == (
            "True",
            "PreemptionByScheduler",
            f"{scene.scheduler}: preempting to accommodate a higher priority pod",
        )
        uid = scene.read("high").metadata.uid
        preempted = ("Normal", "Preempted", f"Preempted by pod {uid} on node {node}")
        scene.api.wait_until(lambda: preempted in events(scene, "low"), "an Event says so")
        scene.api.wait_until(
            lambda: scene.read("high").status.nominated_node_name == node, "it is nominated"
        )
        scene.wait_told("high", FULL)
        scene.remove("low")
        assert scene.wait_bound("high") == node
        assert extender.asked("high", "preempt") == []

    def test_the_fewest_and_least_important_go_and_the_others_stay(
        self, scene: Scene, extender: Extender
    ) -> None:
        scene.node("4")
        place(scene, "low", LOW, "1")
        place(scene, "other", LOW, "1")
        place(scene, "middle", MIDDLE, "1")
        place(scene, "high", HIGH, "1")
        scene.pod("p", "2", priorityClassName=HIGH)
        wait_leaving(scene, "low")
        wait_leaving(scene, "other")
        stays(scene, "middle", "high")

    def test_the_node_is_taken_whose_victims_matter_least(
        self, scene: Scene, extender: Extender
    ) -> None:
        one, two = scene.node("4"), scene.node("4")
        scene.wait_known()
        place(scene, "middle", MIDDLE, nodeSelector={"kubernetes.io/hostname": one})
        place(scene, "low", LOW, nodeSelector={"kubernetes.io/hostname": two})
        scene.pod("high", "4", priorityClassName=HIGH)
        wait_leaving(scene, "low")
        stays(scene, "middle")

    def test_victims_that_leave_are_waited_for(self, scene: Scene, extender: Extender) -> None:
        scene.node("4")
        place(scene, "low", LOW, "2")
        place(scene, "other", LOW, "2")
        scene.pod("high", "2", priorityClassName=HIGH)
        scene.api.wait_until(
            lambda: any(scene.read(n).metadata.deletion_timestamp for n in ("low", "other")),
            "one of them is being deleted",
        )
        scene.api.wait_until(
            lambda: scene.read("high").status.nominated_node_name, "it is nominated"
        )
        scene.node("1")  # it is tried again, and fits nowhere
        scene.api.holds(
            lambda: (
                len([n for n in ("low", "other") if scene.read(n).metadata.deletion_timestamp]) == 1
            ),
            "nobody else is evicted",
            2.0,
        )

    def test_a_pod_of_lower_priority_loses_its_nomination(
        self, scene: Scene, extender: Extender
    ) -> None:
        node = scene.node("4")
        place(scene, "low", LOW)
        scene.pod("middle", "3", priorityClassName=MIDDLE)
        wait_leaving(scene, "low")
        scene.api.wait_until(
            lambda: scene.read("middle").status.nominated_node_name == node, "it is nominated"
        )
        place(scene, "waits", HIGH, "0")
        scene.pod("high", "4", priorityClassName=HIGH)
        scene.api.wait_until(
            lambda: scene.read("high").status.nominated_node_name == node, "it is nominated instead"
        )
        scene.remove("low")
        assert scene.wait_bound("high") == node


class TestNobody:
    @pytest.fixture
    def full(self, scene: Scene, extender: Extender) -> str:
        """A node that a pod of middle priority fills."""
        node = scene.node("4")
        place(scene, "middle", MIDDLE)
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
        self, scene: Scene, full: str, wanted: Json, why: str
    ) -> None:
        scene.pod("p", **{"cpu": "1", **wanted})
        scene.wait_told("p", f"{FULL} {why}")
        stays(scene, "middle")

    @pytest.mark.parametrize(
        ("disabled", "says"),
        [
            pytest.param(["*"], ("", False), id="no plugin is on"),
            pytest.param(["DefaultPreemption"], (f" {NO_CLAIMS}", True), id="that plugin is off"),
        ],
    )
    def test_is_evicted_where(
        self,
        scene: Scene,
        full: str,
        scheduling: Scheduling,
        disabled: list[str],
        says: tuple[str, bool],
    ) -> None:
        """And whether the pod keeps a nomination that an extender wrote."""
        why, nominated = says
        off = {"disabled": [{"name": name} for name in disabled]}
        with scheduling(post_filter=off) as name:
            scene.pod("p", "1", priorityClassName=HIGH, schedulerName=name)
            scene.wait_refused("p")
            scene.wait_told("p", FULL + why)
            scene.nominate("p", full)
            scene.api.core.patch_node_status(full, {"status": {"allocatable": {"cpu": "3"}}})
            scene.api.core.patch_node_status(full, {"status": {"allocatable": {"cpu": "4500m"}}})
            if nominated:
                scene.api.holds(
                    lambda: scene.read("p").status.nominated_node_name, "it keeps the nomination"
                )
            else:
                scene.api.wait_until(
                    lambda: not scene.read("p").status.nominated_node_name, "the nomination is gone"
                )
            stays(scene, "middle")

    def test_is_evicted_because_an_extender_refuses_the_node_until_somebody_leaves(
        self, scene: Scene, extender: Extender
    ) -> None:
        node = scene.node("8")
        place(scene, "low", LOW)
        extender.filter = always({"NodeNames": [], "FailedNodes": {node: "later"}})
        scene.pod("p", "1", priorityClassName=HIGH)
        scene.wait_told(
            "p",
            "0/1 nodes are available: 1 later. preemption: expected at least one victim pod on "
            f'node "{node}"',
        )
        stays(scene, "low")

    def test_is_evicted_because_a_pod_contradicts_its_class(self, scene: Scene) -> None:
        with scene.api.refused(403, "Forbidden") as refusal:
            scene.pod("p", "1", priorityClassName=HIGH, preemptionPolicy="Never")
        assert refusal.message == (
            'pods "p" is forbidden: the string value of PreemptionPolicy (Never) must not be '
            "provided in pod spec; priority admission controller computed PreemptLowerPriority "
            "from the given PriorityClass name"
        )


class TestExtenders:
    def victims(self, scene: Scene, scheduler: str) -> tuple[str, str]:
        """Two full nodes; the pods are called as the nodes."""
        nodes = scene.node("4"), scene.node("4")
        scene.wait_known()
        for node in nodes:
            selector = {"kubernetes.io/hostname": node}
            place(scene, node, LOW, schedulerName=scheduler, nodeSelector=selector)
        return nodes

    def test_preempt_is_sent_the_victims_on_each_node(
        self, scene: Scene, extender: Extender, preempting: str
    ) -> None:
        nodes = self.victims(scene, preempting)
        scene.pod("p", "4", priorityClassName=HIGH, schedulerName=preempting)
        scene.api.wait_until(
            lambda: any(scene.read(n).metadata.deletion_timestamp for n in nodes), "one goes"
        )
        (call,) = [call for call in extender.calls if call.verb == "preempt"]
        assert set(call.body) == {"Pod", "NodeNameToVictims", "NodeNameToMetaVictims"}
        assert call.body["NodeNameToVictims"] is None
        assert call.body["NodeNameToMetaVictims"] == {
            node: {"Pods": [{"UID": scene.read(node).metadata.uid}], "NumPDBViolations": 0}
            for node in nodes
        }
        assert set(call.body["Pod"]) == {"metadata", "spec", "status"}

    def test_the_node_that_it_leaves_is_taken(
        self, scene: Scene, extender: Extender, preempting: str
    ) -> None:
        one, two = self.victims(scene, preempting)
        uid = scene.read(two).metadata.uid
        extender.preempt = always({"NodeNameToMetaVictims": {two: {"Pods": [{"UID": uid}]}}})
        scene.pod("p", "4", priorityClassName=HIGH, schedulerName=preempting)
        wait_leaving(scene, two)
        stays(scene, one)

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
        self, scene: Scene, extender: Extender, preempting: str, answer: Answer, why: str
    ) -> None:
        node = scene.node("4")
        place(scene, "low", LOW, schedulerName=preempting)
        extender.preempt = always(answer)
        scene.pod("p", "4", priorityClassName=HIGH, schedulerName=preempting)
        scene.api.wait_until(
            lambda: scene.why("p").startswith(f"{FULL} {why}"), f"p is told: {why}"
        )
        stays(scene, "low")
        assert node

    def test_an_empty_map_leaves_the_nomination(
        self, scene: Scene, extender: Extender, preempting: str
    ) -> None:
        node = scene.node("4")
        place(scene, "low", LOW, schedulerName=preempting)
        extender.preempt = always({})
        scene.pod("p", "4", priorityClassName=HIGH, schedulerName=preempting)
        scene.wait_refused("p")
        asked = len(extender.asked("p", "preempt"))
        scene.nominate("p", node)
        scene.api.core.patch_node(node, {"metadata": {"labels": {"x": "1"}}})
        scene.node("1")
        scene.api.wait_until(
            lambda: len(extender.asked("p", "preempt")) > asked, "it is asked again"
        )
        scene.api.holds(lambda: scene.read("p").status.nominated_node_name, "it is kept")


def test_the_highest_priority_is_tried_first(
    scene: Scene, extender: Extender, scheduling: Scheduling
) -> None:
    """Pods are created while the one scheduling thread waits for an answer, so that none of them
    has been tried, and waits in back-off, when the node is theirs."""
    node, answered = scene.node("2"), threading.Event()

    def filter_nodes(body: Json) -> Answer:
        if body["Pod"]["metadata"]["name"] == "first":
            answered.wait(_ANSWER_SECONDS)
            return keep()(body)
        return keep(node)(body)

    extender.filter = filter_nodes
    off = {"disabled": [{"name": "*"}]}
    patient = {**STANDARD, "httpTimeout": f"{_ANSWER_SECONDS}s"}
    with scheduling(post_filter=off, urlPrefix=extender.url, **patient) as name:
        scene.pod("first", "1", schedulerName=name)
        scene.api.wait_until(lambda: extender.asked("first"), "the scheduler waits for an answer")
        for level in (LOW, MIDDLE, HIGH):
            scene.pod(level, "1", priorityClassName=level, schedulerName=name)
        scene.api.holds(lambda: not extender.asked(HIGH), "it waits while its watch shows them", 2)
        answered.set()
        assert {scene.wait_bound(HIGH), scene.wait_bound(MIDDLE)} == {node}
        scene.wait_told(LOW, FULL)
