"""A job is paused and resumed by whoever leads, and by nobody else left paused."""

from dataclasses import replace

import pytest

from autoscaler.jobs.managed import Holds
from optimus.jobs import NO_COUNTS, Counts
from optimus.kube.contract import Annotation, Phase
from optimus.rescale.purpose import RescalePurpose
from optimus.rescale.words import PauseReason
from tests.unit.autoscaler.controller_harness import TIMING, ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job

PURPOSE = RescalePurpose.INTERVAL
WHY = "the others' turn"
PAUSES = Holds(pauses=frozenset({PauseReason.POLICY}))


def harness_on(cluster: FakeCluster, holds: Holds = PAUSES) -> ControllerHarness:
    return ControllerHarness(cluster, timing=replace(TIMING, holds=holds), instance="one")


def submitted(cluster: FakeCluster) -> FakeJob:
    """A job whose bounds leave the decider nothing to move it to."""
    bounds = {"min_ps": "1", "max_ps": "1", "min_workers": "1", "max_workers": "1"}
    job = tf_job("a", 1, 1, target_loss="0.001", training_mode="sync", rescale="any", **bounds)
    return cluster.submit(job)


def paused(harness: ControllerHarness, cluster: FakeCluster) -> FakeJob:
    """A job that trained and was paused."""
    job = submitted(cluster)
    harness.run_until("a", Phase.TRAINING)
    purpose, pause = RescalePurpose.PREEMPTION, PauseReason.POLICY
    harness.state().begin("turn-7", cluster.at, NO_COUNTS, WHY, purpose, pause)
    harness.run_until("a", Phase.PAUSED)
    return job


def is_training(harness: ControllerHarness, job: FakeJob) -> bool:
    harness.run_until("a", Phase.TRAINING)
    mark = job.manifest["metadata"]["annotations"].get(Annotation.SUSPENDED_BY)
    return not job.suspended and mark is None


def test_a_pause_lasts_over_a_restart_and_ends_at_other_counts(cluster: FakeCluster) -> None:
    harness = harness_on(cluster)
    job = paused(harness, cluster)
    assert (job.suspended, harness.status("a").rescale) == (True, None)
    assert harness.status("a").reason.startswith("paused ")
    harness.restart()
    harness.run(100)
    assert (job.suspended, harness.state().pause) == (True, PauseReason.POLICY)
    job.annotate(max_workers="2")
    harness.run(2)
    state = harness.state()
    state.begin("turn-8", cluster.at, Counts(1, 2), "its turn", PURPOSE)
    assert is_training(harness, job)
    assert job.counts == Counts(1, 2)
    assert [cluster.reasons("a").count(each) for each in ("Paused", "Resumed")] == [1, 1]


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({"manage": "recommend"}, id="its user wants recommendations only"),
        pytest.param({"pause": "true"}, id="its user wants no changes"),
    ],
)
def test_a_job_whose_user_wants_no_changes_is_resumed(
    cluster: FakeCluster, annotations: dict[str, str]
) -> None:
    harness = harness_on(cluster)
    job = paused(harness, cluster)
    job.annotate(**annotations)
    assert is_training(harness, job)
    assert job.counts == Counts(1, 1)


def test_a_job_that_is_not_managed_any_more_is_resumed(cluster: FakeCluster) -> None:
    job = paused(harness_on(cluster), cluster)
    job.annotate(target_loss=None)
    harness_on(cluster).run(10)
    assert not job.suspended


@pytest.mark.parametrize("profile", ["stored", "deleted"])
def test_a_leader_whose_policy_does_not_pause_jobs_resumes_them(
    cluster: FakeCluster, profile: str
) -> None:
    job = paused(harness_on(cluster), cluster)
    if profile == "deleted":
        del cluster.profiles["a"]
    assert is_training(harness_on(cluster, Holds()), job)


def test_who_takes_the_mark_away_keeps_the_job_suspended(cluster: FakeCluster) -> None:
    harness = harness_on(cluster, Holds())
    with_pauses = harness_on(cluster)
    job = paused(with_pauses, cluster)
    job.manifest["metadata"]["annotations"].pop(Annotation.SUSPENDED_BY)
    job.changed()
    harness.run(60)
    assert job.suspended
    assert harness.status("a").phase is Phase.SUSPENDED
