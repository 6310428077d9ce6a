"""A clock that is set forward or back while jobs train."""

import pytest

from tests.unit.autoscaler.mayor import ControllerHarness
from tests.unit.autoscaler.town import FakeCluster
from tests.unit.autoscaler.trainee import SUSPENDED_BY, tf_job


def test_a_clock_that_is_set_forward_gives_pods_the_time_that_they_have(
    town: FakeCluster, mayor: ControllerHarness
) -> None:
    town.quota = 0
    job = town.submit(
        tf_job("a", 1, 1, target_loss="0.12", training_mode="sync", rescale="any", min_workers="2")
    )
    mayor.rule_until("a", "Starting")
    town.day_offset = 700.0
    mayor.rule(30)
    assert "RollingBack" not in town.reasons("a")
    mayor.rule(40)
    assert "RollingBack" in town.reasons("a")
    assert not job.suspended or job.manifest["metadata"]["annotations"][SUSPENDED_BY]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_clock_that_is_set_back_keeps_no_job_in_peace_for_long(
    town: FakeCluster, mayor: ControllerHarness, restarts: bool
) -> None:
    town.submit(tf_job("a", 1, 1, target_loss="0.0501", training_mode="sync", rescale="any"))
    for _ in range(300):
        mayor.rule(1)
        if mayor.status("a").rescales and mayor.status("a").phase == "Training":
            break
    town.day_offset = -36_000.0
    if restarts:
        mayor.restart()
    mayor.rule(60)
    assert mayor.status("a").rescales
    assert "left in peace" not in mayor.status("a").reason


def test_a_clock_that_is_set_back_does_not_stop_the_intervals(
    town: FakeCluster, mayor: ControllerHarness
) -> None:
    town.submit(tf_job("a", 1, 1, target_loss="0.12", training_mode="sync"))
    mayor.rule(5)
    planned = mayor.intervals
    town.day_offset = -3600.0
    mayor.rule(60)
    assert mayor.intervals > planned
