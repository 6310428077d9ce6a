"""The answers of filter, scenario by scenario."""

from collections import Counter
from collections.abc import Callable

import pytest

from extender.filter import FilterResult
from extender.state.future_room import Awaited
from optimus.jobs import Counts, NodeConstraints, Role
from optimus.placement.gang import Placement
from optimus.snapshot import ReplicaId
from tests.cases import cases
from tests.unit.extender.fake_cluster import FakeCluster, reasons


def test_each_pod_of_a_gang_gets_exactly_its_planned_node() -> None:
    cluster = FakeCluster({"a": 3, "b": 3, "c": 3})
    pods = cluster.job("j", 2, 4)
    for name in pods:
        result = cluster.ask(name)
        assert len(result.kept) == 1
        assert {*result.kept} < {*cluster.fitting(cluster.pods[name])}
        assert result.refused == {}, "kube-scheduler reads no reason where a node is left"
        cluster.bind(name, result.kept[0])
        cluster.assert_not_overcommitted()
    assert Counter(pod.node for pod in cluster.pods.values()) == {"a": 3, "b": 3}
    assert cluster.state.reservation_count() == 0


def test_a_gang_that_does_not_fit_waits_as_a_whole_until_room_appears() -> None:
    cluster = FakeCluster({"a": 3, "b": 2})
    other = cluster.other("o", 2, "b")
    first = cluster.job("j", 1, 3)[0]
    assert reasons(cluster, first) == {"job ns/j (1 PS + 3 workers) does not fit as a whole"}
    cluster.planner.advance()
    assert cluster.planned_nodes() == {}
    cluster.delete(other.name)
    cluster.planner.advance()
    assert len(cluster.planned_nodes()) == 4


def test_a_probe_gets_the_planned_node_and_never_a_new_plan() -> None:
    cluster = FakeCluster({"a": 2, "b": 2})
    names = cluster.job("j", 1, 1)
    node = cluster.ask(names[0]).kept[0]
    elsewhere = "b" if node == "a" else "a"
    nominated = cluster.change(cluster.pods[names[1]], nominated_node=node)
    assert cluster.ask(nominated.name, [node]).kept == (node,)
    cluster.change(nominated, nominated_node=elsewhere)
    assert reasons(cluster, nominated.name, elsewhere) == {
        "the plan of job ns/j has changed since pods were nominated"
    }
    assert cluster.planned_nodes()[nominated.name] == node


def test_a_probe_without_any_plan_is_refused() -> None:
    cluster = FakeCluster({"a": 9, "b": 9})
    name = cluster.job("j", 1, 1)[0]
    cluster.change(cluster.pods[name], nominated_node="a")
    assert cluster.ask(name, ["a"]).kept == ()
    assert cluster.state.reservation_count() == 0


ASKED = {"waiting until every pod of job ns/j has been offered nodes"}
NOT_OFFERED = {"job ns/j does not fit as a whole on the nodes offered"}


def test_a_gang_whose_planned_node_is_not_offered_is_planned_on_what_each_pod_is_offered() -> None:
    cluster = FakeCluster({"a": 2, "b": 2, "c": 2})
    names = cluster.job("j", 1, 1)
    assert cluster.ask(names[0]).kept == ("a",)
    assert reasons(cluster, names[0], "b", "c") == ASKED
    cluster.planner.advance()
    assert cluster.planned_nodes() == {}, "the worker may have other rules"
    assert cluster.ask(names[1], ["a"]).kept == ("a",)
    assert cluster.planned_nodes()["j-ps-0"] != "a"


def test_the_first_pod_is_not_bound_alone_where_the_others_are_not_offered_their_nodes() -> None:
    cluster = FakeCluster({"a": 3, "b": 9})
    names = cluster.job("j", 1, 4)
    for name in names:
        cluster.change(cluster.pods[name], beyond_plan=True)
    for _ in range(3):
        for name in names:
            assert cluster.ask(name, ["a", "b"] if "ps" in name else ["a"]).kept == ()
    cluster.planner.advance()
    assert cluster.planned_nodes() == {}


