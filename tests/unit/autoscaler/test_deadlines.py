"""A deadline, by the loop: the profile and one Event say whether it is met."""

from optimus.kube.times import format_second
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import STEPS_PER_EPOCH, FakeJob, tf_job

GOAL = {
    "target_epochs": "400",
    "training_mode": "sync",
    "rescale": "any",
    "steps_per_epoch": str(STEPS_PER_EPOCH),
}


def due(cluster: FakeCluster, seconds: float, **more: str) -> FakeJob:
    by = format_second(cluster.at + seconds)
    return cluster.submit(tf_job("a", 1, 2, **GOAL, finish_by=by, **more))


def test_a_deadline_that_is_far_away_is_met_with_what_the_job_has() -> None:
    cluster = FakeCluster()
    harness = ControllerHarness(cluster)
    job = due(cluster, 40_000)
    harness.run(150)
    measured_at = job.counts
    harness.run(150)
    assert job.counts == measured_at
    assert f"met at {job.counts}, which need at most" in harness.status("a").deadline
    assert "its deadline is met at its own 1 PS + 2 workers" in harness.status("a").reason
    assert cluster.messages("DeadlineAtRisk") == []


def test_one_that_no_counts_meet_is_said_once_and_early() -> None:
    cluster = FakeCluster()
    harness = ControllerHarness(cluster)
    job = due(cluster, 400)
    harness.run(300)
    (message,) = cluster.messages("DeadlineAtRisk")
    assert ": no counts meet it: " in message
    assert "no counts meet its deadline" in harness.status("a").reason
    assert sum(job.counts) > 3
    harness.run(400)
    assert "it has passed" in harness.status("a").deadline
    assert len(cluster.messages("DeadlineAtRisk")) == 1
    assert not job.suspended


def test_another_deadline_is_another_event() -> None:
    cluster = FakeCluster()
    harness = ControllerHarness(cluster)
    job = due(cluster, 400)
    harness.run(300)
    job.annotate(finish_by=format_second(cluster.at + 250))
    harness.run(150)
    assert len(cluster.messages("DeadlineAtRisk")) == 2


def test_a_deadline_that_is_no_time_is_left_out_with_an_event() -> None:
    cluster = FakeCluster()
    harness = ControllerHarness(cluster)
    job = cluster.submit(tf_job("a", 1, 2, **GOAL, finish_by="tomorrow"))
    harness.run(200)
    (message,) = cluster.messages("AnnotationIgnored")
    assert "optimus.dl/finish-by: 'tomorrow' is invalid; an RFC 3339 time is expected" in message
    assert sum(job.counts) > 3
    assert harness.status("a").deadline == ""


def test_while_its_counts_are_being_measured_nothing_is_said_too_early() -> None:
    cluster = FakeCluster()
    harness = ControllerHarness(cluster)
    job = due(cluster, 2700)  # not met at the counts of its profiling runs
    job.manifest["metadata"]["creationTimestamp"] = format_second(cluster.at)
    harness.run(160)
    assert cluster.messages("DeadlineAtRisk") == []
    assert sum(job.counts) > 3
