"""Room that is reserved for a job while it is rescaled."""

from dataclasses import replace

import pytest

from optimus.jobs import Counts, Role
from tests.unit.extender.fake_cluster import FakeCluster, reasons


def bound_job(cluster: FakeCluster, ps: int, workers: int, cpu: int = 1) -> list[str]:
    cluster.spec("j", ps, workers)
    names = cluster.job("j", ps, workers, cpu)
    assert all(cluster.place(name) for name in names)
    return names


@pytest.mark.parametrize(
    ("suspended", "seconds"),
    [
        pytest.param(True, 600, id="suspended: as long as room is held"),
        pytest.param(False, 30, id="resumed by hand: as long as a suspension takes"),
    ],
)
def test_a_profile_that_stays_at_suspending_blocks_its_pods_for_a_limited_time(
    suspended: bool, seconds: int
) -> None:
    cluster = FakeCluster({"a": 4})
    cluster.spec("j", 1, 1)
    job = cluster.planner.cluster.jobs["uid-j"]
    cluster.handlers.set_job("uid-j", replace(job, suspended=suspended))
    cluster.rescale("j", 1, 1, leaving=True)
    names = cluster.job("j", 1, 1)
    cluster.now += seconds
    assert reasons(cluster, names[0]) == {
        "job ns/j is being suspended, to resume with other counts"
    }
    cluster.planner.advance()
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
    cluster.planner.advance()
    cluster.rescale("j", 1, 3, leaving=False)
    assert cluster.ask(waiting[0]).kept == ()
    cluster.assert_not_overcommitted()
    new = cluster.job("j", 1, 3)
    assert [cluster.place(name) for name in new] == ["a"] * 4
    cluster.handlers.set_rescale("uid-j", None)
    assert cluster.planner.reservation_count() == 0


@pytest.mark.parametrize("restarts", [False, True])
def test_the_pods_requests_are_reserved_not_the_jobs_template(restarts: bool) -> None:
    cluster = FakeCluster({"a": 8})
    old = bound_job(cluster, 1, 2, cpu=2)
    waiting = cluster.job("waiting", 1, 1)
    if not restarts:
        cluster.rescale("j", 1, 3, leaving=True)
        assert cluster.ask(waiting[0]).kept == ()
    cluster.delete(*old)
    new = cluster.job("j", 1, 3, cpu=2)
    cluster.rescale("j", 1, 3, leaving=False)
    assert cluster.ask(waiting[0]).kept == ()
    assert [cluster.place(name) for name in new] == ["a"] * 4


def test_new_pods_requests_count_before_old_ones() -> None:
    cluster = FakeCluster({"a": 7})
    for name in bound_job(cluster, 1, 1):
        cluster.change(cluster.pods[name], leaving=True)
    cluster.pod("j", Role.WORKER, 1, Counts(1, 2), cpu=2)
    cluster.rescale("j", 1, 2, leaving=False)
    assert cluster.ask(cluster.job("waiting", 1, 2)[0]).kept == (), "1 + 2 + 2 of 7 are held"
    assert cluster.ask(cluster.job("small", 1, 1)[0]).kept == ("a",)


def test_a_rescaled_jobs_pods_need_not_wait_for_each_other() -> None:
    cluster = FakeCluster({"a": 4})
    old = bound_job(cluster, 1, 1)
    cluster.rescale("j", 1, 2, leaving=True)
    cluster.delete(*old)
    cluster.rescale("j", 1, 2, leaving=False)
    first = cluster.pod("j", Role.PS, 0, Counts(1, 2)).name
    assert cluster.ask(first).kept == ("a",)


def test_pods_that_a_rescale_is_about_to_delete_are_refused() -> None:
    cluster = FakeCluster({"a": 4, "b": 4})
    cluster.spec("j", 1, 1)
    names = cluster.job("j", 1, 1)
    cluster.rescale("j", 1, 3, leaving=True)
    assert reasons(cluster, names[0]) == {
        "job ns/j is being suspended, to resume with other counts"
    }
    assert cluster.planner.reservation_count() == 4
    cluster.planner.advance()
    assert cluster.planner.reservation_count() == 4


def test_room_is_reserved_for_a_rescale_for_ten_minutes_at_most() -> None:
    cluster = FakeCluster({"a": 3})
    cluster.delete(*bound_job(cluster, 1, 1))
    cluster.rescale("j", 1, 2, leaving=False)
    others = cluster.job("other", 1, 1)
    assert cluster.ask(others[0]).kept == ()
    cluster.now += 601
    cluster.planner.advance()
    assert cluster.ask(others[0]).kept == ("a",)
    cluster.assert_not_overcommitted()


def test_a_rescale_that_is_rolled_back_releases_its_reservations() -> None:
    cluster = FakeCluster({"a": 3})
    cluster.delete(*bound_job(cluster, 1, 1))
    cluster.rescale("j", 1, 2, leaving=False)
    assert cluster.planner.reservation_count() == 3
    cluster.handlers.set_rescale("uid-j", None)
    assert cluster.planner.reservation_count() == 0


def test_pods_of_another_shape_than_the_rescale_meant_are_planned_anew() -> None:
    cluster = FakeCluster({"a": 3})
    cluster.delete(*bound_job(cluster, 1, 1))
    cluster.rescale("j", 1, 2, leaving=False)
    names = cluster.job("j", 1, 1)
    assert [cluster.place(name) for name in names] == ["a", "a"]
