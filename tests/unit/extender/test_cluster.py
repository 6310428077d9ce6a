"""The cluster as the extender sees it, corrected event by event."""

from collections.abc import Sequence

import msgspec
import pytest

from extender.state.cluster import Cluster, ProfileRescale
from optimus.jobs import Counts, Job, JobKey, NodeConstraints, ReplicaSpec, Role
from optimus.kube.pods import Pod
from optimus.nodes import Node
from optimus.resources import Resources
from optimus.snapshot import ReplicaId

POD = Pod(
    uid="pod",
    namespace="ns",
    name="pod",
    created_at=0.0,
    node="a",
    resources=Resources(cpu=2),
    constraints=NodeConstraints(),
)
REPLICA = msgspec.structs.replace(POD, replica=ReplicaId("job", Role.WORKER, 0))
NODE = Node("a", Resources(cpu=8))


def cluster_with(*pods: Pod) -> Cluster:
    cluster = Cluster()
    cluster.set_node("a", NODE)
    for pod in pods:
        cluster.set_pod(None, pod)
    return cluster


@pytest.mark.parametrize(
    ("after", "releases"),
    [
        pytest.param(None, 1, id="it is gone"),
        pytest.param(msgspec.structs.replace(POD, phase="Succeeded"), 1, id="it has ended"),
        pytest.param(msgspec.structs.replace(POD, resources=Resources(cpu=1)), 1, id="it shrinks"),
        pytest.param(msgspec.structs.replace(POD, resources=Resources(cpu=3)), 0, id="it grows"),
        pytest.param(POD, 0, id="nothing changes"),
    ],
)
def test_a_pod_leaves_room_where(after: Pod | None, releases: int) -> None:
    cluster = cluster_with(POD)
    cluster.set_pod(POD, after)
    assert cluster.releases == releases
    assert cluster.released_at == ({"a": 1} if releases else {})


def test_every_pod_that_leaves_counts() -> None:
    other = msgspec.structs.replace(POD, uid="other", node="b")
    cluster = cluster_with(POD, other)
    for pod in (POD, other):
        cluster.set_pod(pod, None)
    assert (cluster.releases, cluster.released_at) == (2, {"a": 1, "b": 2})


def test_a_recreated_node_has_been_left_by_no_pod() -> None:
    cluster = cluster_with(POD)
    cluster.set_pod(POD, None)
    cluster.set_node("a", None)
    cluster.set_node("a", NODE)
    assert cluster.released_at == {}


def test_a_replica_that_is_being_deleted_is_ending_until_it_is_gone() -> None:
    cluster = cluster_with(REPLICA)
    assert cluster.ending == {}
    leaving = msgspec.structs.replace(REPLICA, leaving=True)
    cluster.set_pod(REPLICA, leaving)
    assert cluster.ending == {"pod": leaving}
    cluster.set_pod(leaving, None)
    assert cluster.ending == {}


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(msgspec.structs.replace(POD, leaving=True), id="another pod"),
        pytest.param(
            msgspec.structs.replace(REPLICA, leaving=True, node=None), id="a replica without a node"
        ),
    ],
)
def test_what_takes_no_room_of_a_job_is_not_ending(pod: Pod) -> None:
    assert cluster_with(pod).ending == {}


def test_nodes_that_are_avoided_for_longer_are_the_same_nodes() -> None:
    cluster = Cluster()
    assert cluster.set_avoided("job", {"a": 1.0})
    assert not cluster.set_avoided("job", {"a": 2.0})
    assert cluster.set_avoided("job", {"a": 2.0, "b": 2.0})
    assert cluster.set_avoided("job", {})
    assert not cluster.set_avoided("job", {})


@pytest.mark.parametrize(
    ("shown", "asked", "found"),
    [("7", "7", True), ("7", "8", False), ("", "", False)],
    ids=["this version", "another version", "no version"],
)
def test_a_pod_is_found_in_the_version_that_the_watch_has_shown(
    shown: str, asked: str, found: bool
) -> None:
    pod = msgspec.structs.replace(REPLICA, resource_version=shown)
    assert cluster_with(pod).find_pod("pod", asked) == (pod if found else None)


@pytest.mark.parametrize(
    ("pods", "priority"),
    [
        pytest.param([(5, False), (3, False)], 3, id="the lowest of its pods"),
        pytest.param([(5, False), (3, True)], 5, id="those that are being deleted do not count"),
        pytest.param([(5, True), (3, True)], 3, id="where no other is left they do"),
        pytest.param([], 0, id="nought without pods"),
    ],
)
def test_the_priority_of_a_job(pods: Sequence[tuple[int, bool]], priority: int) -> None:
    cluster = cluster_with(
        *(
            msgspec.structs.replace(REPLICA, uid=f"{at}", priority=each, leaving=leaving)
            for at, (each, leaving) in enumerate(pods)
        )
    )
    assert cluster.priority_of("job") == priority


SPEC = ReplicaSpec(Resources(cpu=2))
JOB = Job(
    key=JobKey("ns", "job"),
    uid="job",
    kind="TFJob",
    created_at=0.0,
    counts=Counts(1, 1),
    ps=SPEC,
    worker=SPEC,
)
RESCALE = ProfileRescale("job", "i1", Counts(1, 1), leaving=True)


@pytest.mark.parametrize("job", [JOB, None], ids=["", "that cannot be read"])
def test_while_a_rescale_replaces_its_pods_a_job_keeps_its_priority_and_has_run(
    job: Job | None,
) -> None:
    pod = msgspec.structs.replace(REPLICA, priority=5)
    cluster = cluster_with(pod)
    cluster.set_job("job", job, exists=True)
    cluster.set_rescale("job", RESCALE)
    cluster.set_pod(pod, None)
    cluster.set_job("job", job, exists=True)  # a later version of it
    assert cluster.pods == {}
    assert cluster.priority_of("job") == 5
    assert cluster.have_run == {"job"}
    cluster.set_job("job", None)
    assert cluster.priority_of("job") == 0
    assert cluster.have_run == set()


def test_a_job_has_run_until_it_is_gone() -> None:
    cluster = Cluster()
    cluster.set_rescale("job", RESCALE)
    cluster.set_job("job", JOB)
    assert cluster.have_run == {"job"}
    cluster.set_job("job", None)
    assert cluster.have_run == set()


def test_a_job_that_cannot_be_read_may_run_until_it_is_gone() -> None:
    cluster = cluster_with(REPLICA)
    assert not cluster.may_run("job")
    cluster.set_job("job", None, exists=True)
    assert cluster.may_run("job")
    assert cluster.knows_gang_of(REPLICA)
    cluster.set_job("job", None)
    assert not cluster.may_run("job")
    assert not cluster.knows_gang_of(REPLICA)
