"""The nodes that paused jobs leave are kept for the gang that they were paused for."""

from typing import Any

import pytest

from extender.gang_states import GangState
from extender.inspection import Inspector
from optimus.jobs import JobKey, Requirement
from optimus.placement.rules import AffinityTerm, PodRules, PodSelector
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


def test_a_gang_that_is_gone_leaves_its_room() -> None:
    made = two_jobs()
    made.delete_job("high")
    made.step()
    assert made.state.reservation_count() == 0


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


def test_a_gang_that_keeps_apart_from_its_victims_gets_their_node() -> None:
    made = PreemptingCluster({"a": 2})
    made.cluster.node("a", 2, host="a")
    made.run("low", labels=(("app", "low"),))
    low = PodSelector((Requirement("app", "In", ("low",)),), ("ns",))
    apart = PodRules(anti_affinity=(AffinityTerm("host", low),))
    made.submit("high", priority=5, rules=apart)
    made.pause("low", "high")
    made.step()
    assert made.state.reservation_count() == 2
    made.state.break_plan("uid-high")
    made.step()
    assert made.state.reservation_count() == 2, "planned again while the victim's pods are there"
    made.delete_pods("low")
    assert set(made.cluster.planned_nodes()) == HIGH


def test_pods_that_are_being_deleted_anyway_make_room_too() -> None:
    made = PreemptingCluster({"a": 2})
    made.run("ending", 1, 0)
    made.run("low", 1, 0)
    made.submit("high", priority=5)
    for pod in made.pods("ending"):
        made.cluster.change(pod, leaving=True)
    made.pause("low", "high")
    made.step()
    assert made.state.reservation_count() == 2


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


# --- the reported states


def state_of(made: PreemptingCluster, name: str) -> tuple[GangState, str]:
    (found,) = Inspector(made.planner, 600.0).of_job(JobKey("ns", name))
    return found.state, found.sentence


def test_inspection_reports_both_jobs() -> None:
    made = two_jobs()
    assert state_of(made, "high") == (
        GangState.PREEMPTING,
        "waits for the end of the pods of ns/low, whose room is reserved for it",
    )
    made.delete_pods("low")
    assert state_of(made, "low") == (
        GangState.SUSPENDED,
        "is paused for ns/high, and is resumed by itself",
    )


def test_inspection_still_names_the_victims_once_a_lost_reservation_is_made_again() -> None:
    made = two_jobs()
    made.state.break_plan("uid-high")
    made.step()
    assert "of the pods of ns/low, whose" in state_of(made, "high")[1]


# --- its thread
