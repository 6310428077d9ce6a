"""Who belongs to a gang, and that it waits for all of them."""

import msgspec

from optimus.jobs import Counts, FixedRole, ReplicaSpec, Role
from optimus.kube.pods import Owner
from optimus.resources import Resources
from optimus.snapshot import ReplicaId
from tests.cases import cases
from tests.unit.extender.fake_cluster import FakeCluster, reasons


def test_a_gang_waits_until_all_its_pods_exist_and_is_planned_by_its_last() -> None:
    cluster = FakeCluster({"a": 9})
    counts = Counts(1, 2)
    first = cluster.pod("j", Role.PS, 0, counts).name
    cluster.pod("j", Role.WORKER, 0, counts)
    assert reasons(cluster, first) == {"waiting for all pods of job ns/j"}
    assert cluster.state.reservation_count() == 0
    last = cluster.pod("j", Role.WORKER, 1, counts).name
    assert cluster.ask(last).kept == ("a",)
    assert cluster.planned_nodes() == {"j-ps-0": "a", "j-worker-0": "a", "j-worker-1": "a"}


def test_a_refusal_as_incomplete_is_out_of_date_once_room_is_lacking() -> None:
    cluster = FakeCluster({"a": 1})
    counts = Counts(1, 1)
    first = cluster.pod("j", Role.PS, 0, counts)
    cluster.ask(first.name)
    cluster.planner.advance()
    assert cluster.nominations.outdated_refusals() == ()
    cluster.pod("j", Role.WORKER, 0, counts)
    cluster.planner.advance()
    assert cluster.nominations.outdated_refusals() == (first,)
    cluster.planner.advance()
    assert cluster.nominations.outdated_refusals() == ()


def test_a_gang_is_planned_by_the_thread_when_its_last_pod_is_seen_after_it_asked() -> None:
    cluster = FakeCluster({"a": 9})
    names = cluster.job("j", 1, 1)
    cluster.planner.advance()
    assert set(cluster.planned_nodes()) == set(names)


def test_pods_being_deleted_do_not_count() -> None:
    cluster = FakeCluster({"a": 9})
    names = cluster.job("j", 1, 1)
    cluster.change(cluster.pods[names[1]], leaving=True)
    assert reasons(cluster, names[0]) == {"waiting for all pods of job ns/j"}


def test_without_a_list_of_its_own_a_pods_gang_is_the_jobs() -> None:
    cluster = FakeCluster({"a": 9})
    name = cluster.pod("j", Role.WORKER, 0, None).name
    cluster.spec("j", 1, 1)
    assert reasons(cluster, name) == {"waiting for all pods of job ns/j"}
    cluster.pod("j", Role.PS, 0, None)
    assert cluster.ask(name).kept == ("a",)


def test_evaluators_belong_to_the_gang_though_no_list_names_them() -> None:
    cluster = FakeCluster({"a": 9})
    cluster.spec("j", 1, 1, FixedRole(Role.EVALUATOR, 1, ReplicaSpec(Resources(cpu=1, pods=1))))
    names = cluster.job("j", 1, 1)
    assert reasons(cluster, names[0]) == {"waiting for all pods of job ns/j"}
    cluster.pod("j", Role.EVALUATOR, 0, Counts(1, 1))
    assert cluster.ask(names[0]).kept == ("a",)


def test_a_pod_without_a_list_waits_until_its_job_is_seen() -> None:
    cluster = FakeCluster({"a": 9})
    name = cluster.pod("j", Role.WORKER, 0, None).name
    assert reasons(cluster, name) == {"job ns/j itself has not been seen yet"}
    cluster.planner.advance()
    assert cluster.prioritize(cluster.pods[name], ["a"]) == {"a": 10}
    assert cluster.state.reservation_count() == 0
    cluster.spec("j", 0, 2)
    assert reasons(cluster, name) == {"waiting for all pods of job ns/j"}
    cluster.pod("j", Role.WORKER, 1, None)
    assert cluster.ask(name).kept == ("a",)


def test_a_single_pod_of_a_job_that_cannot_be_read_is_a_gang_of_its_own() -> None:
    cluster = FakeCluster({"a": 9})
    name = cluster.pod("j", Role.WORKER, 0, None).name
    cluster.handlers.set_job("uid-j", None, exists=True)
    assert cluster.ask(name).kept == ("a",)


@cases("size", {"a whole gang": 1, "a part of a gang": 2})
def test_pods_that_are_gone_before_the_watch_shows_them_are_forgotten(size: int) -> None:
    cluster = FakeCluster({"a": 9})
    seen = cluster.pod("seen", Role.PS, 0, Counts(1, 1))
    state, queue = cluster.state, cluster.state.queue
    for number in range(5):
        pod = cluster.pod(f"j{number}", Role.WORKER, 0, Counts(0, size))
        cluster.delete(pod.name)
        cluster.filter(pod, ["a"])
        cluster.prioritize(pod, ["a"])
    cluster.ask(seen.name)
    for _ in range(20):
        cluster.now += 61.0
        cluster.plan()
    assert queue.unseen_pods() == {}
    assert [*queue.asked] == ["uid-seen"]
    assert {*queue.cached} <= {"uid-seen"}
    assert not queue.paused
    assert {*state.asked_at, *state.answered_at, *state.refused_for_now} == {seen.uid}
    assert state.reservation_count() == 0


def test_a_pod_that_the_watch_shows_late_keeps_its_place() -> None:
    cluster = FakeCluster({"a": 2})
    counts = Counts(1, 1)
    cluster.pod("j", Role.PS, 0, counts)
    late = cluster.pod("j", Role.WORKER, 0, counts)
    cluster.delete(late.name)
    assert cluster.filter(late, ["a"]).kept == ("a",)
    cluster.now += 14.0
    cluster.plan()
    assert cluster.state.reservation_count() == 2


