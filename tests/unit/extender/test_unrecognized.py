"""Pods of a training job whose labels name no replica: their users hear of it."""

import msgspec

from extender.notices import unrecognized_notices
from optimus.jobs import Counts, Role
from tests.unit.extender.fake_cluster import FakeCluster


def test_a_job_whose_pods_name_no_replica_is_reported_once() -> None:
    cluster = FakeCluster({"a": 9})
    for index in range(2):
        cluster.pod("old", Role.WORKER, index, Counts(0, 2), replica=None)
    cluster.job("new", 1, 1)
    cluster.other("no-job", 1)
    (found,) = unrecognized_notices(cluster.state)
    assert (found.kind, found.name, found.uid) == ("TFJob", "old", "uid-old")
    assert found.reason == "GangNotRecognized"
    assert "placed one by one" in found.message
    cluster.delete("old-worker-0", "old-worker-1")
    assert list(unrecognized_notices(cluster.state)) == []
    assert cluster.state.cluster.unrecognized == {}


def test_pods_of_another_scheduler_are_its_own_affair() -> None:
    cluster = FakeCluster({"a": 9})
    pod = cluster.pod("old", Role.WORKER, 0, Counts(0, 2), replica=None, scheduler_name="another")
    assert list(unrecognized_notices(cluster.state)) == []
    labelled = cluster.pod("j", Role.WORKER, 0, Counts(0, 1))
    cluster.handlers.pod(labelled, msgspec.structs.replace(labelled, node="a"))
    assert pod.uid in cluster.state.cluster.unrecognized["uid-old"]
