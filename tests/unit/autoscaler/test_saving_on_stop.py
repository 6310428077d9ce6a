"""A job that saves when it is stopped is rescaled at any time, as long as it does."""

import pytest

from optimus.jobs import Counts
from optimus.kube.contract import Phase
from optimus.rescale.purpose import RescalePurpose
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job

WITHOUT_CHECKPOINT = RescalePurpose.INTERVAL
TARGETS = (Counts(2, 1), Counts(1, 1))


def submitted(cluster: FakeCluster, **annotations: str) -> FakeJob:
    cluster.checkpoints = False
    job = tf_job("a", 1, 1, target_loss="0.001", training_mode="sync", **annotations)
    return cluster.submit(job)


@pytest.fixture
def harness(cluster: FakeCluster) -> ControllerHarness:
    """One that decides nothing by itself."""
    return ControllerHarness(cluster, interval_seconds=1e6, measures=False, expects=False)


def move(harness: ControllerHarness, cluster: FakeCluster, moves: int, purpose: str) -> None:
    """Rescale the job so often, by rescales of a purpose, each after some steps."""
    for number in range(moves):
        harness.run_until("a", Phase.TRAINING)
        harness.run(30)
        state = harness.state()
        at, target = cluster.at, next(each for each in TARGETS if each != state.job.counts)
        state.begin(f"i{number}", at, target, "a test", RescalePurpose(purpose))
        harness.run(60)
        assert harness.state().rescale is None


def lost_nothing(harness: ControllerHarness) -> bool:
    return harness.state().record.redone_seconds == 0.0


def test_who_says_so_is_stopped_without_a_checkpoint(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    cluster.saving_on_stop = {"a"}
    job = submitted(cluster, saves_on_stop="true")
    move(harness, cluster, 3, WITHOUT_CHECKPOINT)
    assert job.runs == 4
    assert lost_nothing(harness)
    assert harness.status("a").saves_on_stop == "yes: its user says so"
    assert "DidNotSave" not in cluster.reasons("a")


def test_two_stops_that_lose_training_end_that(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    job = submitted(cluster, saves_on_stop="true")
    move(harness, cluster, 2, WITHOUT_CHECKPOINT)
    assert job.runs == 3
    told = cluster.messages("DidNotSave")
    assert ["if the next stop" in text for text in told] == [True, False]
    state = harness.state()
    state.begin("i9", cluster.at, Counts(2, 1), "a test", WITHOUT_CHECKPOINT)
    harness.run(60)
    assert harness.status("a").phase == Phase.WAITING_FOR_CHECKPOINT
    assert job.runs == 3


def test_it_is_found_by_two_stops_that_lose_nothing(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    cluster.saving_on_stop = {"a"}
    job = submitted(cluster)
    move(harness, cluster, 2, RescalePurpose.PROFILING)
    assert cluster.reasons("a").count("SavesOnStop") == 1
    harness.restart()
    move(harness, cluster, 1, WITHOUT_CHECKPOINT)
    assert job.runs == 4
    assert harness.status("a").saves_on_stop == "yes: two stops in a row lost no training"
    cluster.saving_on_stop = set()
    move(harness, cluster, 1, WITHOUT_CHECKPOINT)
    assert not harness.state().saves_on_stop, "one stop that loses is enough"
    assert cluster.reasons("a").count("DidNotSave") == 1
    assert harness.status("a").saves_on_stop.startswith("not any more: a stop lost training at 20")


def test_who_denies_it_waits_for_checkpoints(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    cluster.saving_on_stop = {"a"}
    submitted(cluster, saves_on_stop="false")
    move(harness, cluster, 2, RescalePurpose.PROFILING)
    assert not harness.state().saves_on_stop
    assert "SavesOnStop" not in cluster.reasons("a")


def test_a_stop_right_after_a_checkpoint_shows_nothing(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    job = submitted(cluster)
    cluster.checkpoints = True
    job.annotate(rescale="any")
    move(harness, cluster, 3, WITHOUT_CHECKPOINT)
    assert harness.state().record.saved_stops == 0


def test_pods_that_take_their_whole_grace_period_are_named_once(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    cluster.lingering_seconds = 31.0
    submitted(cluster, rescale="any")
    move(harness, cluster, 2, WITHOUT_CHECKPOINT)
    assert cluster.reasons("a").count("StopsSlowly") == 1
