"""Whom kube-scheduler's stand-in evicts; the same is asked of the real one in
tests/conformance/scheduler/test_preemption.py."""

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localcluster.embedded.scheduler.attempt import Unschedulable, attempt
from localcluster.embedded.scheduler.configuration import PostFilter
from localcluster.embedded.scheduler.extenders import (
    ExtenderFailed,
    ask_victims,
    read_victims,
)
from localcluster.embedded.scheduler.fit import NodeState, Refusal, Requests, refusal_of
from localcluster.embedded.scheduler.preemption import (
    NotPreempted,
    Preempted,
    preempt,
    victims_on,
)
from tests.unit.embedded_processes.scheduling import FakeExtender, Json, node, pod, snapshot, tools

WIRE = Path(__file__).resolve().parents[4] / "tests" / "data" / "wire"


def names(pods: Sequence[Json]) -> list[str]:
    return [each["metadata"]["name"] for each in pods]


def started(name: str, at: str, cpu: str = "1", *, priority: int) -> Json:
    made = pod(name, cpu, priority=priority)
    made["status"]["startTime"] = at
    return made


def run(
    asking: Json,
    pods: Mapping[str, Sequence[Json]],
    *extenders: FakeExtender,
    cpu: str = "4",
) -> Preempted | NotPreempted:
    nodes = {name: NodeState(node(name, cpu), there) for name, there in pods.items()}
    found = {name: refusal_of(asking, state, Requests()) for name, state in nodes.items()}
    refusals = {name: refusal for name, refusal in found.items() if refusal is not None}
    return preempt(asking, nodes, refusals, extenders, Requests(), Random(0))


class TestVictims:
    @given(
        lower=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), max_size=5),
        higher=st.lists(st.integers(1, 2), max_size=2),
        asked=st.integers(1, 8),
    )
    def test_no_victim_could_be_spared_and_no_set_without_the_most_important_is_smaller(
        self, lower: list[tuple[int, int]], higher: list[int], asked: int
    ) -> None:
        there = [
            *(pod(f"l{i}", str(cpu), priority=level) for i, (cpu, level) in enumerate(lower)),
            *(pod(f"h{i}", str(cpu), priority=9) for i, cpu in enumerate(higher)),
        ]
        asking, state = pod("p", str(asked), priority=5), NodeState(node("n", "8"), there)
        victims = victims_on(asking, state, Requests())

        def fits_without(gone: Sequence[Json]) -> bool:
            left = [each for each in there if each not in gone]
            return refusal_of(asking, NodeState(state.node, left), Requests()) is None

        lower_pods = there[: len(lower)]
        if isinstance(victims, Refusal):
            assert not lower_pods or not fits_without(lower_pods)
            return
        assert fits_without(victims)
        assert all(each in lower_pods for each in victims)
        for smaller in combinations(victims, max(len(victims) - 1, 0)):
            assert not victims or not fits_without(smaller)

    def test_the_least_important_and_among_equals_the_youngest_go(self) -> None:
        old, young = (
            started("old", "2026-01-01T00:00:00Z", priority=1),
            started("young", "2026-02-01T00:00:00Z", priority=1),
        )
        more = started("more", "2026-03-01T00:00:00Z", priority=2)
        state = NodeState(node("n", "3"), [young, more, old])
        asking = pod("p", "1", priority=5)
        found = victims_on(asking, state, Requests())
        assert not isinstance(found, Refusal)
        assert names(found) == ["young"]

    def test_pods_nominated_to_the_node_keep_their_room(self) -> None:
        state = NodeState(node("n", "4"), [pod("low", "3")], [pod("nominated", "2", priority=9)])
        assert victims_on(pod("p", "3", priority=5), state, Requests()) == Refusal(
            ("Insufficient cpu",), unresolvable=False
        )


