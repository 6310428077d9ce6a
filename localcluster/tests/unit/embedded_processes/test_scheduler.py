"""What kube-scheduler's stand-in decides."""

from random import Random

import pytest

from localcluster.embedded.scheduler.extenders import ExtenderFailed
from localcluster.embedded.scheduler.placing import (
    NodeState,
    UnschedulableError,
    place,
    refusals_of,
)
from tests.cases import cases
from tests.unit.embedded_processes.scheduling import FakeExtender, Json, node, pod, states


class TestFit:
    @cases(("asked", "fits"), {"what is left": ("1", True), "more": ("2", False)})
    def test_room_is_what_pods_on_the_node_and_nominated_to_it_leave(
        self, asked: str, fits: bool
    ) -> None:
        state = NodeState(node("n", "4"), [pod("there", "2")], [pod("nominated", "1")])
        assert refusals_of(pod("p", asked), state) == (() if fits else ("Insufficient cpu",))

    def test_a_term_without_requirements_selects_nothing(self) -> None:
        terms: Json = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}
        }
        affine = pod("p", affinity={"nodeAffinity": terms})
        assert refusals_of(affine, NodeState(node("n")))

    def test_a_cordoned_node_takes_pods_that_tolerate_it(self) -> None:
        cordoned = NodeState(node("n", unschedulable=True))
        key = "node.kubernetes.io/unschedulable"
        toleration = {"key": key, "operator": "Exists", "effect": "NoSchedule"}
        assert not refusals_of(pod("p", tolerations=[toleration]), cordoned)
        assert refusals_of(pod("p"), cordoned)


class TestPlace:
    def place(self, body: Json, nodes: dict[str, NodeState], *extenders: FakeExtender) -> str:
        return place(body, nodes, extenders, Random(0))

    def test_the_nominated_node_is_tried_alone(self) -> None:
        extender = FakeExtender(["b"])
        nodes = states(node("a"), node("b"))
        assert self.place(pod("p", nominated="b"), nodes, extender) == "b"
        assert extender.asked == [("filter", ["b"])]

    def test_a_nominated_node_that_is_gone_is_not_tried(self) -> None:
        extender = FakeExtender(["a"])
        nodes = states(node("a"), node("b"))
        assert self.place(pod("p", nominated="gone"), nodes, extender) == "a"
        assert extender.asked == [("filter", ["a", "b"])]

    def test_an_error_about_the_nominated_node_is_passed_over_and_one_about_all_is_not(
        self,
    ) -> None:
        extender = FakeExtender(None)
        with pytest.raises(ExtenderFailed, match="it fails"):
            self.place(pod("p", nominated="a"), states(node("a"), node("b")), extender)
        assert extender.asked == [("filter", ["a"]), ("filter", ["a", "b"])]

    def test_an_extender_that_may_be_ignored_is(self) -> None:
        assert self.place(pod("p"), states(node("a")), FakeExtender(None, ignorable=True)) == "a"

    def test_extenders_are_asked_one_after_the_other_about_what_is_left(self) -> None:
        first, second = FakeExtender(["a", "b"]), FakeExtender(["b"])
        nodes = states(node("a"), node("b"), node("c"))
        assert self.place(pod("p"), nodes, first, second) == "b"
        assert second.asked == [("filter", ["a", "b"])]

    def test_the_reasons_of_all_nodes_are_counted(self) -> None:
        first, second = FakeExtender([]), FakeExtender(["a"])
        with pytest.raises(UnschedulableError) as refused:
            self.place(pod("p", "3"), states(node("a"), node("b", "2")), first, second)
        message = "0/2 nodes are available: 1 Insufficient cpu, 1 planned elsewhere."
        assert str(refused.value) == message
        assert second.asked == []

    def test_the_highest_sum_of_scores_wins(self) -> None:
        extender = FakeExtender(["a", "b", "c"], {"b": 1210, "c": 12100, "stranger": 10**9})
        assert self.place(pod("p"), states(node("a"), node("b"), node("c")), extender) == "c"

    def test_without_scores_the_emptier_node_wins(self) -> None:
        nodes = states(node("a"), node("b"))
        nodes["a"].pods.append(pod("other", "3"))
        assert self.place(pod("p"), nodes, FakeExtender(["a", "b"], None)) == "b"
