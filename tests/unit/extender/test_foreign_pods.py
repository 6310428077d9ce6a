"""Pods that carry a job's UID and are not the job's."""

import msgspec
import pytest

from optimus.jobs import Counts, Role
from optimus.kube.pods import Owner, Pod
from optimus.snapshot import ReplicaId
from tests.cases import cases
from tests.unit.extender.fake_cluster import FakeCluster

OTHERS = {
    "in another namespace": {"namespace": "attacker"},
    "of a job of another kind": {"owner": Owner("MXJob", "j", "uid-j")},
    "of a job of another name": {"owner": Owner("TFJob", "k", "uid-j")},
}


def foreign(cluster: FakeCluster, changes: dict[str, object]) -> Pod:
    """Another worker of the job, as far as its UID says."""
    own = cluster.pods["j-worker-0"]
    pod = msgspec.structs.replace(own, uid="foreign", name="foreign", **changes)
    cluster.pods[pod.name] = pod
    cluster.handlers.pod(None, pod)
    return pod


@pytest.mark.parametrize("job_is_known", [True, False])
@cases("changes", OTHERS)
def test_it_gets_nothing_that_is_reserved_for_the_job(
    changes: dict[str, object], job_is_known: bool, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = FakeCluster({"a": 2})
    if job_is_known:
        cluster.spec("j", 1, 1)
    own = cluster.job("j", 1, 1)
    pod = foreign(cluster, changes)
    cluster.handlers.pod(pod, msgspec.structs.replace(pod, nominated_node="a"))
    cluster.plan()
    assert set(cluster.planned_nodes()) == set(own)
    assert cluster.filter(pod, ["a"]).kept == ()
    assert cluster.prioritize(pod, ["a"]) == {"a": 0}
    assert len([each for each in caplog.records if "no member" in each.getMessage()]) == 1


@cases("changes", OTHERS)
def test_the_job_says_whose_the_pods_are_that_were_seen_before_it(
    changes: dict[str, object],
) -> None:
    cluster = FakeCluster({"a": 3})
    counts = Counts(0, 2)
    first = cluster.pod("j", Role.WORKER, 0, counts)
    cluster.delete(first.name)
    cluster.handlers.pod(None, msgspec.structs.replace(first, uid="x", name="x", **changes))
    own = [cluster.pod("j", Role.WORKER, index, counts).name for index in range(2)]
    cluster.spec("j", 0, 2)
    cluster.plan()
    assert set(cluster.planned_nodes()) == set(own)


def test_a_pod_that_the_watch_has_yet_to_show_is_waited_for_unless_it_is_foreign() -> None:
    cluster = FakeCluster({"a": 2})
    pod = cluster.pod("j", Role.WORKER, 0, Counts(0, 1))
    cluster.delete(pod.name)
    waits: list[float] = []

    def wait(count: int, seconds: float) -> int:
        waits.append(seconds)
        cluster.change(pod)
        return count + 1

    cluster.state.changes.wait = wait  # type: ignore[method-assign,assignment]
    assert cluster.filter(pod, ["a"]).kept == ("a",)
    assert len(waits) == 1
    cluster.spec("k", 0, 1)
    replica = ReplicaId("uid-k", Role.WORKER, 0)
    cluster.filter(msgspec.structs.replace(pod, uid="x", replica=replica), ["a"])
    assert len(waits) == 1
