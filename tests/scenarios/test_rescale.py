"""The autoscaler moves a job to other counts by way of its checkpoint, and suspends one that has
reached its goal."""

from dataclasses import replace

import pytest

from tests.harness.api import Json
from tests.harness.brute_force import violations
from tests.harness.job_recorder import JobRecorder
from tests.harness.light_jobs import Kind, LightJob
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import at, set_bounds, small_job, wait_training

BEFORE, AFTER = (1, 2), (2, 3)


@pytest.mark.embedded
@pytest.mark.parametrize("kind", ["TFJob", "MXJob"])
def test_a_job_whose_bounds_change_is_rescaled_and_resumes_from_its_checkpoint(
    scenario: Scenario, kind: Kind
) -> None:
    job = small_job("moved", BEFORE, kind)
    grown = at(job, AFTER)
    with JobRecorder(scenario) as recorder:
        scenario.submit(job)
        wait_training(scenario, recorder, job)
        set_bounds(scenario, job, AFTER)
        wait_training(scenario, recorder, grown)
        (rescale,) = recorder.rescales(job)
        assert (rescale.before, rescale.target) == (BEFORE, AFTER)
        assert rescale.phases[-3:] == ["Suspending", "Resizing", "Starting"]
        assert not recorder.ever_failed(job)
        assert len(recorder.logs.runs(job.name)) == 2, "it was begun again once"
        assert not recorder.training_violations(job)
    assert not violations(
        grown.demand(), scenario.free_resources_without(grown), scenario.placement(grown)
    )
    for messages in scenario.wait_events(job.name, "Rescaling", "Rescaled").values():
        assert any("2 PS + 3 workers" in sentence for sentence in messages), messages


def test_a_job_at_its_goal_is_suspended_with_at_target_suspend(
    scenario: Scenario,
) -> None:
    job = small_job("done", BEFORE)
    goal = {
        "optimus.dl/target-loss": "0.9",
        "optimus.dl/at-target": "suspend",
        "optimus.dl/steps-per-epoch": "2",
    }
    short = {**job.flags, "--examples-per-epoch": "128"}
    job = replace(job, annotations={**(job.annotations or {}), **goal}, flags=short)
    scenario.submit(job)
    scenario.wait(
        lambda: scenario.stored(job)["spec"]["runPolicy"].get("suspend"), "it is suspended"
    )
    scenario.wait(lambda: not scenario.pods(job), "its pods are gone")
    scenario.wait(
        lambda: status_of(scenario, job).get("phase") == "Suspended", "its profile says so"
    )
    assert status_of(scenario, job)["progressPercent"] == 100
    assert "Failed" not in scenario.conditions(job)


def status_of(scenario: Scenario, job: LightJob) -> Json:
    """The status of the job's profile, {} before there is one."""
    return (scenario.profile(job) or {}).get("status") or {}
