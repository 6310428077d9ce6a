"""What kube-scheduler's stand-in knows of nodes and pods, and what it writes of a pod."""

from localcluster.embedded.scheduler.pod_writer import status_patch
from localcluster.embedded.scheduler.state import ClusterState
from tests.cases import cases
from tests.unit.embedded_processes.scheduling import Json, node, pod


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
        assert list(state.queue._pods) == []
        state.pod_changed(gated, pod("gated"), 1.0)
        assert list(state.queue._pods) == ["uid-gated"]

    def test_a_bound_pod_takes_room_and_waits_no_more(self) -> None:
        state = self.state(node("a"))
        waiting = pod("p")
        state.pod_changed(None, waiting, 0.0)
        state.pod_changed(waiting, pod("p", nodeName="a"), 1.0)
        assert list(state.queue._pods) == []
        assert [each["metadata"]["name"] for each in state.snapshot(pod("q")).nodes["a"].pods] == [
            "p"
        ]

    def test_an_assumed_pod_takes_room_whatever_the_copies_still_say(self) -> None:
        state = self.state(node("a"))
        waiting = pod("p")
        state.pod_changed(None, waiting, 0.0)
        state.assume("uid-p", "a")
        state.pod_changed(waiting, pod("p"), 1.0)
        assert len(state.snapshot(pod("q")).nodes["a"].pods) == 1
        state.forget("uid-p", waiting)
        assert len(state.snapshot(pod("q")).nodes["a"].pods) == 0

    @cases(
        ("other", "mine", "counts"),
        {"more": (5, 0, True), "as much": (0, 0, True), "less": (0, 5, False)},
    )
    def test_a_nomination_counts_for_pods_of_no_higher_priority(
        self, other: int, mine: int, counts: bool
    ) -> None:
        state = self.state(node("a"))
        state.pod_changed(None, pod("p", nominated="a", priority=other), 0.0)
        seen = state.snapshot(pod("q", priority=mine)).nodes["a"]
        assert bool(seen.nominated) is counts

    def test_a_pods_own_nomination_takes_no_room_from_it(self) -> None:
        state = self.state(node("a"))
        mine = pod("p", nominated="a")
        state.pod_changed(None, mine, 0.0)
        assert state.snapshot(mine).nodes["a"].nominated == []

    def test_heartbeats_requeue_no_pod(self) -> None:
        before = node("a")
        before["status"]["conditions"] = [
            {"type": "Ready", "status": "True", "lastHeartbeatTime": "1"}
        ]
        after = {
            **before,
            "status": {**before["status"], "conditions": [{"type": "Ready", "status": "True"}]},
        }
        state = self.state(before)
        state.pod_changed(None, pod("p"), 0.0)
        self.tried(state, "uid-p", 1.0)
        state.node_changed(before, after)
        assert state.queue.next(1.0) is None

    def test_a_pod_recreated_under_its_name_is_another(self) -> None:
        state = self.state()
        old, new = pod("p"), pod("p")
        new["metadata"]["uid"] = "another"
        state.pod_changed(None, old, 0.0)
        state.pod_changed(old, new, 1.0)
        assert list(state.queue._pods) == ["another"]

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

    def test_the_same_message_is_not_written_again(self) -> None:
        said = status_patch(pod("p"), "Unschedulable", "no room", self.NOW)
        assert said is not None
        told = pod("p")
        told["status"]["conditions"] = said["status"]["conditions"]
        assert status_patch(told, "Unschedulable", "no room", "later") is None

    def test_another_sentence_keeps_the_time_of_the_change(self) -> None:
        told = pod("p")
        told["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "R",
                "message": "m",
                "lastTransitionTime": self.NOW,
            }
        ]
        patch = status_patch(told, "R", "another", "later")
        assert patch is not None
        assert patch["status"]["conditions"][0]["lastTransitionTime"] == self.NOW
        assert patch["metadata"] == {"uid": "uid-p"}

    def test_a_nomination_is_removed_without_a_new_message(self) -> None:
        told = pod("p", nominated="a")
        told["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "R",
                "message": "m",
                "lastTransitionTime": self.NOW,
            }
        ]
        patch = status_patch(told, "R", "m", "later")
        assert patch == {"metadata": {"uid": "uid-p"}, "status": {"nominatedNodeName": None}}
