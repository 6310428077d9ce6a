"""What is recommended for jobs that are not changed, and jobs that are paused."""

from dataclasses import replace
from itertools import pairwise

import pytest

from autoscaler.jobs.managed import Holds
from optimus.jobs import Counts
from optimus.kube.contract import Phase
from tests.unit.autoscaler.controller_harness import TIMING, ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job

WIDE = {"min_ps": "1", "min_workers": "1", "training_mode": "sync", "target_loss": "0.1"}


def submit(cluster: FakeCluster, **annotations: str) -> FakeJob:
    return cluster.submit(tf_job("a", 1, 2, **WIDE, **annotations))


def unchanged(job: FakeJob) -> bool:
    return (job.counts, job.runs, job.suspended) == (Counts(1, 2), 1, False)


def texts(cluster: FakeCluster) -> list[str]:
    return cluster.messages("Recommended")


def recommending(cluster: FakeCluster) -> ControllerHarness:
    return ControllerHarness(cluster, timing=replace(TIMING, holds=Holds(recommend=True)))


@pytest.mark.parametrize("whole_cluster", [False, True])
def test_a_new_job_gets_a_recommendation_with_what_it_brings_and_is_not_changed(
    cluster: FakeCluster, whole_cluster: bool
) -> None:
    harness = recommending(cluster) if whole_cluster else ControllerHarness(cluster)
    job = submit(cluster, **({} if whole_cluster else {"manage": "recommend"}))
    harness.run(150)
    assert unchanged(job)
    assert "Rescaling" not in cluster.reasons("a")
    status = harness.status("a")
    assert status.phase is Phase.TRAINING
    found = status.recommended
    assert found is not None
    assert found.action == "grow"
    assert found.workers > 2
    assert found.seconds_now is not None
    assert found.seconds_then is not None
    assert found.seconds_then < found.seconds_now
    assert f"recommended: {Counts(found.ps, found.workers)} instead of 1 PS + 2" in status.reason
    (text, *_) = texts(cluster)
    assert "to its goal instead of" in text
    assert "after 5 s for the rescale; this is expected, not fitted" in text


def test_what_is_only_said_is_expected_also_where_nothing_is_decided_so(
    cluster: FakeCluster,
) -> None:
    harness = ControllerHarness(cluster, expects=False)
    submit(cluster, manage="recommend")
    harness.run(150)
    (text, *_) = texts(cluster)
    assert "this is expected, not fitted" in text


def test_one_event_for_each_recommendation(cluster: FakeCluster) -> None:
    harness = recommending(cluster)
    submit(cluster)
    harness.run(300)
    counts = [text.partition(";")[0] for text in texts(cluster)]
    assert counts
    assert all(one != other for one, other in pairwise(counts))


def test_when_it_is_managed_again_it_is_changed(cluster: FakeCluster) -> None:
    harness = ControllerHarness(cluster)
    job = submit(cluster, manage="recommend", rescale="any")
    harness.run(60)
    assert unchanged(job)
    job.annotate(manage=None)
    harness.run(120)
    assert job.runs > 1
    assert harness.status("a").recommended is None