def test_no_pod_with_rules_beyond_the_plan_is_answered_before_each_was_offered_nodes() -> None:
    cluster = FakeCluster({"a": 4, "b": 4})
    names = cluster.job("j", 1, 2)
    cluster.change(cluster.pods[names[2]], beyond_plan=True)
    cluster.planner.advance()
    assert cluster.planned_nodes() == {}
    assert reasons(cluster, names[0], "a", "b") == ASKED
    assert reasons(cluster, names[2], "b") == ASKED
    assert cluster.ask(names[1], ["a", "b"]).kept == ("b",), "the workers' role is offered b alone"
    assert set(cluster.planned_nodes().values()) == {"b"}


def test_a_node_full_of_nominated_pods_of_the_gang_does_not_count_as_not_offered() -> None:
    cluster = FakeCluster({"a": 1, "b": 2})
    names = cluster.job("j", 0, 3, beyond_plan=True)
    for name in names[1:]:
        cluster.change(cluster.pods[name], nominated_node="b")
    assert cluster.fitting(cluster.pods[names[0]]) == ["a"]
    assert [cluster.place(name) for name in names[:2]] == [None, None]
    assert cluster.place(names[2]) is not None


def test_pods_of_the_gang_may_be_nominated_for_a_node_that_is_not_there() -> None:
    cluster = FakeCluster({"a": 1, "b": 2})
    first, *others = cluster.job("j", 0, 3)
    for name in others:
        cluster.change(cluster.pods[name], nominated_node="gone")
    planned = cluster.ask(first, ["a", "b"]).kept
    assert planned
    assert cluster.ask(first, [node for node in "ab" if node not in planned]).kept == ()
    for name in others:
        cluster.change(cluster.pods[name], nominated_node=None)
    assert "gone" not in cluster.state.cluster.released_at


@pytest.mark.parametrize("truth", [2, 4])
def test_a_gang_that_is_always_refused_is_asked_about_less_and_less_often(truth: int) -> None:
    cluster = FakeCluster({"a": truth, "b": 9})
    names = cluster.job("j", 1, 4)
    asked: list[float] = []
    texts: set[str] = set()
    begun = cluster.now
    while cluster.now < begun + 300:
        cluster.planner.advance()
        nominated = cluster.planned_nodes()
        woken = [pod.name for pod in cluster.nominations.pods_to_requeue()]
        for name in [*nominated, *woken] if asked else names:
            asked.append(cluster.now - begun)
            result = cluster.ask(name, ["a"])
            assert result.kept == ()
            texts |= {*result.refused.values()}
        cluster.now += 0.25
    assert len(asked) <= 60, "5 pods at 0, 1, 3, 7, 15, 31, 63, 123, 183 and 243 s, some twice"
    assert texts == ASKED | NOT_OFFERED, "the first until all were offered, then the second"


@cases(
    ("change", "seconds", "until_asked"),
    {
        "the node changes": (lambda cluster: cluster.node("a", 4), 0.0, 0.0),
        "the job changes": (lambda cluster: cluster.spec("j", 2, 1), 0.0, 1.0),
        "the back-off ends": (lambda cluster: None, 1.0, 0.0),
    },
)
def test_a_node_that_was_not_offered_is_tried_again(
    change: Callable[[FakeCluster], None], seconds: float, until_asked: float
) -> None:
    cluster = FakeCluster({"a": 3, "b": 1})
    names = cluster.job("j", 2, 1)
    for name in names:
        cluster.ask(name, ["b"])
    assert reasons(cluster, names[0], "b") == NOT_OFFERED
    cluster.planner.advance()
    assert cluster.planned_nodes() == {}
    cluster.now += seconds
    change(cluster)
    cluster.planner.advance()
    if until_asked:
        assert cluster.nominations.pods_to_requeue() == (), "as of a new job's, kube-scheduler asks"
        cluster.now += until_asked
    for pod in cluster.nominations.pods_to_requeue():
        cluster.ask(pod.name, ["a", "b"])
    assert cluster.planned_nodes() == dict.fromkeys(names, "a")


def test_offers_that_change_at_every_question_do_not_make_a_gang_spin() -> None:
    cluster = FakeCluster({"a": 1, "b": 1, "c": 1, "d": 1})
    (name,) = cluster.job("j", 1, 0)
    plans = 0
    for step in range(400):
        cluster.now += 0.05
        cluster.planner.advance()
        planned = cluster.planned_nodes().get(name)
        plans += planned is not None
        if planned or cluster.nominations.pods_to_requeue() or step == 0:
            cluster.ask(name, [node for node in "abcd" if node != planned])
            cluster.state.reservations.assumed.clear()
    assert plans <= 10


