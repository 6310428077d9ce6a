"""Either process is killed, -9, in the middle of a rescale: what was begun is finished, and no
training is lost."""

from dataclasses import replace

import pytest

from tests.harness.api import Json
from tests.harness.brute_force import complaints as misplacements
from tests.harness.chronicle import Chronicle
from tests.harness.history import Change
from tests.harness.jobs import Kind, LightJob
from tests.harness.killing import Killer
from tests.harness.scene import Scene
from tests.harness.small_jobs import at, set_bounds, small_job, wait_training

BEFORE, AFTER = (1, 2), (2, 3)


def reaches(stage: Scene, chronicle: Chronicle, job: LightJob) -> None:
    """The job has reached its new counts by one rescale, was never failed, and goes on after its
    newest checkpoint."""
    wait_training(stage, chronicle, at(job, AFTER), 150)
    assert [str(each.target) for each in chronicle.rescales(job)] == [str(AFTER)], (
        chronicle.rescales(job)
    )
    stored = stage.stored(job)
    assert not stored["spec"]["runPolicy"].get("suspend")
    assert "optimus.dl/suspended-by" not in stored["metadata"]["annotations"]
    assert not chronicle.ever_failed(job)
    assert len(chronicle.logs.runs(job.name)) == 2, (
        "it was restarted more often than the rescale asks for"
    )
    assert not chronicle.training_complaints(job)


def lies_evenly(stage: Scene, job: LightJob) -> None:
    """Its PSs and workers lie as the oracle wants; its scheduler may have been bound before the
    plan was lost."""
    demand = replace(job.demand(), fixed={})
    resized = {
        node: {role: count for role, count in roles.items() if role != "scheduler"}
        for node, roles in stage.placement(job).items()
    }
    assert not misplacements(demand, stage.free_room_without(job), resized)


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("kind", "phase"),
    [
        pytest.param("TFJob", "Suspending", id="while a TFJob is suspended"),
        pytest.param("MXJob", "Resizing", id="while an MXJob has no pod"),
        pytest.param("TFJob", "Starting", id="while a TFJob starts at its new counts"),
    ],
)
def test_the_autoscaler_killed_in_the_middle_of_a_rescale_goes_on_with_it(
    stage: Scene, kind: Kind, phase: str
) -> None:
    job = small_job("victim", BEFORE, kind)
    killer = Killer(stage, "autoscaler")

    def on_profile(profile: Json) -> None:
        if (profile.get("status") or {}).get("phase") == phase:
            killer.kill_once()

    with Chronicle(stage, on_profile) as chronicle:
        stage.submit(job)
        wait_training(stage, chronicle, job)
        set_bounds(stage, job, AFTER)
        stage.wait(
            lambda: killer.has_killed, f"the autoscaler was killed while the job was {phase}"
        )
        killer.wait_restarted()
        reaches(stage, chronicle, job)


@pytest.mark.timeout(400)
def test_the_extender_killed_while_a_rescaled_gang_is_bound_leaves_it_whole(stage: Scene) -> None:
    job = small_job("victim", BEFORE, "MXJob")
    killer = Killer(stage, "extender")

    with Chronicle(stage) as chronicle:
        stage.submit(job)
        wait_training(stage, chronicle, job)
        before = {pod["metadata"]["uid"] for pod in stage.pods(job)}

        def on_pod(change: Change) -> None:
            if change.pod["metadata"]["uid"] not in before and change.pod["spec"].get("nodeName"):
                killer.kill_once()

        with stage.history(on_pod):
            set_bounds(stage, job, AFTER)
            stage.wait(
                lambda: killer.has_killed,
                "the extender was killed when a pod of the rescaled job was bound",
            )
        killer.wait_restarted()
        reaches(stage, chronicle, job)
        lies_evenly(stage, at(job, AFTER))
