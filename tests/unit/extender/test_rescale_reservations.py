"""Room that is reserved for a job while it is rescaled."""

from dataclasses import dataclass, field, replace

import pytest

from extender.state.cluster import ProfileRescale
from optimus.jobs import Counts
from optimus.placement.capacity import Capacity
from optimus.placement.gang import DoesNotFit, Gang, Placement
from optimus.placement.theorem1 import Theorem1
from tests.cases import cases
from tests.unit.extender.fake_cluster import FakeCluster, reasons


def bound_job(cluster: FakeCluster, ps: int, workers: int, cpu: int = 1) -> list[str]:
    cluster.spec("j", ps, workers)
    names = cluster.job("j", ps, workers, cpu)
    assert all(cluster.place(name) for name in names)
    return names


@cases(
    ("suspended", "seconds"),
    {
        "suspended: as long as room is held": (True, 600),
        "resumed by hand: as long as a suspension takes": (False, 30),
    },
)
def test_a_profile_that_stays_at_suspending_blocks_its_pods_for_a_limited_time(
    suspended: bool, seconds: int
) -> None:
    cluster = FakeCluster({"a": 4})
    cluster.spec("j", 1, 1)
    job = cluster.state.cluster.jobs["uid-j"]
    cluster.handlers.set_job("uid-j", replace(job, suspended=suspended))
    cluster.rescale("j", 1, 1, leaving=True)
    names = cluster.job("j", 1, 1)
    cluster.now += seconds
    assert reasons(cluster, names[0]) == {
        "job ns/j is being suspended, to resume with other counts"
    }
    cluster.plan()
    assert cluster.planned_nodes() == {}
    cluster.now += 1
    assert cluster.ask(names[0]).kept == ("a",)


def test_a_rescaled_job_keeps_its_place_against_a_waiting_one() -> None:
    cluster = FakeCluster({"a": 4})
    old = bound_job(cluster, 1, 2)
    waiting = cluster.job("waiting", 2, 2)
    assert cluster.ask(waiting[0], ["a"]).kept == ()
    cluster.rescale("j", 1, 3, leaving=True)
    cluster.assert_not_overcommitted()
    cluster.delete(*old)
    cluster.plan()
    cluster.rescale("j", 1, 3, leaving=False)
    assert cluster.ask(waiting[0]).kept == ()
    cluster.assert_not_overcommitted()
    new = cluster.job("j", 1, 3)
    assert [cluster.place(name) for name in new] == ["a"] * 4
    cluster.handlers.set_rescale("uid-j", None)
    assert cluster.state.reservation_count() == 0


def test_pods_that_a_rescale_is_about_to_delete_are_refused() -> None:
    cluster = FakeCluster({"a": 4, "b": 4})
    cluster.spec("j", 1, 1)
    names = cluster.job("j", 1, 1)
    cluster.rescale("j", 1, 3, leaving=True)
    assert reasons(cluster, names[0]) == {
        "job ns/j is being suspended, to resume with other counts"
    }
    assert cluster.state.reservation_count() == 4
    cluster.plan()
    assert cluster.state.reservation_count() == 4


def test_room_is_reserved_for_a_rescale_for_ten_minutes_at_most() -> None:
    cluster = FakeCluster({"a": 3})
    cluster.delete(*bound_job(cluster, 1, 1))
    cluster.rescale("j", 1, 2, leaving=False)
    others = cluster.job("other", 1, 1)
    assert cluster.ask(others[0]).kept == ()
    cluster.now += 599.9
    cluster.plan()
    assert cluster.ask(others[0]).kept == ()
    cluster.now += 0.1
    cluster.plan()
    assert cluster.ask(others[0]).kept == ("a",)
    cluster.assert_not_overcommitted()


