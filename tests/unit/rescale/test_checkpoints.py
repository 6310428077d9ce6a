"""When a rescale waits for a checkpoint, and for how long."""

import math

import pytest

from optimus.jobs import RescaleRule
from optimus.rescale.checkpoints import (
    FRESH_CHECKPOINT_SECONDS,
    SEEN_CHECKPOINT_SECONDS,
    awaits_next_checkpoint,
    is_fresh_checkpoint,
    longest_checkpoint_wait,
    must_wait_for_checkpoint,
)
from optimus.rescale.purpose import RescalePurpose

WAITING = {
    RescalePurpose.TURN,
    RescalePurpose.INTERVAL,
    RescalePurpose.EXPLORATION,
    RescalePurpose.STRAGGLER,
    RescalePurpose.RECOVERY,
}


@pytest.mark.parametrize("purpose", RescalePurpose)
def test_a_young_job_waits_where_more_than_a_profiling_run_may_be_lost(
    purpose: RescalePurpose,
) -> None:
    waits = must_wait_for_checkpoint(RescaleRule.CHECKPOINT, purpose, may_lose=True, is_old=False)
    assert waits == (purpose in WAITING)


@pytest.mark.parametrize("purpose", RescalePurpose)
def test_an_old_job_waits_but_for_a_restart(purpose: RescalePurpose) -> None:
    waits = must_wait_for_checkpoint(RescaleRule.CHECKPOINT, purpose, may_lose=True, is_old=True)
    assert waits == (purpose is not RescalePurpose.RESTART)


@pytest.mark.parametrize("rule", [RescaleRule.ANY, RescaleRule.NEVER])
def test_a_job_that_asks_for_no_checkpoint_waits_for_none(rule: RescaleRule) -> None:
    assert not must_wait_for_checkpoint(rule, RescalePurpose.INTERVAL, may_lose=True, is_old=True)


def test_a_job_that_does_not_train_has_nothing_to_lose() -> None:
    purpose = RescalePurpose.INTERVAL
    assert not must_wait_for_checkpoint(
        RescaleRule.CHECKPOINT, purpose, may_lose=False, is_old=True
    )


def test_a_checkpoint_is_fresh_for_a_few_reads_of_the_log() -> None:
    assert is_fresh_checkpoint(100.0, 100.0 + FRESH_CHECKPOINT_SECONDS)
    assert not is_fresh_checkpoint(100.0, 100.1 + FRESH_CHECKPOINT_SECONDS)
    assert not is_fresh_checkpoint(-math.inf, 0.0)


def test_a_job_that_missed_one_wait_gets_a_short_one_and_only_after_a_checkpoint() -> None:
    assert longest_checkpoint_wait(1800.0, missed=False) == 1800.0
    assert longest_checkpoint_wait(1800.0, missed=True) == SEEN_CHECKPOINT_SECONDS
    assert awaits_next_checkpoint(None, 1000.0)
    assert not awaits_next_checkpoint(1000.0 - SEEN_CHECKPOINT_SECONDS, 1000.0)
    assert awaits_next_checkpoint(1000.0 - SEEN_CHECKPOINT_SECONDS - 1, 1000.0)
    assert not awaits_next_checkpoint(
        1000.0 - SEEN_CHECKPOINT_SECONDS - 1, 1000.0, read_interval_seconds=60.0
    )


@pytest.mark.parametrize(("seconds", "awaits"), [(300.0, False), (301.0, True)])
def test_a_checkpoint_counts_for_as_long_as_three_reads_of_the_log(
    seconds: float, awaits: bool
) -> None:
    found = awaits_next_checkpoint(1000.0, 1000.0 + seconds, read_interval_seconds=100.0)
    assert found is awaits
