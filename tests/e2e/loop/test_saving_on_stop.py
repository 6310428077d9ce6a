"""A job that saves when it is stopped is moved without a checkpoint, and no step is lost."""

from dataclasses import replace

import pytest

from tests.harness.job_recorder import JobRecorder
from tests.harness.light_jobs import LightJob
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import at, set_bounds, small_job

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

BEFORE, AFTER = (1, 2), (1, 3)
STEPS = 20


def rare_saver() -> LightJob:
    """A job that saves once an hour, and when it is stopped; moved after a checkpoint only."""
    job = small_job("saver", BEFORE)
    own = {**(job.annotations or {}), "optimus.dl/rescale": "checkpoint"}
    annotations = {**own, "optimus.dl/saves-on-stop": "true"}
    return replace(
        job, annotations=annotations, flags={**job.flags, "--checkpoint-seconds": "3600"}
    )


def steps(recorder: JobRecorder, scenario: Scenario, job: LightJob) -> list[int]:
    """The steps that the pods of the job have printed with a loss."""
    printed = recorder.logs.steps_of_present(scenario.pods(job))
    return [each.step for each in printed if each.loss is not None]


def test_it_goes_on_where_it_was_stopped(scenario: Scenario) -> None:
    job, moved = rare_saver(), at(rare_saver(), AFTER)
    with JobRecorder(scenario) as recorder:
        scenario.submit(job)
        trains = "it trains at its counts"
        scenario.wait(lambda: max(steps(recorder, scenario, job), default=0) > STEPS, trains)
        set_bounds(scenario, job, AFTER)
        quiet = "it trains at three workers"
        scenario.wait(lambda: recorder.is_quiet_at(job, AFTER), quiet)
        scenario.wait(lambda: bool(steps(recorder, scenario, moved)), quiet)
        assert min(steps(recorder, scenario, moved)) > STEPS
        assert not recorder.training_violations(job)
        reasons = [event["reason"] for event in scenario.events(job.name)]
        assert not {"DidNotSave", "WaitingForCheckpoint", "StopsSlowly"} & set(reasons)
