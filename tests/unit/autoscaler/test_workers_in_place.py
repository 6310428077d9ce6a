"""A job whose workers come and go is resized while it trains; only other PSs take a stop."""

import pytest

from optimus.jobs import Counts
from optimus.kube.contract import Phase
from optimus.kube.errors import ErrorKind
from optimus.rescale.purpose import RescalePurpose
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job


@pytest.fixture
def harness(cluster: FakeCluster) -> ControllerHarness:
    """One that decides nothing by itself."""
    return ControllerHarness(cluster, interval_seconds=1e6, measures=False, expects=False)


def submitted(cluster: FakeCluster, workers: int, mode: str = "async") -> FakeJob:
    cluster.checkpoints = False
    job = tf_job("a", 1, workers, target_loss="0.001", training_mode=mode, rescale="any")
    job.manifest["spec"]["enableDynamicWorker"] = True
    return cluster.submit(job)


def shrinking(cluster: FakeCluster, harness: ControllerHarness) -> FakeJob:
    """A job on its way from four workers to two."""
    job = submitted(cluster, 4)
    harness.run_until("a", Phase.TRAINING)
    state = harness.state()
    state.begin("i1", cluster.at, Counts(1, 2), "a test", RescalePurpose.INTERVAL)
    harness.run(2)
    return job


def move(harness: ControllerHarness, cluster: FakeCluster, target: Counts) -> None:
    harness.run_until("a", Phase.TRAINING)
    harness.run(30)
    state = harness.state()
    state.begin("i1", cluster.at, target, "a test", RescalePurpose.INTERVAL)
    harness.run(80)
    assert harness.state().rescale is None


@pytest.mark.parametrize(
    ("before", "after"),
    [(2, 4), (1, 3), (5, 2)],
    ids=["workers come", "they come beside a single one", "they go"],
)
def test_workers_come_and_go_while_the_others_train(
    cluster: FakeCluster, harness: ControllerHarness, before: int, after: int
) -> None:
    job = submitted(cluster, before)
    move(harness, cluster, Counts(1, after))
    assert (job.counts, job.runs) == (Counts(1, after), 1)
    assert cluster.reasons("a").count("Rescaling") == 1
    record = harness.state().record
    assert (record.rescales, record.stopped_seconds, record.redone_seconds) == (1, 0.0, 0.0)
    assert record.prices == ()
    assert len(cluster.decoded()[2]) == 1 + after


def test_each_speed_is_that_of_its_counts(cluster: FakeCluster, harness: ControllerHarness) -> None:
    job = submitted(cluster, 2)
    move(harness, cluster, Counts(1, 4))
    now = job.speed()
    harness.run(60)
    samples = {each.counts: each for each in harness.state().progress(cluster.at).samples}
    assert samples.keys() == {Counts(1, 2), Counts(1, 4)}
    assert samples[Counts(1, 4)].steps_per_second == pytest.approx(now, rel=0.02)
    assert samples[Counts(1, 2)].steps_per_second == pytest.approx(1 / 1.3, rel=0.02)


def test_a_new_leader_finishes_what_another_has_begun(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    job = shrinking(cluster, harness)
    assert job.counts == Counts(1, 3), "one at a time"
    harness.restart()
    harness.run(80)
    assert (job.counts, job.runs) == (Counts(1, 2), 1)
    assert harness.state().record.user_counts == Counts(1, 4)


@pytest.mark.parametrize(
    ("target", "mode"),
    [(Counts(2, 2), "async"), (Counts(1, 1), "async"), (Counts(1, 3), "sync")],
    ids=["another PS", "a single worker", "workers that wait for one another"],
)
def test_any_other_change_takes_a_stop(
    cluster: FakeCluster, harness: ControllerHarness, target: Counts, mode: str
) -> None:
    job = submitted(cluster, 2, mode)
    move(harness, cluster, target)
    assert (job.counts, job.runs) == (target, 2)


def test_counts_at_which_a_change_is_refused_are_not_its_users(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    job = shrinking(cluster, harness)
    cluster.refuse = ErrorKind.INVALID
    harness.run(20)
    assert (job.counts, harness.state().rescale) == (Counts(1, 3), None)
    assert harness.state().record.user_counts == Counts(1, 4)


def test_counts_that_its_user_sets_are_kept(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    job = submitted(cluster, 2)
    harness.run_until("a", Phase.TRAINING)
    job.replicas["Worker"]["replicas"] = 3
    job.changed()
    harness.run(60)
    assert (job.counts, job.runs) == (Counts(1, 3), 1)
    assert harness.state().record.user_counts == Counts(1, 3)