def test_what_a_job_may_return_to_is_reserved_while_its_target_does_not_fit() -> None:
    cluster = FakeCluster({"a": 6})
    old = bound_job(cluster, 1, 2)
    cluster.other("taken", 2, "a")
    cluster.rescale("j", 1, 4, leaving=True, kept=Counts(1, 2))
    cluster.delete(*old)
    cluster.rescale("j", 1, 4, leaving=False, kept=Counts(1, 2))
    waiting = cluster.job("waiting", 1, 1)
    cluster.plan()
    assert cluster.ask(waiting[0]).kept == (), "three of the four are what it returns to"
    new = cluster.job("j", 1, 4)
    assert all(cluster.ask(name).kept == () for name in new), "a part of it is not placed"
    assert not set(cluster.planned_nodes()) & set(new)
    cluster.delete(*new)
    cluster.rescale("j", 1, 2, leaving=True)
    assert cluster.ask(waiting[0]).kept == ()
    cluster.rescale("j", 1, 2, leaving=False)
    assert [cluster.place(name) for name in cluster.job("j", 1, 2)] == ["a"] * 3
    cluster.assert_not_overcommitted()


def test_room_that_was_a_jobs_own_is_not_taken_by_one_that_grows() -> None:
    """Its plan is broken; the other, which was stopped before it, waits for room to grow."""
    cluster = FakeCluster({"a": 6})
    cluster.spec("a-grows", 1, 1)
    grows = cluster.job("a-grows", 1, 1)
    assert all(cluster.place(name) for name in grows)
    old = bound_job(cluster, 1, 3)
    cluster.rescale("a-grows", 1, 4, leaving=True, kept=Counts(1, 1))
    cluster.rescale("j", 1, 2, leaving=True)
    cluster.delete(*old, *grows)
    cluster.rescale("a-grows", 1, 4, leaving=False, kept=Counts(1, 1))
    cluster.rescale("j", 1, 2, leaving=False)
    with cluster.state.locked():
        cluster.state.break_plan("uid-j")
    cluster.plan()
    assert [cluster.place(name) for name in cluster.job("j", 1, 2)] == ["a"] * 3


@dataclass(frozen=True)
class CountingRule(Theorem1):
    """Theorem 1, and the gangs that it was asked for."""

    searched: list[str] = field(default_factory=list)

    def place(self, gang: Gang, capacity: Capacity) -> Placement | DoesNotFit:
        self.searched.append(gang.job_uid)
        return super().place(gang, capacity)


@pytest.mark.parametrize("leaving", [True, False])
@cases("change", {"is bound late": {"node": "b"}, "fails": {"phase": "Failed"}})
def test_an_old_pod_does_not_release_what_is_held_for_its_successor(
    leaving: bool, change: dict[str, str]
) -> None:
    cluster = FakeCluster({"a": 2, "b": 2})
    cluster.spec("j", 1, 1)
    names = cluster.job("j", 1, 1)
    cluster.rescale("j", 1, 1, leaving=True)
    cluster.plan()
    assert cluster.state.reservation_count() == 2
    if not leaving:
        for name in names:
            cluster.change(cluster.pods[name], leaving=True)
        cluster.rescale("j", 1, 1, leaving=False)
        cluster.plan()
    held = cluster.state.reservations.ledger.of_job("uid-j")
    cluster.change(cluster.pods[names[1]], **change)
    assert cluster.state.reservations.ledger.of_job("uid-j") == held


@pytest.mark.parametrize("held", [Counts(0, 0), Counts(1, 1)])
def test_what_a_jobs_user_brings_about_is_no_way_around_the_queue(held: Counts) -> None:
    """A mark on a suspended job, or larger counts of one that runs."""
    cluster = FakeCluster({"a": 4})
    if any(held):
        cluster.delete(*bound_job(cluster, *held))
    cluster.spec("j", 1, 3)
    cluster.now += 1
    cluster.handlers.set_rescale(
        "uid-j", ProfileRescale("uid-j", "forged", Counts(1, 3), False, held, by_user=True)
    )
    assert cluster.state.reservation_count() == 0
    if any(held):
        at_most = ProfileRescale("uid-j", "restart", Counts(1, 1), False, by_user=True)
        cluster.handlers.set_rescale("uid-j", at_most)
        assert cluster.state.reservation_count() == 2
    else:
        assert "uid-j" not in cluster.state.cluster.have_run
