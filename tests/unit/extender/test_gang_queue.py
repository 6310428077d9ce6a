"""Which gang is planned first, and which nodes one that has waited long blocks."""

from collections.abc import Callable

from extender.state.gang_queue import GangQueue
from optimus.jobs import Counts, Role
from optimus.placement.queue.order import Instant, WaitingGang
from optimus.resources import Resources
from tests.cases import cases
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
    cluster.planner.advance()
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
    cluster.planner.advance()
    assert cluster.ask(new[0]).kept == ()
    assert set(cluster.planned_nodes()) == set(again)


def test_a_job_that_was_made_larger_while_it_did_not_run_is_planned_as_a_new_one() -> None:
    cluster = FakeCluster({"a": 4})
    cluster.spec("ran", 1, 1)
    ran = cluster.job("ran", 1, 1)
    for name in ran:
        cluster.place(name)
    cluster.delete(*ran)
    holder = cluster.other("o", 4, "a")
    new = cluster.job("new", 1, 1)
    cluster.spec("ran", 2, 2)
    cluster.job("ran", 2, 2)
    cluster.planner.advance()
    cluster.delete(holder.name)
    cluster.planner.advance()
    assert set(cluster.planned_nodes()) == set(new)


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


def test_a_gang_that_loses_one_of_its_reservations_is_planned_again() -> None:
    cluster = FakeCluster({"a": 3, "b": 3})
    cluster.job("j", 2, 4)
    cluster.planner.advance()
    cluster.planner.advance()
    lost = cluster.state.reservations.ledger.of_job("uid-j")[0]
    cluster.state.reservations.release(lost.replica)
    cluster.planner.advance()
    assert cluster.state.reservation_count() == 6


# --- the queue itself


def queue_of(cluster: FakeCluster) -> GangQueue:
    return cluster.state.queue


def waiting(cluster: FakeCluster) -> set[str]:
    """The names of the jobs that wait to be planned."""
    now = Instant(cluster.now, cluster.now)
    return {each.observed.gang.key.name for each in queue_of(cluster).waiting(now)}


def test_a_gang_waits_since_its_last_pod_with_the_lowest_priority_of_its_pods() -> None:
    cluster = FakeCluster({"a": 9})
    cluster.pod("j", Role.PS, 0, Counts(1, 2), priority=7)
    cluster.now += 5
    bound = cluster.pod("j", Role.WORKER, 0, Counts(1, 2), priority=3)
    cluster.now += 5
    cluster.pod("j", Role.WORKER, 1, Counts(1, 2), cpu=2, priority=9)
    cluster.bind(bound.name, "a")
    cluster.change(cluster.pods[bound.name], created_at=cluster.now + 60)
    found = queue_of(cluster).find("uid-j")
    assert found is not None
    expected = WaitingGang("uid-j", Resources(cpu=3, pods=2), cluster.now, True, 3, in_part=True)
    assert found.waiting == expected


def test_a_gang_is_the_same_object_until_it_changes() -> None:
    cluster = FakeCluster({"a": 9})
    names = cluster.job("j", 1, 1)
    queue = queue_of(cluster)
    found = queue.find("uid-j")
    assert queue.find("uid-j") is found
    cluster.handlers.set_rescale("uid-j", None, has_run=True)
    ran = queue.find("uid-j")
    assert ran is not None
    assert ran.waiting.ran_before
    assert queue.find("uid-j") is ran
    cluster.change(cluster.pods[names[0]], resources=Resources(cpu=2, pods=1))
    assert queue.find("uid-j") is not ran


def test_a_replica_that_kube_scheduler_has_not_bound_is_to_be_placed_again() -> None:
    cluster = FakeCluster({"a": 2, "b": 2})
    name, _ = cluster.job("j", 1, 1)

    def to_be_placed() -> set[Role]:
        found = queue_of(cluster).find("uid-j")
        assert found is not None
        return {member.role for member in found.observed.gang.unbound}

    cluster.ask(name)
    assert to_be_placed() == {Role.WORKER}
    cluster.filter(cluster.change(cluster.pods[name], nominated_node="b"), ["b"])
    assert to_be_placed() == {Role.PS, Role.WORKER}


def test_pods_of_another_scheduler_wait_only_once_they_are_asked_about() -> None:
    cluster = FakeCluster({"a": 9})
    (name, _) = cluster.job("j", 1, 1, scheduler_name="default-scheduler")
    assert waiting(cluster) == set()
    queue_of(cluster).ask(cluster.pods[name])
    assert waiting(cluster) == {"j"}


def test_a_job_that_is_forgotten_is_no_longer_asked_about() -> None:
    cluster = FakeCluster({"a": 9})
    (name, _) = cluster.job("j", 1, 1, scheduler_name="default-scheduler")
    queue = queue_of(cluster)
    queue.ask(cluster.pods[name])
    queue.paused["uid-j"] = float("inf")
    queue.forget("uid-j")
    assert not queue.asked
    assert waiting(cluster) == {"j"}, "nor paused"


def test_a_gang_that_is_incomplete_waits_only_where_scores_are_asked_for() -> None:
    cluster = FakeCluster({"a": 9})
    cluster.spec("j", 1, 2)
    first = cluster.pod("j", Role.PS, 0, Counts(1, 2))
    queue = queue_of(cluster)
    assert waiting(cluster) == set()
    queue.ask(first)
    assert waiting(cluster) == set()
    queue.ask(first, early=True)
    assert waiting(cluster) == {"j"}
    queue.ask(first)
    assert waiting(cluster) == {"j"}, "it was asked about early once"


def pause(cluster: FakeCluster) -> None:
    queue_of(cluster).paused["uid-j"] = float("inf")


@cases(
    ("change", "waits"),
    {
        "without a plan": (lambda cluster: None, True),
        "paused": (lambda cluster: queue_of(cluster).paused.update({"uid-j": float("inf")}), False),
        "planned": (lambda cluster: cluster.planner.advance(), False),
        "about to leave": (lambda cluster: cluster.rescale("j", 1, 1, leaving=True), False),
        "with a pod that is missing": (lambda cluster: cluster.delete("j-worker-0"), False),
    },
)
def test_whether_a_gang_waits(change: Callable[[FakeCluster], object], waits: bool) -> None:
    cluster = FakeCluster({"a": 9})
    cluster.job("j", 1, 1)
    change(cluster)
    assert waiting(cluster) == ({"j"} if waits else set())


def test_a_pod_that_the_watch_has_not_shown_counts_until_it_does() -> None:
    cluster = FakeCluster({"a": 9})
    names = cluster.job("j", 1, 1)
    unseen = cluster.pods[names[1]]
    cluster.delete(names[1])
    queue = queue_of(cluster)
    queue.ask(unseen)
    assert queue.unseen_pods() == {unseen.uid: "uid-j"}
    assert waiting(cluster) == {"j"}
    cluster.change(unseen)
    assert queue.unseen_pods() == {}
    assert waiting(cluster) == {"j"}


def test_pods_are_requeued_in_order_once_kube_scheduler_has_had_time_to_ask_by_itself() -> None:
    cluster = FakeCluster({"a": 9})
    names = cluster.job("j", 1, 2, beyond_plan=True)
    queue = queue_of(cluster)

    def to_requeue() -> list[str]:
        return [pod.name for pod in queue.pods_to_requeue(cluster.now)]

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
