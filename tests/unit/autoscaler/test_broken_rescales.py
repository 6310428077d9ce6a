"""A rescale after which the job's containers end with an error is undone, once and for all."""

from optimus.jobs import Counts
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job


def small_pods(cluster: FakeCluster) -> FakeJob:
    """A job of 2 + 4 of which the user allows counts that its pods cannot bear."""
    goal = {"target_loss": "0.0501", "training_mode": "sync", "rescale": "any"}
    return cluster.submit(tf_job("a", 2, 4, **goal, min_ps="1", min_workers="1"))


def test_a_job_is_returned_from_counts_that_its_pods_cannot_bear(
    cluster: FakeCluster, profiling: ControllerHarness
) -> None:
    job, reached = small_pods(cluster), list[Counts]()
    cluster.breaks = lambda counts: counts.ps < 2 or counts.workers < 4
    for _ in range(300):
        profiling.run(2)
        if not reached or reached[-1] != job.counts:
            reached.append(job.counts)
    failed = [each.counts for each in profiling.state().record.failed_counts]
    assert failed, "such counts were tried"
    assert len(set(failed)) == len(failed), "none was tried again"
    for before, broken, after in zip(reached, reached[1:], reached[2:], strict=False):
        assert broken not in failed or after == before
    undone = cluster.messages("RollingBack")
    assert len(undone) == len(failed)
    assert all("exit code 137 (OOMKilled)" in text and " -> " in text for text in undone)
    shown = profiling.status("a").failed_counts
    assert shown == tuple(
        f"{each}: a-worker-0 ended with exit code 137 (OOMKilled)" for each in failed
    )
    assert not cluster.breaks(job.counts), "it trains"


def test_without_a_minimum_no_smaller_counts_are_tried(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    cluster.cpus = 32
    goal = {"target_loss": "0.0501", "training_mode": "sync", "rescale": "any"}
    job = cluster.submit(tf_job("a", 2, 4, **goal))
    for _ in range(150):
        harness.run(2)
        assert job.counts.ps >= 2
        assert job.counts.workers >= 4
    assert job.runs > 1, "it is measured at larger ones"
