"""Scores for each node that is offered."""

from optimus.jobs import Counts, Role
from tests.unit.extender.fake_cluster import FakeCluster


def test_by_score_alone_a_gang_is_planned_with_its_first_pod() -> None:
    cluster = FakeCluster({"a": 3, "b": 3, "c": 3})
    first = cluster.pod("j", Role.PS, 0, Counts(2, 4))
    assert cluster.prioritize(first, ["a", "b", "c"]) == {"a": 10, "b": 10, "c": 10}, (
        "workers are unknown yet"
    )
    cluster.spec("j", 2, 4)
    scores = cluster.prioritize(first, ["a", "b", "c"])
    assert sorted(scores.values()) == [0, 0, 10]
    assert cluster.state.reservation_count() == 6


def test_by_score_alone_a_gang_that_does_not_fit_stays_together() -> None:
    cluster = FakeCluster({"a": 3, "b": 2, "c": 1})
    cluster.spec("j", 4, 4)
    counts = Counts(4, 4)
    cluster.bind(cluster.pod("j", Role.PS, 0, counts).name, "b")
    second = cluster.pod("j", Role.PS, 1, counts)
    assert cluster.prioritize(second, ["a", "b", "c"]) == {"a": 9, "b": 10, "c": 3}


def test_the_planned_node_counts_alone_where_it_is_offered() -> None:
    cluster = FakeCluster({"a": 9, "b": 8})
    first = cluster.pods[cluster.job("j", 1, 1)[0]]
    assert cluster.prioritize(first, ["a", "b"]) == {"a": 10, "b": 0}, "b has more room left"
    assert cluster.prioritize(first, ["b"]) == {"b": 10}


def test_pods_of_others_score_nothing_but_room_that_is_free() -> None:
    cluster = FakeCluster({"a": 2, "b": 2})
    cluster.ask(cluster.job("j", 1, 1)[0])
    assert cluster.prioritize(cluster.other("o", 1), ["a", "b"]) == {"a": 0, "b": 10}
