"""The answers of filter, scenario by scenario."""

from collections import Counter

from extender.gang_states import WaitReason, sentence_of
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
    cluster.plan()
    assert cluster.planned_nodes() == {}
    cluster.delete(other.name)
    cluster.plan()
    assert len(cluster.planned_nodes()) == 4


ASKED = {sentence_of(WaitReason.ASKED, "ns/j")}


def test_a_gang_whose_planned_node_is_not_offered_is_planned_on_what_each_pod_is_offered() -> None:
    cluster = FakeCluster({"a": 2, "b": 2, "c": 2})
    names = cluster.job("j", 1, 1)
    assert cluster.ask(names[0]).kept == ("a",)
    assert reasons(cluster, names[0], "b", "c") == ASKED
    cluster.plan()
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
    cluster.plan()
    assert cluster.planned_nodes() == {}


def test_a_node_that_a_pod_comes_back_from_three_times_is_excluded() -> None:
    cluster = FakeCluster({"a": 2, "b": 2})
    names = cluster.job("j", 1, 1)
    assert [cluster.ask(names[0]).kept for _ in range(4)] == [("a",)] * 3 + [("b",)]
    assert cluster.planned_nodes() == dict.fromkeys(names, "b")


def test_a_half_bound_gang_is_completed_around_its_bound_pods() -> None:
    cluster = FakeCluster({"a": 3, "b": 3})
    names = cluster.job("j", 2, 4)
    first = cluster.place(names[0])
    cluster.now += 1000
    cluster.plan()
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
    cluster.plan()
    others = cluster.job("other", 1, 1)
    assert cluster.ask(others[0]).kept == ()
    cluster.now += 59.9
    assert cluster.ask(others[0]).kept == ()
    cluster.now += 0.1
    cluster.plan()
    assert cluster.ask(others[0]).kept == ("a",)


def test_a_binding_in_progress_holds_its_room_as_long_as_volumes_may_take() -> None:
    cluster = FakeCluster({"a": 2, "b": 2})
    first, second = cluster.job("slow", 1, 1)
    assert cluster.ask(first).kept == ("a",)
    cluster.now += 599
    cluster.plan()
    others = cluster.job("other", 1, 1)
    assert [cluster.place(name) for name in others] == ["b", "b"], "a is held for the first pod"
    assert cluster.place(second) == "a", "the rest is planned around it"
    cluster.now += 60
    cluster.plan()
    assert cluster.state.reservation_count() == 0
    assert cluster.ask(first, ["a"]).kept == (), "a did not bind it"


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
    cluster.plan()
    cluster.lose_node("a")
    cluster.assert_not_overcommitted()
    cluster.plan()
    assert cluster.planned_nodes() == dict.fromkeys(names, "b")
