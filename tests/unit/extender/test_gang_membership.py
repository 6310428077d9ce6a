"""Who belongs to a gang, and that it waits for all of them."""

from optimus.jobs import Counts, FixedRole, ReplicaSpec, Role
from optimus.resources import Resources
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
    cluster.plan()
    assert cluster.prioritize(cluster.pods[name], ["a"]) == {"a": 10}
    assert cluster.state.reservation_count() == 0
    cluster.spec("j", 0, 2)
    assert reasons(cluster, name) == {"waiting for all pods of job ns/j"}
    cluster.pod("j", Role.WORKER, 1, None)
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
    assert [*queue.asked] == ["uid-seen"]
    assert {*queue.cached} <= {"uid-seen"}
    assert not queue.paused
    assert {*state.asked_at, *state.answered_at, *state.refused_for_now} == {seen.uid}
    assert state.reservation_count() == 0


LARGE = dict.fromkeys((Role.PS, Role.WORKER, Role.CHIEF, Role.MASTER, Role.EVALUATOR), 10000)
"""What a TF_CONFIG of 250 kB lists."""


def test_a_list_that_is_larger_than_the_job_is_not_believed_until_the_job_has_grown() -> None:
    cluster = FakeCluster({"a": 9})
    cluster.spec("j", 1, 1)
    names = cluster.job("j", 1, 2)
    assert reasons(cluster, names[0]) == {
        "waiting for job ns/j to have as many replicas as its pods list"
    }
    assert cluster.planned_nodes() == {}
    cluster.spec("j", 1, 2)
    cluster.plan()
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
    cluster.plan()
    assert set(cluster.planned_nodes()) == set(honest)


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