def test_a_node_that_a_pod_comes_back_from_three_times_is_excluded() -> None:
    cluster = FakeCluster({"a": 2, "b": 2})
    names = cluster.job("j", 1, 1)
    assert [cluster.ask(names[0]).kept for _ in range(4)] == [("a",)] * 3 + [("b",)]
    assert cluster.planned_nodes() == dict.fromkeys(names, "b")


def test_what_one_replica_is_not_offered_is_not_held_against_another_kind_of_its_role() -> None:
    """Worker 1 has a node selector of its own: what admits it is offered to it alone."""
    cluster = FakeCluster({})
    for name in ("a", "b"):
        cluster.node(name, 1, disk="ssd" if name == "b" else "hdd")
    plain, chosen = cluster.job("j", 0, 2)
    cluster.change(cluster.pods[plain], beyond_plan=True)
    constraints = NodeConstraints(selector=(("disk", "ssd"),))
    cluster.change(cluster.pods[chosen], constraints=constraints)
    cluster.ask(plain, ["a"])
    assert cluster.ask(chosen, ["b"]).kept == ("b",)
    assert cluster.planned_nodes() == {plain: "a", chosen: "b"}


def test_a_pod_that_is_being_bound_stays_where_it_is_when_the_rest_is_planned_again() -> None:
    cluster = FakeCluster({"a": 2, "b": 2, "c": 2})
    names = cluster.job("j", 2, 2)
    assumed = cluster.ask(names[0]).kept[0]
    stuck = cluster.planned_nodes()[names[3]]
    assert stuck != assumed
    other = next(node for node in "abc" if node not in (assumed, stuck))
    offered = [node for node in "abc" if node != stuck]
    for name in (names[3], names[1], names[2]):
        last = cluster.ask(name, offered)
    assert last.kept == (cluster.planned_nodes()[names[2]],)
    cluster.bind(names[0], assumed)
    cluster.assert_not_overcommitted()
    for name in names[1:]:
        assert cluster.place(name) is not None
    assert Counter(pod.node for pod in cluster.pods.values()) == {assumed: 2, other: 2}


def test_a_half_bound_gang_is_completed_around_its_bound_pods() -> None:
    cluster = FakeCluster({"a": 3, "b": 3})
    names = cluster.job("j", 2, 4)
    first = cluster.place(names[0])
    cluster.now += 1000
    cluster.planner.advance()
    assert cluster.planned_nodes() == {}
    cluster.place(names[1])
    cluster.assert_not_overcommitted()
    assert len(cluster.planned_nodes()) == 4
    for name in names[2:]:
        cluster.place(name)
    assert Counter(pod.node for pod in cluster.pods.values()) == {"a": 3, "b": 3}
    assert cluster.pods[names[0]].node == first


def test_a_pod_that_is_already_bound_is_refused() -> None:
    cluster = FakeCluster({"a": 2})
    names = cluster.job("j", 1, 1)
    asked = cluster.pods[names[0]]
    cluster.place(names[0])
    assert set(cluster.filter(asked, ["a"]).refused.values()) == {"the pod has been bound already"}


def test_reservations_of_pods_that_are_not_bound_in_time_expire() -> None:
    cluster = FakeCluster({"a": 2})
    cluster.job("slow", 1, 1)
    cluster.planner.advance()
    others = cluster.job("other", 1, 1)
    assert cluster.ask(others[0]).kept == ()
    cluster.now += 59.9
    assert cluster.ask(others[0]).kept == ()
    cluster.now += 0.1
    cluster.planner.advance()
    assert cluster.ask(others[0]).kept == ("a",)


def test_a_binding_in_progress_holds_its_room_as_long_as_volumes_may_take() -> None:
    cluster = FakeCluster({"a": 2, "b": 2})
    first, second = cluster.job("slow", 1, 1)
    assert cluster.ask(first).kept == ("a",)
    cluster.now += 599
    cluster.planner.advance()
    others = cluster.job("other", 1, 1)
    assert [cluster.place(name) for name in others] == ["b", "b"], "a is held for the first pod"
    assert cluster.place(second) == "a", "the rest is planned around it"
    cluster.now += 60
    cluster.planner.advance()
    assert cluster.state.reservation_count() == 0
    assert cluster.ask(first, ["a"]).kept == (), "a did not bind it"


