"""A job that has run for long is not stopped without a checkpoint, whatever its log still shows."""

from typing import Any

import pytest

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


def test_a_job_whose_container_was_restarted_is_as_old_as_its_pod(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    cluster.checkpoints = False
    job = running_for(cluster, TWO_DAYS)
    for pod in job.pods:
        (status,) = pod["status"]["containerStatuses"]
        status["restartCount"] = 1
        status["state"] = {"running": {"startedAt": format_second(cluster.at)}}
    assert_untouched(job, harness)


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


def test_a_profiling_run_that_could_not_begin_in_time_waits_for_a_checkpoint(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    cluster.checkpoints = False
    job = running_for(cluster, 560)
    for _ in range(30):
        harness.run(1)
        if harness.status("a").rescale is not None:
            break
    rescale = harness.controller.managed.states["uid-a"].rescale
    assert rescale is not None
    for pod in job.pods:
        started(pod, cluster.at - 700)
    assert_untouched(job, harness, 30)


@pytest.mark.parametrize("seconds", [5, TWO_DAYS])
def test_a_gang_that_lost_a_pod_before_the_autoscaler_came_is_taken_back_only_if_young(
    cluster: FakeCluster, harness: ControllerHarness, seconds: float
) -> None:
    cluster.broken_logs.add("a")
    job = running_for(cluster, seconds)
    del job.pods[-1]["spec"]["nodeName"]
    job.pods[-1]["status"]["phase"] = "Pending"
    harness.run(60)
    assert (job.runs > 1) is (seconds == 5)
    assert ("HalfPlaced" in cluster.reasons("a")) is (seconds == TWO_DAYS)
