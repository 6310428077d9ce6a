"""Gangs of which only a part has a node are taken back, resized or left to train."""

import pytest

from optimus.jobs import Counts
from tests.cases import cases
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job


def lose_last(job: FakeJob, phase: str = "Pending") -> None:
    """Its last pod has no node any more."""
    del job.pods[-1]["spec"]["nodeName"]
    job.pods[-1]["status"]["phase"] = phase


def test_a_gang_that_stays_half_bound_is_taken_back(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    job = cluster.submit(
        tf_job("a", 1, 2, target_loss="0.001", training_mode="sync", rescale="any")
    )
    cluster.pass_time(1)
    lose_last(job)
    harness.run(40)
    first = cluster.messages("Rescaling")[0]
    assert "only some of its pods have had a node" in first
    assert job.runs >= 2
    assert all("nodeName" in pod["spec"] for pod in job.pods)


def test_a_gang_has_the_whole_limit_to_become_bound(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    goal = {"target_loss": "0.001", "rescale": "any", "training_mode": "sync"}
    cluster.submit(tf_job("a", 1, 2, **goal))
    cluster.pass_time(1)
    lose_last(cluster.jobs["a"])
    harness.run(30, tick=1)
    assert "Rescaling" not in cluster.reasons("a"), "29 s of 30"
    harness.run(1)
    assert "Rescaling" in cluster.reasons("a")


@cases(
    ("phase", "is_moved"),
    {
        "resized at once if it does not train": ("Pending", True),
        "not before a checkpoint if it does": ("Running", False),
    },
)
def test_a_gang_that_was_never_fully_bound_and_cannot_be_is(
    harness: ControllerHarness, phase: str, is_moved: bool
) -> None:
    cluster = harness.cluster
    cluster.cpus, cluster.checkpoints = 4, False
    job = cluster.submit(tf_job("a", 1, 3, target_loss="0.001", training_mode="async"))
    cluster.pass_time(1)
    lose_last(job, phase)
    cluster.cpus = 3
    cluster.pass_time(20)
    harness.run(10)
    harness.restart()
    harness.run(10)
    assert (job.counts != Counts(1, 3)) is is_moved


@pytest.mark.parametrize("rescale", ["never", "checkpoint"])
def test_a_job_with_an_unreadable_log_is_not_stopped_when_it_loses_a_pod(
    cluster: FakeCluster, harness: ControllerHarness, rescale: str
) -> None:
    cluster.broken_logs.add("a")
    job = cluster.submit(
        tf_job("a", 1, 3, target_loss="0.001", training_mode="async", rescale=rescale)
    )
    harness.run(40)
    lost = job.pods[-1]
    lost["metadata"]["uid"], lost["status"]["phase"] = "recreated", "Pending"
    del lost["spec"]["nodeName"]
    harness.run(10)
    harness.restart()
    harness.run(60)
    assert (job.runs, job.counts) == (1, Counts(1, 3))
    assert cluster.reasons("a").count("HalfPlaced") == 1


@cases(
    ("running", "advice"),
    {
        "what runs, runs on": (
            True,
            "the job trains on with them: free capacity for the others, or suspend",
        ),
        "what waits, holds room": (
            False,
            "the job does not train: free capacity for the others, or delete the job",
        ),
    },
)
def test_its_event_says_what_to_do(
    cluster: FakeCluster,
    harness: ControllerHarness,
    running: bool,
    advice: str,
) -> None:
    goal = {"target_loss": "0.001", "rescale": "never", "training_mode": "sync"}
    job = cluster.submit(tf_job("a", 1, 2, **goal))
    cluster.pass_time(1)
    for pod in job.pods:
        pod["status"]["phase"] = "Running" if running else "Pending"
    lose_last(job)
    harness.run(60)
    (message,) = cluster.messages("HalfPlaced")
    assert advice in message
