"""What kube-scheduler's stand-in decides; the same is asked of the real one in tests/conformance/scheduler."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from localcluster.embedded.scheduler.attempt import Failed, Placed, Snapshot, Tools, Unschedulable, attempt
from localcluster.embedded.scheduler.configuration import (
    BadConfiguration,
    Configuration,
    ElectionConfiguration,
    ExtenderConfiguration,
    read_configuration,
)
from localcluster.embedded.scheduler.extenders import ExtenderFailed, Filtered
from localcluster.embedded.scheduler.fit import NodeState, Requests, refusal_of
from localcluster.embedded.scheduler.queue import FLUSH_SECONDS, RETRY_SECONDS, SETTLING_SECONDS, Change, Queue
from localcluster.embedded.scheduler.state import ClusterState
from localcluster.embedded.scheduler.telling import status_patch

Json = dict[str, Any]
REPOSITORY = Path(__file__).resolve().parents[3]
_UIDS = itertools.count()


def node(name: str, cpu: str = "4", *, labels: Json | None = None, **spec: Any) -> Json:
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": spec, "status": {"allocatable": amounts}}


def pod(name: str, cpu: str = "1", *, nominated: str = "", priority: int = 0, **spec: Any) -> Json:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(next(_UIDS))},
        "spec": {"containers": [container], "schedulerName": "mine", "priority": priority, **spec},
        "status": {"phase": "Pending", **({"nominatedNodeName": nominated} if nominated else {})},
    }


@dataclass
class FakeExtender:
    """Keeps these nodes; None: it fails."""

    keeps: Sequence[str] | None = ()
    scores: Mapping[str, int] | None = None
    ignorable: bool = False
    interested: bool = True
    asked: list[tuple[str, list[str]]] = field(default_factory=list)

    @property
    def configuration(self) -> ExtenderConfiguration:
        return ExtenderConfiguration("http://x", ignorable=self.ignorable)

    @configuration.setter
    def configuration(self, _: ExtenderConfiguration) -> None:
        raise AssertionError

    def is_interested(self, pod: Json) -> bool:
        return self.interested

    def filter(self, pod: Json, nodes: Mapping[str, Json]) -> Filtered:
        self.asked.append(("filter", sorted(nodes)))
        if self.keeps is None:
            raise ExtenderFailed("it fails")
        kept = [name for name in nodes if name in self.keeps]
        return Filtered(kept, {}, {name: "planned elsewhere" for name in nodes if name not in kept})

    def prioritize(self, pod: Json, nodes: Mapping[str, Json]) -> dict[str, int]:
        self.asked.append(("prioritize", sorted(nodes)))
        if self.scores is None:
            raise ExtenderFailed("it has no scores")
        return dict(self.scores)


def tools(*extenders: FakeExtender) -> Tools:
    return Tools(extenders, Requests(), Random(0))


def snapshot(*nodes: Json, pods: Mapping[str, Sequence[Json]] | None = None) -> Snapshot:
    there = pods or {}
    states = [NodeState(each, there.get(each["metadata"]["name"], ())) for each in nodes]
    return Snapshot({state.name: state for state in states})


class TestConfiguration:
    @pytest.mark.parametrize("name", ["kube-scheduler-config.yaml", "advisory.yaml"])
    def test_the_products_own_files_are_read(self, name: str) -> None:
        read = read_configuration((REPOSITORY / "scheduler-config" / name).read_text())
        advisory = name == "advisory.yaml"
        expected = ExtenderConfiguration(
            "http://127.0.0.1:8888", "" if advisory else "filter", "prioritize", 121, 5.0, True, advisory
        )
        assert read == Configuration(
            frozenset({"optimus-scheduler"}),
            (expected,),
            ElectionConfiguration("kube-system", "optimus-scheduler"),
        )

    def test_durations_are_gos(self) -> None:
        election = {"leaseDuration": "1m30s", "renewDeadline": "500ms", "retryPeriod": "2s"}
        read = read_configuration(configuration(leaderElection=election)).election
        assert read == ElectionConfiguration("kube-system", "kube-scheduler", 90.0, 0.5, 2.0)

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            pytest.param("[]", "holds no KubeSchedulerConfiguration", id="another document"),
            pytest.param(
                "{kind: KubeSchedulerConfiguration, apiVersion: v1}", "apiVersion is 'v1'", id="another version"
            ),
            pytest.param(
                yaml.safe_dump(
                    {
                        "apiVersion": "kubescheduler.config.k8s.io/v1",
                        "kind": "KubeSchedulerConfiguration",
                        "extenders": [{"urlPrefix": "http://x", "prioritizeVerb": "p"}],
                    }
                ),
                "must have a positive weight",
                id="scores without a weight",
            ),
            pytest.param(
                yaml.safe_dump(
                    {
                        "apiVersion": "kubescheduler.config.k8s.io/v1",
                        "kind": "KubeSchedulerConfiguration",
                        "extenders": [{"urlPrefix": "http://x", "bindVerb": "b"}],
                    }
                ),
                "names a bindVerb",
                id="what is not called here",
            ),
        ],
    )
    def test_what_cannot_be_obeyed_is_refused(self, text: str, why: str) -> None:
        with pytest.raises(BadConfiguration, match=why):
            read_configuration(text)

    @pytest.mark.parametrize("text", ["5", "5 s", "s", "5d"])
    def test_a_duration_without_a_unit_of_gos_is_refused(self, text: str) -> None:
        with pytest.raises(BadConfiguration, match="is no duration"):
            read_configuration(configuration(leaderElection={"leaseDuration": text}))


def configuration(**fields: Any) -> str:
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return yaml.safe_dump({**kind, **fields})


class TestFit:
    @given(
        allocatable=st.integers(1, 8),
        there=st.lists(st.integers(1, 4), max_size=5),
        nominated=st.lists(st.integers(1, 4), max_size=3),
        asked=st.integers(1, 8),
    )
    def test_room_is_what_is_left(self, allocatable: int, there: list[int], nominated: list[int], asked: int) -> None:
        state = NodeState(
            node("n", str(allocatable)),
            [pod(f"p{i}", str(cpu)) for i, cpu in enumerate(there)],
            [pod(f"n{i}", str(cpu)) for i, cpu in enumerate(nominated)],
        )
        refusal = refusal_of(pod("p", str(asked)), state, Requests())
        assert (refusal is None) == (sum(there) + sum(nominated) + asked <= allocatable)
        if refusal is not None:
            assert refusal.reasons == ("Insufficient cpu",)
            assert refusal.for_good == (asked > allocatable)

    def test_a_pod_that_asks_for_nothing_fits_on_a_full_node(self) -> None:
        full = NodeState(node("n", "1"), [pod("other", "1")])
        assert refusal_of(pod("p", "0"), full, Requests()) is None

    def test_a_term_without_requirements_selects_nothing(self) -> None:
        terms: Json = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
        refusal = refusal_of(pod("p", affinity={"nodeAffinity": terms}), NodeState(node("n")), Requests())
        assert refusal is not None
        assert refusal.for_good

    def test_a_cordoned_node_takes_pods_that_tolerate_it(self) -> None:
        cordoned = NodeState(node("n", unschedulable=True))
        toleration = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
        assert refusal_of(pod("p", tolerations=[toleration]), cordoned, Requests()) is None
        assert refusal_of(pod("p"), cordoned, Requests()) is not None


class TestAttempt:
    def test_the_nominated_node_is_tried_alone(self) -> None:
        extender = FakeExtender(["b"])
        assert attempt(pod("p", nominated="b"), snapshot(node("a"), node("b")), tools(extender)) == Placed("b")
        assert extender.asked == [("filter", ["b"])]

    def test_a_nominated_node_that_is_gone_is_not_tried(self) -> None:
        extender = FakeExtender(["a"])
        assert attempt(pod("p", nominated="gone"), snapshot(node("a"), node("b")), tools(extender)) == Placed("a")
        assert extender.asked == [("filter", ["a", "b"])]

    def test_an_error_about_the_nominated_node_is_passed_over_and_one_about_all_is_not(self) -> None:
        extender = FakeExtender(None)
        outcome = attempt(pod("p", nominated="a"), snapshot(node("a"), node("b")), tools(extender))
        assert outcome == Failed("it fails")
        assert extender.asked == [("filter", ["a"]), ("filter", ["a", "b"])]

    def test_extenders_are_asked_one_after_the_other_about_what_is_left(self) -> None:
        first, second = FakeExtender(["a", "b"]), FakeExtender(["b"])
        assert attempt(pod("p"), snapshot(node("a"), node("b"), node("c")), tools(first, second)) == Placed("b")
        assert second.asked == [("filter", ["a", "b"])]

    def test_after_the_last_node_no_extender_is_asked(self) -> None:
        first, second = FakeExtender([]), FakeExtender(["a"])
        outcome = attempt(pod("p"), snapshot(node("a")), tools(first, second))
        assert isinstance(outcome, Unschedulable)
        assert outcome.by_extender
        assert second.asked == []

    def test_one_that_is_not_interested_is_not_asked(self) -> None:
        extender = FakeExtender(None, interested=False)
        assert attempt(pod("p"), snapshot(node("a")), tools(extender)) == Placed("a")
        assert extender.asked == []

    def test_the_highest_sum_of_scores_wins(self) -> None:
        extender = FakeExtender(["a", "b", "c"], {"b": 1210, "c": 12100, "stranger": 10**9})
        assert attempt(pod("p"), snapshot(node("a"), node("b"), node("c")), tools(extender)) == Placed("c")

    def test_without_scores_the_emptier_node_wins(self) -> None:
        extender = FakeExtender(["a", "b"], None)
        seen = snapshot(node("a"), node("b"), pods={"a": [pod("other", "3")]})
        assert attempt(pod("p"), seen, tools(extender)) == Placed("b")

    def test_only_the_schedulers_own_rules_refused_it(self) -> None:
        outcome = attempt(pod("p", "9"), snapshot(node("a")), tools(FakeExtender(["a"])))
        assert isinstance(outcome, Unschedulable)
        assert not outcome.by_extender


class TestQueue:
    def settled(self, *pods: tuple[str, int]) -> tuple[Queue, float]:
        queue = Queue()
        for number, (uid, priority) in enumerate(pods):
            queue.add(uid, priority, float(number))
        return queue, len(pods) + SETTLING_SECONDS

    def refused(self, by_extender: bool) -> tuple[Queue, float]:
        queue, now = self.settled(("p", 0))
        assert queue.next(now) == "p"
        queue.done("p", now, by_extender=by_extender)
        assert queue.next(now) is None
        return queue, now

    def test_the_highest_priority_and_then_the_longest_wait_comes_first(self) -> None:
        queue, now = self.settled(("late", 0), ("later", 0), ("urgent", 5))
        order = []
        while (uid := queue.next(now)) is not None:
            order.append(uid)
            queue.remove(uid)
        assert order == ["urgent", "late", "later"]

    def test_a_new_pod_settles_first(self) -> None:
        queue = Queue()
        queue.add("p", 0, 1.0)
        assert queue.next(1.0) is None
        assert queue.wait_seconds(1.0, 60.0) == pytest.approx(SETTLING_SECONDS)
        assert queue.next(1.0 + SETTLING_SECONDS) == "p"

    @pytest.mark.parametrize("by_extender", [True, False])
    @pytest.mark.parametrize("change", list(Change))
    def test_what_wakes_depends_on_who_refused(self, by_extender: bool, change: Change) -> None:
        queue, now = self.refused(by_extender)
        queue.changed(change)
        assert (queue.next(now) == "p") == (by_extender or change is Change.ROOM)

    @pytest.mark.parametrize("by_extender", [True, False])
    @pytest.mark.parametrize("change", list(Change))
    def test_a_change_during_an_attempt_counts_for_it(self, by_extender: bool, change: Change) -> None:
        queue, now = self.settled(("p", 0))
        queue.next(now)
        queue.changed(change)
        queue.done("p", now, by_extender=by_extender)
        assert (queue.next(now) == "p") == (by_extender or change is Change.ROOM)

    def test_a_change_of_the_pod_during_its_attempt_counts_too(self) -> None:
        queue, now = self.settled(("p", 0))
        queue.next(now)
        queue.touched("p", may_fit_now=False)
        queue.done("p", now, by_extender=True)
        assert queue.next(now) == "p"

    def test_a_failed_attempt_is_repeated_after_a_while_whatever_happens(self) -> None:
        queue, now = self.settled(("p", 0))
        queue.next(now)
        queue.done("p", now, failed=True)
        assert queue.next(now) is None
        queue.changed(Change.ROOM)
        queue.touched("p", may_fit_now=True)
        assert queue.next(now) is None
        assert queue.wait_seconds(now, 60.0) == pytest.approx(RETRY_SECONDS)
        assert queue.next(now + RETRY_SECONDS) == "p"

    def test_a_refused_pod_is_tried_again_in_the_end(self) -> None:
        queue, now = self.refused(by_extender=False)
        assert queue.next(now + FLUSH_SECONDS - 1) is None
        assert queue.next(now + FLUSH_SECONDS) == "p"


class TestState:
    def state(self, *nodes: Json) -> ClusterState:
        state = ClusterState(frozenset({"mine"}))
        for each in nodes:
            state.node_changed(None, each)
        return state

    def tried(self, state: ClusterState, uid: str, now: float, *, by_extender: bool = True) -> None:
        assert state.queue.next(now) == uid
        state.queue.done(uid, now, by_extender=by_extender)

    def test_only_pods_of_its_own_name_without_gates_wait(self) -> None:
        state = self.state()
        state.pod_changed(None, pod("other", schedulerName="other"), 0.0)
        gated = pod("gated", schedulingGates=[{"name": "g"}])
        state.pod_changed(None, gated, 0.0)
        assert list(state.queue.uids()) == []
        state.pod_changed(gated, pod("gated"), 1.0)
        assert list(state.queue.uids()) == ["uid-gated"]

    def test_a_bound_pod_takes_room_and_waits_no_more(self) -> None:
        state = self.state(node("a"))
        waiting = pod("p")
        state.pod_changed(None, waiting, 0.0)
        state.pod_changed(waiting, pod("p", nodeName="a"), 1.0)
        assert list(state.queue.uids()) == []
        assert [each["metadata"]["name"] for each in state.snapshot(pod("q")).nodes["a"].pods] == ["p"]

    def test_an_assumed_pod_takes_room_whatever_the_copies_still_say(self) -> None:
        state = self.state(node("a"))
        waiting = pod("p")
        state.pod_changed(None, waiting, 0.0)
        state.assume("uid-p", "a")
        state.pod_changed(waiting, pod("p"), 1.0)
        assert len(state.snapshot(pod("q")).nodes["a"].pods) == 1
        state.forget("uid-p", waiting)
        assert len(state.snapshot(pod("q")).nodes["a"].pods) == 0

    @pytest.mark.parametrize(
        ("other", "mine", "counts"),
        [
            pytest.param(5, 0, True, id="more"),
            pytest.param(0, 0, True, id="as much"),
            pytest.param(0, 5, False, id="less"),
        ],
    )
    def test_a_nomination_counts_for_pods_that_matter_no_more(self, other: int, mine: int, counts: bool) -> None:
        state = self.state(node("a"))
        state.pod_changed(None, pod("p", nominated="a", priority=other), 0.0)
        seen = state.snapshot(pod("q", priority=mine)).nodes["a"]
        assert bool(seen.nominated) is counts

    def test_a_pods_own_nomination_takes_no_room_from_it(self) -> None:
        state = self.state(node("a"))
        mine = pod("p", nominated="a")
        state.pod_changed(None, mine, 0.0)
        assert state.snapshot(mine).nodes["a"].nominated == []

    def test_heartbeats_wake_nobody(self) -> None:
        before = node("a")
        before["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastHeartbeatTime": "1"}]
        after = {**before, "status": {**before["status"], "conditions": [{"type": "Ready", "status": "True"}]}}
        state = self.state(before)
        state.pod_changed(None, pod("p"), 0.0)
        self.tried(state, "uid-p", 1.0)
        state.node_changed(before, after)
        assert state.queue.next(1.0) is None

    def test_a_pod_made_anew_under_its_name_is_another(self) -> None:
        state = self.state()
        old, new = pod("p"), pod("p")
        new["metadata"]["uid"] = "another"
        state.pod_changed(None, old, 0.0)
        state.pod_changed(old, new, 1.0)
        assert list(state.queue.uids()) == ["another"]

    def test_the_end_of_a_nominated_pod_is_room(self) -> None:
        state = self.state(node("a"))
        nominated = pod("p", nominated="a", schedulerName="other")
        state.pod_changed(None, nominated, 0.0)
        state.pod_changed(None, pod("q"), 0.0)
        self.tried(state, "uid-q", 1.0, by_extender=False)
        state.pod_changed(nominated, None, 1.0)
        assert state.queue.next(1.0) == "uid-q"


class TestStatusPatch:
    NOW = "2026-01-01T00:00:00Z"

    def test_the_same_sentence_is_not_written_again(self) -> None:
        said = status_patch(pod("p"), "Unschedulable", "no room", self.NOW)
        assert said is not None
        told = pod("p")
        told["status"]["conditions"] = said["status"]["conditions"]
        assert status_patch(told, "Unschedulable", "no room", "later") is None

    def test_another_sentence_keeps_the_time_of_the_change(self) -> None:
        told = pod("p")
        told["status"]["conditions"] = [
            {"type": "PodScheduled", "status": "False", "reason": "R", "message": "m", "lastTransitionTime": self.NOW}
        ]
        patch = status_patch(told, "R", "another", "later")
        assert patch is not None
        assert patch["status"]["conditions"][0]["lastTransitionTime"] == self.NOW
        assert patch["metadata"] == {"uid": "uid-p"}

    def test_a_nomination_is_taken_back_without_a_new_sentence(self) -> None:
        told = pod("p", nominated="a")
        told["status"]["conditions"] = [
            {"type": "PodScheduled", "status": "False", "reason": "R", "message": "m", "lastTransitionTime": self.NOW}
        ]
        patch = status_patch(told, "R", "m", "later")
        assert patch == {"metadata": {"uid": "uid-p"}, "status": {"nominatedNodeName": None}}
