"""``at-target: complete``: pods are notified that the goal is met, and end the job."""

from dataclasses import replace

import pytest

from autoscaler.jobs.state import JobLimits
from optimus.kube.contract import Phase
from optimus.kube.errors import ErrorKind
from tests.cases import cases
from tests.unit.autoscaler.controller_harness import TIMING, ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job

LIMIT_SECONDS = 60.0
GOAL = {"target_steps": "60", "training_mode": "sync", "at_target": "complete"}


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def harness(cluster: FakeCluster) -> ControllerHarness:
    return ControllerHarness(
        cluster, timing=replace(TIMING, limits=JobLimits(completion_seconds=LIMIT_SECONDS))
    )


def annotated(job: FakeJob) -> list[str]:
    """The annotation of each of its pods."""
    return [
        pod["metadata"].get("annotations", {}).get("optimus.dl/goal-met", "") for pod in job.pods
    ]


def run_until_requested(harness: ControllerHarness, job: FakeJob) -> None:
    harness.run_till(lambda: job.pods and all(annotated(job)))


def test_of_a_job_that_continues_its_user_is_told_once(
    harness: ControllerHarness, cluster: FakeCluster
) -> None:
    job = cluster.submit(tf_job("a", 1, 2, **(GOAL | {"at_target": "continue"})))
    harness.run_till(lambda: cluster.messages("GoalMet"))
    harness.run(20)
    (message,) = cluster.messages("GoalMet")
    assert message.startswith("60 steps is met: it continues; with optimus.dl/at-target suspend")
    assert not any(annotated(job))


def test_every_pod_is_notified_once_the_goal_is_met(
    harness: ControllerHarness, cluster: FakeCluster
) -> None:
    job = cluster.submit(tf_job("a", 1, 2, **GOAL))
    harness.run(20)
    assert not any(annotated(job))
    run_until_requested(harness, job)
    assert job.step >= 60
    assert len(set(annotated(job))) == 1
    (message,) = cluster.messages("GoalMet")
    assert message.startswith("60 steps is met: its pods are notified by the annotation")
    assert not job.suspended
    harness.run(5)
    assert "its goal is met, and it is requested to end" in harness.status("a").reason
    assert harness.status("a").phase == Phase.AT_TARGET


def test_one_that_does_not_end_in_time_trains_on_and_can_shrink(
    harness: ControllerHarness, cluster: FakeCluster
) -> None:
    job = cluster.submit(tf_job("a", 1, 2, **GOAL, min_workers="1"))
    run_until_requested(harness, job)
    counts, writes = job.counts, cluster.writes
    harness.run(int(LIMIT_SECONDS) - 5)
    assert cluster.messages("NotCompleted") == []
    assert job.counts == counts
    harness.run(30)
    (message,) = cluster.messages("NotCompleted")
    assert message.startswith("it was notified 60 s ago and has not ended; it continues as with")
    assert "its goal is met: it does not grow" in harness.status("a").reason
    other = cluster.submit(tf_job("b", 1, 8, target_loss="0.1", min_workers="8"))
    harness.run(120)
    assert sum(job.counts) < sum(counts)
    assert other.pods
    assert cluster.writes > writes


def test_while_it_is_requested_to_end_it_is_not_moved_for_others(
    harness: ControllerHarness, cluster: FakeCluster
) -> None:
    job = cluster.submit(tf_job("a", 1, 2, **GOAL, min_workers="1"))
    run_until_requested(harness, job)
    counts = job.counts
    cluster.submit(tf_job("b", 1, 2, target_loss="0.1"))
    harness.run(int(LIMIT_SECONDS) - 15)
    assert job.counts == counts
    assert not job.suspended


@cases(
    "change", {"another goal": {"target_steps": "6000"}, "another end": {"at_target": "continue"}}
)
def test_the_annotation_is_removed_when_its_user_changes(
    harness: ControllerHarness, cluster: FakeCluster, change: dict[str, str]
) -> None:
    job = cluster.submit(tf_job("a", 1, 2, **GOAL))
    run_until_requested(harness, job)
    job.annotate(**change)
    harness.run(100)
    assert not any(annotated(job))


def test_a_recreated_pod_is_notified_too(harness: ControllerHarness, cluster: FakeCluster) -> None:
    job = cluster.submit(tf_job("a", 1, 2, **GOAL))
    run_until_requested(harness, job)
    del job.pods[-1]["metadata"]["annotations"]
    harness.run(3)
    assert all(annotated(job))


def test_another_process_continues_without_notifying_it_again(
    harness: ControllerHarness, cluster: FakeCluster
) -> None:
    job = cluster.submit(tf_job("a", 1, 2, **GOAL))
    run_until_requested(harness, job)
    before = annotated(job)
    harness.restart()
    harness.run(10)
    assert annotated(job) == before
    assert len(cluster.messages("GoalMet")) == 1


@cases(
    "annotations",
    {
        "paused": {"pause": "true"},
        "recommend only": {"manage": "recommend"},
        "to go on": {"at_target": "continue"},
    },
)
def test_no_pod_is_notified_of_a_job_that_is(
    harness: ControllerHarness, cluster: FakeCluster, annotations: dict[str, str]
) -> None:
    job = cluster.submit(tf_job("a", 1, 2, **(GOAL | annotations)))
    harness.run(150)
    assert job.step > 80
    assert not any(annotated(job))


def test_that_its_pods_may_not_be_written_is_said(
    harness: ControllerHarness, cluster: FakeCluster
) -> None:
    job = cluster.submit(tf_job("a", 1, 2, **GOAL, rescale="never"))
    cluster.refuse = ErrorKind.FORBIDDEN
    harness.run(150)
    (message,) = cluster.messages("NotCompleted")
    assert message.startswith("its pods cannot be notified that its goal is met: ")
    assert not any(annotated(job))


def test_an_annotation_that_is_no_instant_counts_from_now_on(
    harness: ControllerHarness, cluster: FakeCluster
) -> None:
    job = cluster.submit(tf_job("a", 1, 2, **GOAL))
    run_until_requested(harness, job)
    for pod in job.pods:
        pod["metadata"]["annotations"]["optimus.dl/goal-met"] = "yes"
    harness.run(2 * int(LIMIT_SECONDS))
    assert cluster.messages("NotCompleted") == []
