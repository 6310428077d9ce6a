"""The nodes that paused jobs leave are kept for the gang that they were paused for."""

from typing import Any

import pytest

from tests.unit.extender.preempting_cluster import PreemptingCluster

HIGH = {"high-ps-0", "high-worker-0"}


def two_jobs() -> PreemptingCluster:
    """One node, full with one job that was paused a moment ago; ``high`` waits for it."""
    made = PreemptingCluster({"a": 2})
    made.run("low")
    made.submit("high", priority=5)
    made.pause("low", "high")
    made.step()
    return made


def test_while_paused_jobs_end_their_nodes_are_the_gangs() -> None:
    made = two_jobs()
    assert made.reason("high-ps-0") == {
        "waiting for the pods of preempted jobs to make room for job ns/high"
    }
    assert made.cluster.planned_nodes() == {}
    first, second = made.pods("low")
    made.cluster.delete(first.name)
    other = made.cluster.other("o", 1)
    assert made.cluster.filter(other, ["a"]).kept == ()
    made.submit("small", 1, 0)
    made.step()
    assert made.cluster.planned_nodes() == {}
    made.cluster.delete(second.name)
    assert set(made.cluster.planned_nodes()) == HIGH
    assert made.cluster.filter(other, ["a"]).kept == ()
    made.resume("low")
    made.step()
    assert set(made.cluster.planned_nodes()) == HIGH


def test_a_gang_whose_jobs_are_resumed_leaves_its_room() -> None:
    made = two_jobs()
    assert made.state.reservation_count() == 2
    made.resume("low")
    made.step()
    assert made.state.reservation_count() == 0
    assert made.state.future_room.awaits("uid-high") is None


def test_a_gang_that_does_not_fit_yet_is_planned_once_all_are_paused() -> None:
    made = PreemptingCluster({"a": 2, "b": 2})
    made.run("first")
    made.run("second")
    made.submit("high", 1, 3, priority=5)
    made.pause("first", "high")
    made.step()
    assert made.state.reservation_count() == 0
    made.pause("second", "high")
    made.step()
    assert made.state.reservation_count() == 4


def test_a_new_process_keeps_the_room_from_the_first_moment() -> None:
    made = two_jobs()
    made.restart()
    assert made.state.reservation_count() == 2
    made.submit("small", 1, 0)
    made.step()
    assert made.state.reservation_count() == 2


@pytest.mark.parametrize("mark", [{"seconds": 601.0}, {"seconds": -3600.0}, {"by_quota": True}])
def test_a_mark_of_another_time_or_for_a_quota_keeps_no_nodes(mark: dict[str, Any]) -> None:
    made = PreemptingCluster({"a": 2})
    made.run("low")
    made.submit("high", priority=5)
    made.pause("low", "high", **mark)
    made.step()
    assert made.state.reservation_count() == 0


def test_a_mark_that_its_user_writes_is_no_way_around_the_queue() -> None:
    made = PreemptingCluster({"a": 4})
    made.run("own", 2, 2)
    made.submit("waits", 2, 2)
    made.step()
    made.submit("last", 2, 2)
    made.pause("own", "last", is_stored=False)
    made.step()
    assert made.state.reservation_count() == 0
    made.delete_pods("own")
    made.step()
    assert {name.split("-")[0] for name in made.cluster.planned_nodes()} == {"waits"}


def test_a_process_that_does_not_lead_keeps_nothing() -> None:
    made = PreemptingCluster({"a": 2})
    made.run("low")
    made.submit("high", priority=5)
    made.state.leads = False
    made.pause("low", "high")
    made.step(2)
    assert made.state.reservation_count() == 0


def test_on_caches_that_are_too_old_nothing_is_kept() -> None:
    made = PreemptingCluster({"a": 2})
    made.run("low")
    made.submit("high", priority=5)
    made.state.why_too_old = lambda: "the copy of pods is 200 s old"
    made.pause("low", "high")
    made.step(2)
    assert made.state.reservation_count() == 0
