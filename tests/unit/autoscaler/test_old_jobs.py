"""A job that has run for long is not stopped without a checkpoint, whatever its log still shows."""

from typing import Any

from optimus.jobs import Counts
from optimus.kube.times import format_second
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job

TWO_DAYS = 172_800
DAY = 86_400


def running_for(cluster: FakeCluster, seconds: float, **annotations: str) -> FakeJob:
    """A job of which the log was rotated a moment ago, as its autoscaler first sees it."""
    goal = {"target_loss": "1e-4", "training_mode": "sync", **annotations}
    job = cluster.submit(tf_job("a", 1, 2, **goal))
    cluster.pass_time(1)
    for pod in job.pods:
        started(pod, cluster.at - seconds)
    job.lines.clear()
    return job


def started(pod: dict[str, Any], at: float) -> None:
    pod["status"]["startTime"] = format_second(at)
    (status,) = pod["status"]["containerStatuses"]
    status["state"] = {"running": {"startedAt": format_second(at)}}


def assert_untouched(job: FakeJob, harness: ControllerHarness, seconds: int = 120) -> None:
    for _ in range(seconds):
        harness.run(1)
        assert (job.runs, job.suspended, job.counts) == (1, False, Counts(1, 2))


def test_a_job_with_a_rotated_log_is_not_profiled(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    cluster.checkpoints = False
    assert_untouched(running_for(cluster, TWO_DAYS), harness)


def test_a_job_that_ran_before_the_autoscaler_is_as_old_as_its_start_time(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    cluster.checkpoints = False
    job = running_for(cluster, 5)
    job.manifest["status"]["startTime"] = format_second(cluster.at - DAY)
    assert_untouched(job, harness)
    harness.restart()
    assert_untouched(job, harness)


def test_a_job_that_waited_for_long_before_it_ran_is_young(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    job = tf_job("a", 1, 2, target_loss="1e-4", training_mode="sync")
    job.manifest["status"]["startTime"] = format_second(cluster.at - DAY)
    cluster.cpus, cpus = 0, cluster.cpus
    cluster.submit(job)
    harness.run(5)
    cluster.cpus = cpus
    harness.run(60)
    assert job.runs > 1, "it is profiled"
