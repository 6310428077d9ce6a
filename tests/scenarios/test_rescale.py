"""The autoscaler moves a job to other counts by way of its checkpoint, and suspends one that has
reached its goal."""

from dataclasses import replace

import pytest

from tests.harness.api import Json
from tests.harness.brute_force import complaints
from tests.harness.chronicle import Chronicle
from tests.harness.jobs import Kind, LightJob
from tests.harness.scene import Scene
from tests.harness.small_jobs import at, set_bounds, small_job, wait_training

BEFORE, AFTER = (1, 2), (2, 3)


@pytest.mark.parametrize("kind", ["TFJob", pytest.param("MXJob", marks=pytest.mark.slow)])
def test_a_job_whose_bounds_are_moved_trains_on_at_the_new_counts(stage: Scene, kind: Kind) -> None:
    job = small_job("moved", BEFORE, kind)
    grown = at(job, AFTER)
    with Chronicle(stage) as chronicle:
        stage.submit(job)
        wait_training(stage, chronicle, job)
        set_bounds(stage, job, AFTER)
        wait_training(stage, chronicle, grown)
        (rescale,) = chronicle.rescales(job)
        assert (rescale.before, rescale.target) == (BEFORE, AFTER)
        assert rescale.phases[-3:] == ["Suspending", "Resizing", "Starting"]
        assert not chronicle.ever_failed(job)
        assert len(chronicle.logs.runs(job.name)) == 2, "it was begun again once"
        assert not chronicle.training_complaints(job)
    assert not complaints(grown.demand(), stage.free_room_without(grown), stage.placement(grown))
    said = [event["message"] for event in stage.events_of_type(job.name, "Normal")]
    assert any("2 PS + 3 workers" in sentence for sentence in said), said


def test_a_job_that_has_reached_its_goal_is_suspended_where_its_user_asked_for_that(
    stage: Scene,
) -> None:
    job = small_job("done", BEFORE)
    goal = {
        "optimus.dl/target-loss": "0.9",
        "optimus.dl/at-target": "suspend",
        "optimus.dl/steps-per-epoch": "2",
    }
    short = {**job.flags, "--examples-per-epoch": "128"}
    job = replace(job, annotations={**(job.annotations or {}), **goal}, flags=short)
    stage.submit(job)
    stage.wait(lambda: stage.stored(job)["spec"]["runPolicy"].get("suspend"), "it is suspended")
    stage.wait(lambda: not stage.pods(job), "its pods are gone")
    stage.wait(lambda: told(stage, job).get("phase") == "Suspended", "its profile says so")
    assert told(stage, job)["progressPercent"] == 100
    assert "Failed" not in stage.conditions(job)


def told(stage: Scene, job: LightJob) -> Json:
    """What the job's profile says; nothing while there is none."""
    return (stage.profile(job) or {}).get("status") or {}
