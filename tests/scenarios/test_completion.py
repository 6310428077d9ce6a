"""A job that meets its goal is notified, and ends as Succeeded by its own means."""

from dataclasses import replace

import pytest

from tests.harness.api import Json
from tests.harness.light_jobs import Kind, LightJob
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import small_job

COUNTS = (1, 2)


def a_job(kind: Kind) -> LightJob:
    """A job without an end of its own, of epochs of two steps, whose pods stay to be read."""
    job = small_job("done", COUNTS, kind)
    goal = {
        "optimus.dl/target-loss": "0.9",
        "optimus.dl/at-target": "complete",
        "optimus.dl/steps-per-epoch": "2",
    }
    short = {**job.flags, "--examples-per-epoch": "128"}
    if kind == "MXJob":
        goal["optimus.dl/steps-per-epoch"] = "4"
    annotations = {**(job.annotations or {}), **goal}
    return replace(job, annotations=annotations, flags=short, clean_pod_policy="None")


@pytest.mark.embedded
@pytest.mark.parametrize("kind", ["TFJob", "MXJob"])
def test_a_job_at_its_goal_ends_by_itself_with_at_target_complete(
    scenario: Scenario, kind: Kind
) -> None:
    job = a_job(kind)
    seen: list[str] = []
    with scenario.history(lambda pod: seen.append(goal_met_of(pod))):
        scenario.submit(job)
        scenario.wait(
            lambda: "Succeeded" in scenario.conditions(job), "the operator says Succeeded", 180
        )
    assert any(seen), "its pods were notified"
    assert "Failed" not in scenario.conditions(job)
    scenario.wait(
        lambda: "the goal is met, says " in scenario.log(f"{job.name}-worker-0"), "it says why"
    )
    scenario.wait(
        lambda: ((scenario.profile(job) or {}).get("status") or {}).get("phase") == "Completed",
        "its profile says so",
    )
    (met,) = [
        each["status"]
        for each in (scenario.profile(job) or {})["status"]["conditions"]
        if each["type"] == "GoalMet"
    ]
    assert met == "True"
    scenario.wait_events(job.name, "GoalMet")
    reasons = {event["reason"] for event in scenario.events(job.name)}
    assert not reasons & {"NotCompleted", "SuspendedAtTarget"}


def goal_met_of(pod: Json) -> str:
    """A pod's annotation."""
    annotations = pod["metadata"].get("annotations") or {}
    return str(annotations.get("optimus.dl/goal-met") or "")
