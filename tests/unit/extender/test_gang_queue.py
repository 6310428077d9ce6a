"""Which gang is planned first, and which nodes one that has waited long blocks."""

from tests.unit.extender.fake_cluster import FakeCluster, reasons


def test_small_jobs_do_not_starve_one_past_the_age_limit() -> None:
    cluster = FakeCluster({"a": 4})
    holder = cluster.job("holder", 1, 1)
    assert [cluster.place(name) for name in holder] == ["a", "a"]
    large = cluster.job("large", 2, 2)
    assert cluster.ask(large[0]).kept == ()
    cluster.now += 601
    small = cluster.job("small", 1, 1)
    assert reasons(cluster, small[0]) == {
        "job ns/small (1 PS + 1 worker) fits, but a job that has waited longer needs the capacity"
    }
    cluster.delete(*holder)
    cluster.planner.advance()
    assert set(cluster.planned_nodes()) == set(large)


def test_an_old_gang_blocks_only_nodes_that_it_could_use() -> None:
    cluster = FakeCluster({"a": 8, "b": 2})
    assert [cluster.place(name) for name in cluster.job("holder", 1, 1, cpu=2)] == ["a", "a"]
    assert cluster.ask(cluster.job("large", 1, 1, cpu=4)[0]).kept == ()
    cluster.now += 601
    assert "has waited longer" in "".join(reasons(cluster, cluster.job("middle", 1, 1, cpu=2)[0]))
    assert cluster.ask(cluster.job("small", 1, 1)[0]).kept == ("b",)


def test_an_old_gang_that_can_never_fit_blocks_nothing() -> None:
    cluster = FakeCluster({"a": 4})
    assert cluster.ask(cluster.job("huge", 3, 3)[0]).kept == ()
    cluster.now += 601
    assert cluster.ask(cluster.job("small", 1, 1)[0]).kept == ("a",)


def test_a_job_that_has_run_is_planned_before_a_new_one() -> None:
    cluster = FakeCluster({"a": 4})
    cluster.spec("ran", 2, 2)
    ran = cluster.job("ran", 2, 2)
    for name in ran:
        cluster.place(name)
    cluster.delete(*ran)
    holder = cluster.other("o", 4, "a")
    new = cluster.job("new", 1, 1)
    again = cluster.job("ran", 2, 2)
    assert cluster.ask(new[0], ["a"]).kept == ()
    cluster.delete(holder.name)
    cluster.planner.advance()
    assert cluster.ask(new[0]).kept == ()
    assert set(cluster.planned_nodes()) == set(again)


def test_a_job_whose_profile_shows_later_that_it_has_run_is_planned_first() -> None:
    cluster = FakeCluster({"a": 4})
    holder = cluster.other("o", 4, "a")
    new, ran = cluster.job("new", 1, 1), cluster.job("ran", 2, 2)
    cluster.planner.advance()
    cluster.handlers.set_rescale("uid-ran", None, has_run=True)
    cluster.delete(holder.name)
    cluster.planner.advance()
    assert set(cluster.planned_nodes()) == set(ran)
    assert cluster.ask(new[0]).kept == ()


def test_a_gang_with_all_its_reservations_is_not_looked_at_again_as_its_pods_are_bound() -> None:
    cluster = FakeCluster({"a": 3, "b": 3})
    first, *_ = cluster.job("j", 2, 4)
    cluster.planner.advance()
    cluster.place(first)
    cluster.planner.advance()
    assert cluster.planner.queue.cached == {}


def test_a_gang_that_loses_one_of_its_reservations_is_planned_again() -> None:
    cluster = FakeCluster({"a": 3, "b": 3})
    cluster.job("j", 2, 4)
    cluster.planner.advance()
    cluster.planner.advance()
    lost = cluster.planner.reservations.ledger.of_job("uid-j")[0]
    cluster.planner.reservations.release(lost.replica)
    cluster.planner.advance()
    assert cluster.planner.reservation_count() == 6


def test_a_job_whose_rescale_was_seen_has_run() -> None:
    cluster = FakeCluster({"a": 2})
    cluster.spec("big", 1, 1)
    cluster.rescale("big", 1, 1, leaving=True)
    cluster.handlers.set_rescale("uid-big", None)
    big = cluster.job("big", 1, 1)
    cluster.job("small", 0, 1)
    cluster.planner.advance()
    assert set(cluster.planned_nodes()) == set(big)
