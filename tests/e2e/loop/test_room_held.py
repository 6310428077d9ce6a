"""A job that is being rescaled keeps the room it has left for a moment."""

import pytest

from tests.harness.api import Json
from tests.harness.brute_force import violations
from tests.harness.job_recorder import JobRecorder
from tests.harness.light_jobs import SLEEP, LightJob
from tests.harness.process_killer import ProcessKiller
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import at, set_bounds, small_job, wait_training

BEFORE, AFTER = (1, 2), (2, 4)
# Two nodes of four CPUs. The rescaled job takes 3 of them before and 6 afterwards, the waiting one
# wants 6.
LARGE = {"cpu": "1", "memory": "64Mi"}


@pytest.mark.timeout(600)
def test_a_rescaled_job_gets_its_room_back_though_the_extender_is_killed_and_another_waits(
    scenario: Scenario,
) -> None:
    job = small_job("rescaled", BEFORE, requests={"PS": LARGE, "Worker": LARGE})
    waiting = LightJob(
        "TFJob", "waiting", 2, 4, requests={"PS": LARGE, "Worker": LARGE}, script=SLEEP
    )
    killer = ProcessKiller(scenario, "extender")

    def on_profile(profile: Json) -> None:
        if (profile.get("status") or {}).get("phase") == "Resizing":
            killer.kill_once()

    with JobRecorder(scenario, on_profile) as recorder, scenario.history() as history:
        scenario.submit(job)
        wait_training(scenario, recorder, job)
        scenario.submit(waiting)
        scenario.wait_refused(waiting, "does not fit as a whole")
        set_bounds(scenario, job, AFTER)
        grown = at(job, AFTER)
        wait_training(scenario, recorder, grown)
        history.catch_up()
        assert killer.has_killed
        assert not history.ever(lambda bound: "waiting" in bound), (
            "the waiting job got room in the middle"
        )
        assert history.ever(lambda bound: not bound), (
            "the nodes were empty in between: the waiting job would have fitted"
        )
        (rescale,) = recorder.rescales(job)
        assert rescale.phases[-3:] == ["Suspending", "Resizing", "Starting"]
        assert not violations(
            grown.demand(), scenario.free_resources_without(grown), scenario.placement(grown)
        )
        assert not recorder.training_violations(job)
        assert not scenario.bound(waiting)
        scenario.delete(job)
        scenario.wait_bound(waiting)
