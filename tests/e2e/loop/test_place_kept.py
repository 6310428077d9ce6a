"""A job in the middle of a rescale keeps its place: room that it has only left for a moment is
nobody else's."""

import pytest

from tests.harness.api import Json
from tests.harness.brute_force import complaints
from tests.harness.chronicle import Chronicle
from tests.harness.jobs import SLEEP, LightJob
from tests.harness.killing import Killer
from tests.harness.scene import Scene
from tests.harness.small_jobs import at, set_bounds, small_job, wait_training

BEFORE, AFTER = (1, 2), (2, 4)
# Two nodes of four CPUs. The rescaled job takes 3 of them before and 6 afterwards, the waiting one
# wants 6.
LARGE = {"cpu": "1", "memory": "64Mi"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "killed_in",
    [
        pytest.param("", id="undisturbed"),
        pytest.param("Suspending", id="the extender is killed while the job is suspended"),
        pytest.param("Resizing", id="the extender is killed while the job has no pod"),
    ],
)
def test_a_rescaled_job_gets_its_room_back_while_another_waits_for_it(
    stage: Scene, killed_in: str
) -> None:
    job = small_job("rescaled", BEFORE, requests={"PS": LARGE, "Worker": LARGE})
    waiting = LightJob(
        "TFJob", "waiting", 2, 4, requests={"PS": LARGE, "Worker": LARGE}, script=SLEEP
    )
    killer = Killer(stage, "extender")

    def on_profile(profile: Json) -> None:
        if killed_in and (profile.get("status") or {}).get("phase") == killed_in:
            killer.kill_once()

    with Chronicle(stage, on_profile) as chronicle, stage.history() as history:
        stage.submit(job)
        wait_training(stage, chronicle, job)
        stage.submit(waiting)
        stage.wait_refused(waiting, "does not fit as a whole")
        set_bounds(stage, job, AFTER)
        grown = at(job, AFTER)
        wait_training(stage, chronicle, grown)
        assert killer.has_killed == bool(killed_in)
        assert not history.ever(lambda bound: "waiting" in bound), (
            "the waiting job got room in the middle"
        )
        assert history.ever(lambda bound: not bound), (
            "the nodes were empty in between: the waiting job would have fitted"
        )
        (rescale,) = chronicle.rescales(job)
        assert rescale.phases[-3:] == ["Suspending", "Resizing", "Starting"]
        assert not complaints(
            grown.demand(), stage.free_room_without(grown), stage.placement(grown)
        )
        assert not chronicle.training_complaints(job)
        assert not stage.bound(waiting)
        stage.delete(job)
        stage.wait_bound(waiting)
