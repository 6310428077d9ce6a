"""A clock that is set forward or back while jobs train."""

import pytest

from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import SUSPENDED_BY, tf_job


def test_a_clock_set_forward_does_not_shorten_the_start_timeout(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    cluster.quota = 0
    job = cluster.submit(
        tf_job("a", 1, 1, target_loss="0.12", training_mode="sync", rescale="any", min_workers="2")
    )
    harness.run_until("a", "Starting")
    cluster.day_offset = 700.0
    harness.run(30)
    assert "RollingBack" not in cluster.reasons("a")
    harness.run(40)
    assert "RollingBack" in cluster.reasons("a")
    assert not job.suspended or job.manifest["metadata"]["annotations"][SUSPENDED_BY]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_clock_set_back_does_not_lengthen_the_cooldown(
    cluster: FakeCluster, profiling: ControllerHarness, restarts: bool
) -> None:
    cluster.submit(tf_job("a", 1, 1, target_loss="0.0501", training_mode="sync", rescale="any"))
    for _ in range(300):
        profiling.run(1)
        if profiling.status("a").last_rescaled_at and profiling.status("a").phase == "Training":
            break
    cluster.day_offset = -36_000.0
    if restarts:
        profiling.restart()
    profiling.run(60)
    assert profiling.status("a").last_rescaled_at
    assert "cooldown" not in profiling.status("a").reason


def test_a_clock_set_back_does_not_stop_the_intervals(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    cluster.submit(tf_job("a", 1, 1, target_loss="0.12", training_mode="sync"))
    harness.run(5)
    planned = harness.intervals
    cluster.day_offset = -3600.0
    harness.run(60)
    assert harness.intervals > planned
