"""MXNet and TensorFlow jobs train for real through a rescale that their users' bounds ask for."""

from statistics import fmean

import pytest

from tests.e2e.frameworks.framework_jobs import FrameworkJob
from tests.e2e.frameworks.rescale_run import RescaleRun
from tests.harness.api import Json

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]  # the first test waits for the whole run

SPREAD_OF = 20

FIRST = 6
"""Steps whose mean loss is compared: the loss of a single one is noisy."""


def test_it_trains_on_at_the_counts_that_its_user_asked_for(
    job: FrameworkJob, run: RescaleRun
) -> None:
    assert run.placed == job.after
    assert (run.profile_before["ps"], run.profile_before["workers"]) == job.before
    assert (run.profile_after["ps"], run.profile_after["workers"]) == job.after
    assert run.profile["rescales"] == 1
    messages = [
        event["message"] for event in run.events if event["reason"] in ("Rescaling", "Rescaled")
    ]
    assert all(f"{job.before} -> {job.after}" in message for message in messages), messages
    assert len(messages) == 2


def test_the_first_step_after_the_rescale_is_the_one_after_the_checkpoint(
    job: FrameworkJob, run: RescaleRun
) -> None:
    assert run.after[0].steps[0].step == run.checkpoint + 1
    # Nothing is left out, and no step of the checkpoint is trained again by anybody.
    assert list(run.losses_after) == list(range(run.checkpoint + 1, job.steps + 1))


def test_the_loss_goes_on_where_the_checkpoint_left_it(run: RescaleRun) -> None:
    before, after = run.losses_before, run.losses_after
    last = [loss for step, loss in before.items() if step <= run.checkpoint][-SPREAD_OF:]
    first = fmean([loss for step, loss in after.items() if step <= run.checkpoint + FIRST])
    fresh = fmean([before[step] for step in sorted(before)[:FIRST]])
    assert len(last) == SPREAD_OF
    assert min(last) <= first <= max(last), f"{first:.3f} after {last}"
    assert first < fresh


def test_it_ends_without_ever_having_failed(run: RescaleRun) -> None:
    # Failed is never taken back, so that the end speaks for all the time before.
    assert "Succeeded" in run.conditions
    assert "Failed" not in run.conditions
    assert run.profile["phase"] == "Completed"
    assert run.profile["checkpointStep"] in run.after[0].checkpoints
    warnings = [
        event["message"]
        for event in run.events
        if event["type"] == "Warning" and _is_of_optimus(event) and not _is_of_slow_saves(event)
    ]
    assert not warnings


def _is_of_slow_saves(event: Json) -> bool:
    """With intervals of 5 s it is said that no checkpoint came for 10 s: on a busy machine, an
    epoch takes as long."""
    return bool(event["reason"] == "WaitingForCheckpoint")


def _is_of_optimus(event: Json) -> bool:
    return bool(event["reportingComponent"] == "optimus-autoscaler")
