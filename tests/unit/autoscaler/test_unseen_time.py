"""Time in which the API server did not answer, or the operator did not act, counts for no
time-out; on caches that have heard nothing for long nothing begins."""

import logging
from dataclasses import dataclass, field, replace

import pytest

from optimus.jobs import Counts
from optimus.kube.contract import Phase
from optimus.kube.pods import Pod
from optimus.kube.results import Refused
from optimus.kube.training_jobs import TrainingJob
from tests.unit.autoscaler.controller_harness import TIMING, ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job

LIMIT_SECONDS = TIMING.cache_age_limit_seconds


def submitted(cluster: FakeCluster) -> FakeJob:
    return cluster.submit(
        tf_job("a", 1, 2, target_loss="0.001", training_mode="sync", rescale="any")
    )


def resized(harness: ControllerHarness) -> FakeJob:
    """A job that was resumed at other counts and of whose pods a quota lets in too few."""
    job = submitted(harness.cluster)
    harness.run_until("a", Phase.SUSPENDING)
    harness.cluster.quota = 2
    harness.run_until("a", Phase.STARTING)
    return job


def test_nothing_begins_while_the_caches_are_silent(
    harness: ControllerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = harness.cluster
    submitted(cluster)
    cluster.silent_seconds = LIMIT_SECONDS + 1
    with caplog.at_level(logging.WARNING):
        harness.run(60)
    assert harness.intervals == 0
    assert "Rescaling" not in cluster.reasons("a")
    assert len([each for each in caplog.messages if "nothing has come" in each]) == 1
    cluster.silent_seconds = LIMIT_SECONDS
    harness.run_until("a", Phase.SUSPENDING)


def test_a_rescale_that_waits_to_begin_does_not_begin_while_they_are() -> None:
    cluster = FakeCluster(checkpoints=False)
    harness = ControllerHarness(cluster)
    job = cluster.submit(
        tf_job("a", 1, 1, target_loss="1e-4", training_mode="sync", max_workers="1", max_ps="1")
    )
    harness.run(100)
    job.annotate(min_workers="2", max_workers="2")
    harness.run_until("a", Phase.WAITING_FOR_CHECKPOINT)
    cluster.silent_seconds, cluster.checkpoints = LIMIT_SECONDS + 1, True
    runs = job.runs
    harness.run(60)
    assert not job.suspended
    assert job.runs == runs
    cluster.silent_seconds = 0.0
    harness.run_until("a", Phase.SUSPENDING)


def test_a_gang_is_not_half_bound_for_the_time_of_a_silence(
    harness: ControllerHarness, cluster: FakeCluster
) -> None:
    job = submitted(cluster)
    cluster.pass_time(1)
    del job.pods[-1]["spec"]["nodeName"]
    job.pods[-1]["status"]["phase"] = "Pending"
    harness.run(10)
    cluster.silent_seconds = LIMIT_SECONDS + 1
    harness.run(100)
    cluster.silent_seconds = 0.0
    harness.run(5)
    assert "Rescaling" not in cluster.reasons("a")
    harness.run(int(LIMIT_SECONDS) + 40)
    assert "Rescaling" in cluster.reasons("a")


def test_a_start_does_not_time_out_while_the_api_server_does_not_answer(
    harness: ControllerHarness,
) -> None:
    job, cluster = resized(harness), harness.cluster
    harness.run(5)
    target = job.counts
    cluster.unreachable = True
    harness.run(300)
    cluster.unreachable = False
    harness.run(50)
    assert "RollingBack" not in cluster.reasons("a"), "55 s of 60 were seen"
    cluster.quota = None
    job.pods.clear()
    harness.run_until("a", Phase.TRAINING)
    assert job.counts == target


def test_a_start_times_out_by_the_time_that_was_seen(harness: ControllerHarness) -> None:
    job, cluster = resized(harness), harness.cluster
    harness.run(5)
    cluster.unreachable = True
    harness.run(300)
    cluster.unreachable = False
    harness.run(70)
    assert "RollingBack" in cluster.reasons("a")
    cluster.quota = None
    harness.run(5)
    assert job.counts == Counts(1, 2)


def test_a_start_has_a_minute_under_a_new_autoscaler(harness: ControllerHarness) -> None:
    resized(harness)
    cluster = harness.cluster
    cluster.pass_time(300)
    harness.restart()
    harness.run(55)
    assert "RollingBack" not in cluster.reasons("a")
    harness.run(10)
    assert "RollingBack" in cluster.reasons("a")


def test_a_start_does_not_time_out_while_the_operator_does_not_act(
    harness: ControllerHarness,
) -> None:
    cluster = harness.cluster
    job = submitted(cluster)
    harness.run_till(lambda: job.suspended)
    harness.run_till(lambda: not job.suspended)
    cluster.operator_is_away = True
    harness.run(300)
    target = job.counts
    assert not job.suspended
    assert not {"RollingBack", "OperatorAway"} & set(cluster.reasons("a"))
    harness.run(400)
    (message,) = cluster.messages("OperatorAway")
    assert "check that the training operator runs" in message
    cluster.operator_is_away = False
    harness.run_until("a", Phase.TRAINING)
    assert job.counts == target


@dataclass
class SlowCluster(FakeCluster):
    """Each list of pods takes 15 s."""

    is_slow: bool = False
    listed: list[str] = field(default_factory=list)

    def pods_of(self, job: TrainingJob) -> tuple[Pod, ...] | Refused:
        if self.is_slow:
            self.at += 15.0
            self.listed.append(job.name)
        return super().pods_of(job)


def test_rescales_that_were_not_reached_in_a_tick_come_first_in_the_next() -> None:
    cluster = SlowCluster(cpus=64, lingering_seconds=10_000)
    harness = ControllerHarness(cluster, timing=replace(TIMING, rescale_seconds=10.0))
    names = ["a", "b"]
    for name in names:
        cluster.submit(tf_job(name, 1, 2, target_loss="0.001", training_mode="sync", rescale="any"))
    harness.run(40)
    assert all(cluster.jobs[name].suspended for name in names), "each waits for its pods to end"
    cluster.is_slow = True
    harness.controller.tick()
    first = list(cluster.listed)
    assert len(first) == 1
    harness.controller.tick()
    assert set(cluster.listed) == set(names)
