"""What kube-scheduler's stand-in decides."""

from hypothesis import given
from hypothesis import strategies as st

from localcluster.embedded.scheduler.attempt import Failed, Placed, Unschedulable, attempt
from localcluster.embedded.scheduler.fit import NodeState, Requests, refusals_of
from tests.unit.embedded_processes.scheduling import FakeExtender, Json, node, pod, snapshot, tools


class TestFit:
    @given(
        allocatable=st.integers(1, 8),
        there=st.lists(st.integers(1, 4), max_size=5),
        nominated=st.lists(st.integers(1, 4), max_size=3),
        asked=st.integers(1, 8),
    )
    def test_room_is_what_is_left(
        self, allocatable: int, there: list[int], nominated: list[int], asked: int
    ) -> None:
        state = NodeState(
            node("n", str(allocatable)),
            [pod(f"p{i}", str(cpu)) for i, cpu in enumerate(there)],
            [pod(f"n{i}", str(cpu)) for i, cpu in enumerate(nominated)],
        )
        fits = sum(there) + sum(nominated) + asked <= allocatable
        reasons = refusals_of(pod("p", str(asked)), state, Requests())
        assert reasons == (() if fits else ("Insufficient cpu",))

    def test_a_pod_that_asks_for_nothing_fits_on_a_full_node(self) -> None:
        full = NodeState(node("n", "1"), [pod("other", "1")])
        assert refusals_of(pod("p", "0"), full, Requests()) == ()

    def test_a_term_without_requirements_selects_nothing(self) -> None:
        terms: Json = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}
        }
        affine = pod("p", affinity={"nodeAffinity": terms})
        assert refusals_of(affine, NodeState(node("n")), Requests())

    def test_a_cordoned_node_takes_pods_that_tolerate_it(self) -> None:
        cordoned = NodeState(node("n", unschedulable=True))
        toleration = {
            "key": "node.kubernetes.io/unschedulable",
            "operator": "Exists",
            "effect": "NoSchedule",
        }
        assert not refusals_of(pod("p", tolerations=[toleration]), cordoned, Requests())
        assert refusals_of(pod("p"), cordoned, Requests())


class TestAttempt:
    def test_the_nominated_node_is_tried_alone(self) -> None:
        extender = FakeExtender(["b"])
        assert attempt(
            pod("p", nominated="b"), snapshot(node("a"), node("b")), tools(extender)
        ) == Placed("b")
        assert extender.asked == [("filter", ["b"])]

    def test_a_nominated_node_that_is_gone_is_not_tried(self) -> None:
        extender = FakeExtender(["a"])
        assert attempt(
            pod("p", nominated="gone"), snapshot(node("a"), node("b")), tools(extender)
        ) == Placed("a")
        assert extender.asked == [("filter", ["a", "b"])]

    def test_an_error_about_the_nominated_node_is_passed_over_and_one_about_all_is_not(
        self,
    ) -> None:
        extender = FakeExtender(None)
        outcome = attempt(pod("p", nominated="a"), snapshot(node("a"), node("b")), tools(extender))
        assert outcome == Failed("it fails")
        assert extender.asked == [("filter", ["a"]), ("filter", ["a", "b"])]

    def test_extenders_are_asked_one_after_the_other_about_what_is_left(self) -> None:
        first, second = FakeExtender(["a", "b"]), FakeExtender(["b"])
        assert attempt(
            pod("p"), snapshot(node("a"), node("b"), node("c")), tools(first, second)
        ) == Placed("b")
        assert second.asked == [("filter", ["a", "b"])]

    def test_after_the_last_node_no_extender_is_asked(self) -> None:
        first, second = FakeExtender([]), FakeExtender(["a"])
        outcome = attempt(pod("p"), snapshot(node("a")), tools(first, second))
        assert isinstance(outcome, Unschedulable)
        assert outcome.by_extender
        assert outcome.message == "0/1 nodes are available: 1 planned elsewhere."
        assert second.asked == []

    def test_the_highest_sum_of_scores_wins(self) -> None:
        extender = FakeExtender(["a", "b", "c"], {"b": 1210, "c": 12100, "stranger": 10**9})
        assert attempt(
            pod("p"), snapshot(node("a"), node("b"), node("c")), tools(extender)
        ) == Placed("c")

    def test_without_scores_the_emptier_node_wins(self) -> None:
        extender = FakeExtender(["a", "b"], None)
        seen = snapshot(node("a"), node("b"), pods={"a": [pod("other", "3")]})
        assert attempt(pod("p"), seen, tools(extender)) == Placed("b")

    def test_only_the_schedulers_own_rules_refused_it(self) -> None:
        outcome = attempt(pod("p", "9"), snapshot(node("a")), tools(FakeExtender(["a"])))
        assert isinstance(outcome, Unschedulable)
        assert not outcome.by_extender
