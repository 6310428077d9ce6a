"""Scores for each node that is offered."""

import threading

from extender.planner.slices import WAIT_SECONDS
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


def test_by_score_alone_replicas_to_come_are_as_the_first_of_their_role() -> None:
    """Admission has raised what the PSs ask for; the workers are as the job says."""
    cluster = FakeCluster({"a": 9})
    cluster.spec("j", 2, 2)
    cluster.prioritize(cluster.pod("j", Role.PS, 0, Counts(2, 2), cpu=2), ["a"])
    held = cluster.state.reservations.ledger.of_job("uid-j")
    asked = [(each.replica.role, each.resources["cpu"]) for each in held]
    assert sorted(asked) == [(Role.PS, 2), (Role.PS, 2), (Role.WORKER, 1), (Role.WORKER, 1)]


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


def test_a_question_about_a_gang_whose_reservations_have_expired_has_it_planned_again() -> None:
    cluster = FakeCluster({"a": 2, "b": 2})
    first = cluster.pods[cluster.job("j", 1, 1)[0]]
    cluster.prioritize(first, ["a", "b"])
    cluster.now += cluster.settings.reservation_seconds + 1
    cluster.planner.advance()
    assert cluster.state.reservation_count() == 0
    cluster.prioritize(first, ["a", "b"])
    cluster.planner.advance()
    assert cluster.state.reservation_count() == 2


def test_no_plan_is_waited_for_where_there_is_one_or_can_be_none() -> None:
    cluster = FakeCluster({"a": 9})
    planned = cluster.pods[cluster.job("j", 1, 1)[0]]
    cluster.prioritize(planned, ["a"])
    waits: list[str] = []
    cluster.planner._plan_now = lambda: waits.append("plan")
    cluster.prioritize(planned, ["a"])
    cluster.prioritize(cluster.pod("unseen", Role.WORKER, 0, None), ["a"])
    assert waits == []
    cluster.prioritize(cluster.pods[cluster.job("k", 1, 1)[0]], ["a"])
    assert waits == ["plan"]


def test_pods_of_others_score_nothing_but_room_that_is_free() -> None:
    cluster = FakeCluster({"a": 2, "b": 2})
    cluster.ask(cluster.job("j", 1, 1)[0])
    assert cluster.prioritize(cluster.other("o", 1), ["a", "b"]) == {"a": 0, "b": 10}


def test_scores_wait_longer_for_a_plan_than_a_filter_that_can_refuse() -> None:
    cluster = FakeCluster({"a": 3, "b": 3})
    first = cluster.pod("j", Role.PS, 0, Counts(1, 2))
    cluster.spec("j", 1, 2)
    late = threading.Timer(10 * WAIT_SECONDS, cluster.planner.advance)
    cluster.planner._plan_now = late.start
    scores = cluster.prioritize(first, ["a", "b"])
    late.join()
    assert sorted(scores.values()) == [0, 10]


def test_a_question_while_another_process_seems_to_lead_has_the_lease_read() -> None:
    cluster = FakeCluster({"a": 3, "b": 3})
    reads: list[str] = []

    def read() -> None:
        reads.append("lease")
        cluster.adoption.adopt_nominations()

    cluster.adoption.release_all()
    cluster.planner._called_as_follower = read
    cluster.ask(cluster.job("j", 1, 2)[0])
    assert cluster.state.leads
    cluster.ask(cluster.job("k", 1, 1)[0])
    assert reads == ["lease"]
