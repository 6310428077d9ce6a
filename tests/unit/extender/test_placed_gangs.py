"""The Event on a job whose gang has its nodes."""

from typing import Any

import msgspec

from extender.job_events import LEAST_SECONDS, EventReporter, JobNotice
from extender.placed_gangs import KEPT_SECONDS
from optimus.jobs import Counts, Role
from optimus.kube.events import EventType
from optimus.kube.pods import Owner, Pod
from tests.cases import cases
from tests.harness.jobsets import jobset, pod_of, replicated_job
from tests.unit.extender.fake_cluster import FakeCluster


def messages(cluster: FakeCluster) -> list[str]:
    return [each.message for each in cluster.placed.notices()]


def placed(cluster: FakeCluster, *names: str) -> None:
    for name in names:
        assert cluster.place(name)


def pytorch_job(cluster: FakeCluster, workers: int = 3) -> list[str]:
    """A PyTorchJob's pods: a Master and so many Workers."""
    gang = {Role.MASTER: 1, Role.WORKER: workers}
    replicas = [(Role.MASTER, 0), *((Role.WORKER, index) for index in range(workers))]
    owner = Owner("PyTorchJob", "t", "uid-t")
    made = [cluster.pod("t", role, index, gang, owner=owner) for role, index in replicas]
    return [pod.name for pod in made]


def test_once_all_pods_of_a_gang_have_a_node_its_job_has_one_event() -> None:
    cluster = FakeCluster({"a": 2, "b": 2})
    names = pytorch_job(cluster)
    placed(cluster, *names[:3])
    assert messages(cluster) == []
    placed(cluster, names[3])
    (notice,) = cluster.placed.notices()
    assert (notice.kind, notice.namespace, notice.name) == ("PyTorchJob", "ns", "t")
    assert (notice.uid, notice.type, notice.reason) == ("uid-t", EventType.NORMAL, "GangBound")
    assert notice.message == "all 4 pods have a node: 2 on a, 2 on b"
    cluster.now += KEPT_SECONDS
    assert messages(cluster) == []


def test_a_pod_that_is_made_again_is_placed_beside_the_others_and_told() -> None:
    cluster = FakeCluster({"a": 2, "b": 2})
    names = pytorch_job(cluster)
    placed(cluster, *names)
    (first,) = cluster.placed.notices()
    cluster.delete(names[3])
    assert cluster.placed.notices() == [first]
    cluster.now += 60
    gang = {Role.MASTER: 1, Role.WORKER: 3}
    owner = Owner("PyTorchJob", "t", "uid-t")
    placed(cluster, cluster.pod("t", Role.WORKER, 2, gang, owner=owner).name)
    (second,) = cluster.placed.notices()
    assert second.message == first.message
    assert second.cause != first.cause, "another Event"


def test_a_process_that_does_not_lead_writes_none() -> None:
    cluster = FakeCluster({"a": 4}, leads=False)
    for name in cluster.job("j", 1, 1):
        cluster.bind(name, "a")
    assert messages(cluster) == []


def bound(count: int, nodes: int) -> list[Pod]:
    cluster = FakeCluster({})
    names = cluster.job("j", 0, count)
    pods = (cluster.pods[name] for name in names)
    return [
        msgspec.structs.replace(pod, node=f"n{number % nodes}") for number, pod in enumerate(pods)
    ]


@cases(
    ("count", "nodes", "message"),
    {
        "one pod": (1, 1, "its pod has a node: n0"),
        "unevenly": (3, 2, "all 3 pods have a node: 2 on n0, 1 on n1"),
        "many nodes": (
            9,
            9,
            (
                "all 9 pods have a node: 1 on n0, 1 on n1, 1 on n2, 1 on n3, 1 on n4, 1 on n5,"
                " 1 on n6, 1 on n7, and the others on 1 more node"
            ),
        ),
    },
)
def test_the_sentence_counts_the_pods_of_each_node(count: int, nodes: int, message: str) -> None:
    cluster = FakeCluster({})
    cluster.placed.note(bound(count, nodes))
    assert messages(cluster) == [message]


def test_each_gang_of_a_jobset_is_told_once() -> None:
    """Both are about one object, for one reason."""
    cluster = FakeCluster({"a": 9})
    second = replicated_job("y", 1, 1, dependsOn=[{"name": "x", "status": "Ready"}])
    cluster.handlers.job(None, jobset("s", replicated_job("x", 1, 2), second))
    pods = [pod_of("s", "x", 0, 0), pod_of("s", "x", 0, 1), pod_of("s", "y", 0, 0)]
    for pod in pods:
        cluster.change(pod)
    for pod in pods:
        cluster.bind(pod.name, "a")
    events: list[tuple[str, str]] = []

    def emit(job: JobNotice, kind: object, reason: object, message: str, *_: Any) -> None:
        events.append((job.uid, message))

    reporter = EventReporter(cluster.placed.notices, emit)
    for at in range(5):
        reporter.look(10 + at * (LEAST_SECONDS + 1))
    assert events == [
        ("uid-s", "all 2 pods have a node: 2 on a"),
        ("uid-s", "its pod has a node: a"),
    ]


def test_a_gang_that_is_not_whole_yet_is_not_told() -> None:
    cluster = FakeCluster({"a": 9})
    counts = Counts(0, 2)
    cluster.pod("j", Role.WORKER, 0, counts)
    cluster.bind("j-worker-0", "a")
    assert messages(cluster) == []
    cluster.pod("j", Role.WORKER, 1, counts)
    cluster.bind("j-worker-1", "a")
    assert messages(cluster) == ["all 2 pods have a node: 2 on a"]
