"""Which gang is planned first, and which nodes one that has waited long blocks."""

from optimus.placement.queue.order import Instant
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
        "job ns/small (1 PS + 1 worker) fits, but a job before it in the queue needs the capacity"
    }
    cluster.delete(*holder)
    cluster.plan()
    assert set(cluster.planned_nodes()) == set(large)


def test_an_old_gang_blocks_only_nodes_that_it_could_use() -> None:
    cluster = FakeCluster({"a": 8, "b": 2})
    assert [cluster.place(name) for name in cluster.job("holder", 1, 1, cpu=2)] == ["a", "a"]
    assert cluster.ask(cluster.job("large", 1, 1, cpu=4)[0]).kept == ()
    cluster.now += 601
    assert "before it in the queue" in "".join(
        reasons(cluster, cluster.job("middle", 1, 1, cpu=2)[0])
    )
    assert cluster.ask(cluster.job("small", 1, 1)[0]).kept == ("b",)


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
    cluster.plan()
    assert cluster.ask(new[0]).kept == ()
    assert set(cluster.planned_nodes()) == set(again)


# --- the queue itself


def test_pods_are_requeued_in_order_once_kube_scheduler_has_had_time_to_ask_by_itself() -> None:
    cluster = FakeCluster({"a": 9})
    names = cluster.job("j", 1, 2, beyond_plan=True)
    queue = cluster.state.queue

    def to_requeue() -> list[str]:
        return [pod.name for pod in queue.pods_to_requeue(Instant(cluster.now, cluster.now))]

    assert to_requeue() == []
    cluster.now += 0.9
    assert to_requeue() == []
    cluster.now += 0.1
    assert to_requeue() == names
    cluster.ask(names[1])
    assert to_requeue() == [names[0], names[2]]
    queue.paused["uid-j"] = float("inf")
    assert to_requeue() == []
    queue.paused.clear()
    cluster.bind(names[0], "a")
    assert to_requeue() == [names[2]]
    cluster.delete(names[2])
    assert to_requeue() == [], "its gang is incomplete"