class TestNode:
    @pytest.mark.parametrize(
        ("other", "expected"),
        [
            pytest.param([pod("x", "4", priority=2)], "a", id="of a lower priority"),
            pytest.param(
                [pod("x", "2", priority=1), pod("y", "2", priority=1)], "a", id="fewer pods"
            ),
            pytest.param(
                [started("x", "2026-03-01T00:00:00Z", "4", priority=1)], "b", id="started later"
            ),
            pytest.param([pod("x", "4", priority=5)], "a", id="none of the same priority"),
        ],
    )
    def test_the_node_is_taken_whose_victims_are(
        self, other: Sequence[Json], expected: str
    ) -> None:
        first = started("first", "2026-01-01T00:00:00Z", "4", priority=1)
        found = run(pod("p", "4", priority=5), {"a": [first], "b": other})
        assert isinstance(found, Preempted)
        assert found.node == expected

    @pytest.mark.parametrize(
        ("asking", "why"),
        [
            pytest.param(
                pod("p", "4", priority=5, preemptionPolicy="Never"),
                "not eligible due to preemptionPolicy=Never.",
                id="it may not",
            ),
            pytest.param(
                pod("p", "4", priority=0),
                "0/1 nodes are available: 1 No preemption victims found for incoming pod.",
                id="nobody matters less",
            ),
            pytest.param(
                pod("p", "5", priority=5),
                "0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
                id="the node is too small",
            ),
        ],
    )
    def test_nobody_is_evicted_where(self, asking: Json, why: str) -> None:
        found = run(asking, {"a": [pod("low", "4")]})
        assert isinstance(found, NotPreempted)
        assert found.message == why

    def test_nobody_more_is_evicted_while_the_victims_leave(self) -> None:
        leaving = pod("low", "4")
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        asking = pod("p", "4", priority=5, nominated="a")
        assert isinstance(run(asking, {"a": [leaving]}), Preempted)
        leaving["status"]["conditions"] = [
            {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        ]
        assert run(asking, {"a": [leaving]}) == NotPreempted(
            "not eligible due to a terminating pod on the nominated node."
        )


ASKING = pod("p", "4", priority=5)
PODS = {"a": [pod("one", "4")], "b": [pod("two", "4", priority=1)]}


class TestExtenders:
    def test_an_extender_without_the_verb_is_not_asked(self) -> None:
        extender = FakeExtender()
        found = run(ASKING, PODS, extender)
        assert isinstance(found, Preempted)
        assert (found.node, extender.asked) == ("a", [])

    def test_what_it_leaves_is_taken(self) -> None:
        extender = FakeExtender(victims={"b": ["uid-two"]})
        found = run(ASKING, PODS, extender)
        assert isinstance(found, Preempted)
        assert (found.node, names(found.victims)) == ("b", ["two"])
        assert extender.asked == [("preempt", ["a", "b"])]

    @pytest.mark.parametrize(
        ("answer", "why"),
        [
            pytest.param({}, "no candidate node for preemption", id="a veto"),
            pytest.param({"a": []}, 'expected at least one victim pod on node "a"', id="no victim"),
            pytest.param({"z": ["u"]}, 'nodeinfo not found for node name "z"', id="a stranger"),
            pytest.param({"a": ["uid-two"]}, "is not found on that node", id="not there"),
            pytest.param(ExtenderFailed("it fails"), "it fails", id="a failure"),
        ],
    )
    def test_nobody_is_evicted_after(
        self, answer: Mapping[str, Sequence[str]] | Exception, why: str
    ) -> None:
        found = run(ASKING, PODS, FakeExtender(victims=answer))
        assert isinstance(found, NotPreempted)
        assert why in found.message
        assert not found.clears

    def test_one_that_fails_and_may_be_passed_over_is(self) -> None:
        failing = FakeExtender(victims=ExtenderFailed("it fails"), ignorable=True)
        found = run(ASKING, PODS, failing)
        assert isinstance(found, Preempted)
        assert found.node == "a"

    def test_the_question_is_the_one_that_was_recorded(self) -> None:
        sent = json.loads((WIRE / "v1.36.2-cachecap-true-preempt.request.json").read_text())
        victims = {
            name: [{"metadata": {"uid": each["UID"]}} for each in found["Pods"]]
            for name, found in sent["NodeNameToMetaVictims"].items()
        }
        assert ask_victims(sent["Pod"], victims) == sent

    def test_the_recorded_answer_is_read(self) -> None:
        answer = json.loads((WIRE / "v1.36.2-cachecap-true-preempt.response.json").read_text())
        assert read_victims(answer) == {
            "a": ("c85eae9d-6aa7-40d1-898b-3b49b3a88242",),
            "b": ("7b15db19-2655-4d6d-a3ee-f9b2ed07da5b",),
        }

    @pytest.mark.parametrize(
        "answer", [[], {"NodeNameToMetaVictims": []}, {"nodenametometavictims": {"a": 1}}]
    )
    def test_an_answer_that_is_no_map_of_victims_is_a_failure(self, answer: object) -> None:
        with pytest.raises(ExtenderFailed):
            read_victims(answer)


class TestAttempt:
    def outcome(self, post_filter: PostFilter, priority: int) -> Unschedulable:
        seen = snapshot(node("a", "4"), pods={"a": [pod("low", "4")]})
        given = tools()
        with_profile = type(given)(
            given.extenders, given.requests, given.random, {"mine": post_filter}
        )
        found = attempt(pod("p", "4", priority=priority, nominated=""), seen, with_profile)
        assert isinstance(found, Unschedulable)
        return found

    def test_victims_are_named_and_their_node_is_nominated(self) -> None:
        found = self.outcome(PostFilter(), 5)
        assert (found.nomination, names(found.victims)) == ("a", ["low"])
        assert found.message == "0/1 nodes are available: 1 Insufficient cpu."

    def test_without_the_plugin_nobody_is_evicted(self) -> None:
        found = self.outcome(PostFilter(default_preemption=False), 5)
        assert (found.nomination, found.victims) == (None, ())
        assert found.message == (
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate"
        )

    def test_without_any_plugin_the_nomination_is_removed(self) -> None:
        found = self.outcome(PostFilter(False, False), 5)
        assert (found.nomination, found.victims) == ("", ())
        assert found.message == "0/1 nodes are available: 1 Insufficient cpu."