def test_a_binding_that_failed_holds_its_room_no_longer_than_a_plan() -> None:
    cluster = FakeCluster({"a": 2})
    first, _ = cluster.job("slow", 1, 1)
    cluster.ask(first)
    cluster.now += 30
    cluster.filter(cluster.change(cluster.pods[first], nominated_node="x"), ["x"])
    cluster.now += 60
    cluster.planner.advance()
    assert cluster.state.reservation_count() == 0


def test_a_deleted_job_releases_its_reservations() -> None:
    cluster = FakeCluster({"a": 2})
    names = cluster.job("j", 1, 1)
    cluster.ask(names[0])
    assert cluster.state.reservation_count() == 2
    cluster.delete(*names)
    cluster.handlers.set_job("uid-j", None)
    assert cluster.state.reservation_count() == 0
    assert cluster.place(cluster.job("k", 1, 1)[0]) == "a"


def test_gangs_planned_on_a_lost_node_are_planned_again() -> None:
    cluster = FakeCluster({"a": 2, "b": 2})
    names = cluster.job("j", 1, 1)
    cluster.planner.advance()
    cluster.lose_node("a")
    cluster.assert_not_overcommitted()
    cluster.planner.advance()
    assert cluster.planned_nodes() == dict.fromkeys(names, "b")


def hold_what_others_leave(cluster: FakeCluster, job: str = "j") -> FilterResult:
    (name,) = cluster.job(job, 0, 1)
    found = cluster.state.queue.find(f"uid-{job}")
    assert found is not None
    victim = cluster.pod(f"victim-of-{job}", Role.WORKER, 0, Counts(0, 1), node="a")
    leaving = Awaited(frozenset({victim.uid}), ("ns/victim",))
    plan = Placement(f"uid-{job}", {ReplicaId(f"uid-{job}", Role.WORKER, 0): "a"})
    cluster.state.hold_future(found.observed.gang, plan, leaving, cluster.now + 60)
    return cluster.ask(name, ["a"])


def ask_with_rules_beyond_the_plan(cluster: FakeCluster) -> FilterResult:
    first, _ = cluster.job("j", 0, 2, beyond_plan=True)
    return cluster.ask(first, ["a"])


def ask_for_a_bound_pod(cluster: FakeCluster) -> FilterResult:
    (name,) = cluster.job("j", 0, 1, node="a")
    return cluster.ask(name, ["a"])


def ask_beside_a_reservation(cluster: FakeCluster) -> FilterResult:
    cluster.job("j", 0, 2)
    cluster.planner.advance()
    return cluster.ask(cluster.other("o", 1).name, ["a"])


@cases(
    ("ask", "cause"),
    {
        "a pod that is bound": (ask_for_a_bound_pod, "bound"),
        "room that victims still take": (hold_what_others_leave, "preempting"),
        "rules beyond the plan": (ask_with_rules_beyond_the_plan, "asked"),
        "another pod beside a reservation": (ask_beside_a_reservation, "reserved"),
    },
)
def test_a_refusal_is_counted_by_its_cause(
    ask: Callable[[FakeCluster], FilterResult], cause: str
) -> None:
    result = ask(FakeCluster({"a": 2}))
    assert (result.kept, result.cause) == ((), cause)


def test_a_gang_waits_for_no_victims_once_its_reservation_has_ended() -> None:
    cluster = FakeCluster({"a": 2})
    assert hold_what_others_leave(cluster).cause == "preempting"
    cluster.now += 60
    assert cluster.ask("j-worker-0", ["a"]).kept == ("a",)


def test_each_gang_waits_for_its_own_victims_alone() -> None:
    cluster = FakeCluster({"a": 2})
    for job in ("j", "k"):
        assert hold_what_others_leave(cluster, job).cause == "preempting"
    cluster.delete("victim-of-k-worker-0")
    assert cluster.ask("k-worker-0", ["a"]).kept == ("a",)
    assert cluster.ask("j-worker-0", ["a"]).cause == "preempting"


def test_the_refusal_of_a_pod_names_the_scheduling_gate_of_its_gang() -> None:
    cluster = FakeCluster({"a": 2})
    first, second = cluster.job("j", 0, 2)
    cluster.change(cluster.pods[second], gates=("ns/quota",))
    assert reasons(cluster, first) == {"waiting for scheduling gate ns/quota of job ns/j"}
