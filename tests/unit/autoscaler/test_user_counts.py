"""Which counts of a job are its user's: those that no rescale has set."""

from optimus.jobs import Counts
from optimus.kube.contract import Phase
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job


def submitted(cluster: FakeCluster) -> FakeJob:
    return cluster.submit(
        tf_job("a", 1, 2, target_loss="0.001", training_mode="sync", rescale="any")
    )


def user_counts(harness: ControllerHarness) -> Counts | None:
    (state,) = harness.controller.managed
    return state.history(harness.cluster.at).user_counts


def test_they_are_those_that_it_was_submitted_with(
    harness: ControllerHarness, cluster: FakeCluster
) -> None:
    job = submitted(cluster)
    harness.run(100)
    assert job.runs > 1, "it was moved"
    assert user_counts(harness) == Counts(1, 2)
    harness.restart()
    harness.run(2)
    assert user_counts(harness) == Counts(1, 2)


def test_they_are_those_that_its_user_has_set_since(
    harness: ControllerHarness, cluster: FakeCluster
) -> None:
    job = submitted(cluster)
    harness.run(100)
    harness.run_until("a", Phase.TRAINING)
    workers = job.counts.workers - 1
    job.replicas["Worker"]["replicas"] = workers
    job.changed()
    cluster.pass_time(1)
    harness.run(3)
    assert user_counts(harness) == Counts(job.counts.ps, workers)