def test_a_job_that_only_a_wrong_owner_names_is_forgotten() -> None:
    """The watch shows the pod with its own job; kube-scheduler's copy named another."""
    cluster = FakeCluster({"a": 9})
    pod = cluster.pod("j", Role.PS, 0, Counts(1, 1))
    for number in range(5):
        other = Owner("TFJob", "other", f"uid-{number}")
        named = msgspec.structs.replace(
            pod, owner=other, replica=ReplicaId(other.uid, Role.PS, 0), gang={Role.PS: 2}
        )
        cluster.filter(named, ["a"])
        cluster.prioritize(named, ["a"])
    for _ in range(20):
        cluster.now += 61.0
        cluster.plan()
    state, queue = cluster.state, cluster.state.queue
    assert not queue.asked.keys() - {"uid-j"}
    assert not queue.cached.keys() - {"uid-j"}
    assert not state.waited_for - {"uid-j"}
    assert not state.reservations.whole_jobs


LARGE = dict.fromkeys((Role.PS, Role.WORKER, Role.CHIEF, Role.MASTER, Role.EVALUATOR), 10000)
"""What a TF_CONFIG of 250 kB lists."""


def test_a_list_of_replicas_that_never_come_is_counted_and_not_walked() -> None:
    cluster = FakeCluster({"a": 9})
    pod = cluster.pod("large", Role.WORKER, 0, Counts(0, 2))
    large = cluster.change(pod, gang=LARGE).name
    cluster.planner.advance()
    found = cluster.state.queue.find("uid-large")
    assert found is not None
    assert found.observed.gang.members == ()
    assert (found.observed.size, found.observed.complete) == (50_000, False)
    assert reasons(cluster, large) == {"waiting for all pods of job ns/large"}
    cluster.prioritize(cluster.pods[large], ["a"])
    again = cluster.state.queue.find("uid-large")
    assert again is not None
    assert again.observed.gang.members == (), "nor where scores alone are asked for"


def test_a_list_that_is_larger_than_the_job_is_not_believed_until_the_job_has_grown() -> None:
    cluster = FakeCluster({"a": 9})
    cluster.spec("j", 1, 1)
    names = cluster.job("j", 1, 2)
    assert reasons(cluster, names[0]) == {
        "waiting for job ns/j to have as many replicas as its pods list"
    }
    assert cluster.planned_nodes() == {}
    cluster.spec("j", 1, 2)
    cluster.planner.advance()
    assert set(cluster.planned_nodes()) == set(names)


def test_a_list_that_a_rescale_foretells_is_believed_before_the_job_is_seen_to_grow() -> None:
    cluster = FakeCluster({"a": 9})
    cluster.spec("j", 1, 1)
    names = cluster.job("j", 1, 2)
    cluster.planner.advance()
    assert cluster.planned_nodes() == {}
    cluster.rescale("j", 1, 2, leaving=False)
    cluster.planner.advance()
    assert set(cluster.planned_nodes()) == set(names)


# --- pods that this scheduler is never asked about


def test_nothing_is_reserved_while_a_pod_names_another_scheduler() -> None:
    """Fourteen of fifteen pods would leave the room of fourteen unused."""
    cluster = FakeCluster({"a": 15})
    cluster.pod("j", Role.WORKER, 0, Counts(0, 15))
    for index in range(1, 15):
        cluster.pod("j", Role.WORKER, index, Counts(0, 15), scheduler_name="another")
    honest = cluster.job("honest", 1, 2)
    assert reasons(cluster, "j-worker-0") == {
        "not planned: pods of job ns/j name another scheduler (another)"
    }
    cluster.planner.advance()
    assert set(cluster.planned_nodes()) == set(honest)


def test_pods_that_another_scheduler_has_bound_count() -> None:
    cluster = FakeCluster({"a": 9})
    name = cluster.pod("j", Role.WORKER, 0, Counts(0, 2)).name
    cluster.pod("j", Role.WORKER, 1, Counts(0, 2), scheduler_name="another", node="a")
    assert cluster.ask(name).kept == ("a",)


def test_every_profile_of_a_kube_scheduler_that_asks_is_its_own() -> None:
    cluster = FakeCluster({"a": 9})
    names = cluster.job("j", 1, 2, scheduler_name="default-scheduler")
    cluster.planner.advance()
    assert cluster.planned_nodes() == {}, "nobody has asked for that scheduler yet"
    assert cluster.ask(names[0]).kept == ("a",)
    assert set(cluster.planned_nodes()) == set(names)


def test_a_worker_that_comes_while_the_others_run_is_placed_beside_them() -> None:
    """With enableDynamicWorker no list names the gang: the job's counts do."""
    cluster = FakeCluster({"a": 9, "b": 2})
    cluster.spec("j", 1, 2)
    roles = ((Role.PS, 0), (Role.WORKER, 0), (Role.WORKER, 1))
    names = [cluster.pod("j", role, index, None).name for role, index in roles]
    assert {cluster.place(name) for name in names} == {"a"}
    cluster.spec("j", 1, 3)
    new = cluster.pod("j", Role.WORKER, 2, None).name
    assert cluster.place(new) == "a"
    cluster.spec("j", 1, 2)
    cluster.delete(new, "j-worker-1")
    assert cluster.state.reservation_count() == 0
    again = cluster.pod("j", Role.WORKER, 1, None).name
    assert cluster.place(again) == "a"
