"""A job that loses a replica, or of which one has finished, keeps its counts where it can."""

import pytest

from optimus.jobs import Counts
from optimus.kube.times import format_second
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job

GOAL = {"target_loss": "0.0501", "training_mode": "async", "rescale": "any"}
FIXED = {"max_ps": "1", "max_workers": "8"}


def old_job(
    cluster: FakeCluster, harness: ControllerHarness, workers: int = 8, **more: str
) -> FakeJob:
    """A job that has trained for too long to be profiled, and has no forecast."""
    job = cluster.submit(tf_job("a", 1, workers, **{**GOAL, **FIXED, **more}))
    cluster.pass_time(1)
    for pod in job.pods:
        (status,) = pod["status"]["containerStatuses"]
        status["state"] = {"running": {"startedAt": format_second(cluster.at - 1000)}}
    harness.run(15)
    return job


def ended(job: FakeJob, index: int, phase: str) -> None:
    pod = job.pods[index]
    pod["status"]["phase"] = phase
    (status,) = pod["status"]["containerStatuses"]
    status["state"] = {"terminated": {"exitCode": 0 if phase == "Succeeded" else 143}}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_replica_that_has_ended_counts_as_placed(
    cluster: FakeCluster, harness: ControllerHarness, phase: str
) -> None:
    job = old_job(cluster, harness)
    cluster.cpus = 9 if phase == "Failed" else 8
    ended(job, -1, phase)
    for _ in range(120):
        harness.run(1)
        assert (job.runs, job.suspended, job.counts) == (1, False, Counts(1, 8))


def lose_last(cluster: FakeCluster, job: FakeJob) -> None:
    """Its last pod is recreated, and the room for it is gone."""
    pod = job.pods[-1]
    pod["metadata"]["uid"], pod["status"] = "recreated", {"phase": "Pending"}
    del pod["spec"]["nodeName"]
    cluster.cpus = sum(job.counts) - 1


def test_a_lost_worker_is_given_time_to_come_back(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    job = old_job(cluster, harness)
    lose_last(cluster, job)
    harness.run(50)
    assert (job.runs, job.counts) == (1, Counts(1, 8))


def test_a_job_without_a_forecast_shrinks_by_what_it_lost(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    job = old_job(cluster, harness)
    lose_last(cluster, job)
    harness.run(120)
    assert job.counts == Counts(1, 7)
