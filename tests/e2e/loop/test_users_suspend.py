"""A user's own suspension stays until the user ends it, also when it comes in the middle of a
rescale."""

import pytest

from tests.harness.api import Json
from tests.harness.chronicle import Chronicle
from tests.harness.jobs import LightJob
from tests.harness.scene import Scene
from tests.harness.small_jobs import at, set_bounds, small_job, wait_training

pytestmark = pytest.mark.timeout(300)

BEFORE, AFTER = (1, 2), (1, 3)
MARK = "optimus.dl/suspended-by"
AN_INTERVAL_SECONDS = 7.0


def is_suspended(stage: Scene, job: LightJob) -> bool:
    return bool(stage.stored(job)["spec"]["runPolicy"].get("suspend"))


def suspend(stage: Scene, job: LightJob, suspended: bool = True) -> None:
    stage.api.patch(stage.path(job), {"spec": {"runPolicy": {"suspend": suspended}}})


def stays_suspended(stage: Scene, chronicle: Chronicle, job: LightJob) -> None:
    """It is suspended under nobody's mark, and in the next interval nothing is done to it."""
    stage.wait(lambda: not stage.pods(job), "its pods are gone")
    stage.wait(lambda: chronicle.phase(job) == "Suspended", "its profile says that it is suspended")
    version = stage.stored(job)["metadata"]["generation"]
    stage.holds(lambda: is_suspended(stage, job), "it stays suspended", AN_INTERVAL_SECONDS)
    assert stage.stored(job)["metadata"]["generation"] == version
    assert MARK not in stage.stored(job)["metadata"]["annotations"]
    assert not stage.pods(job)
    assert not chronicle.ever_failed(job)


def test_a_job_that_its_user_suspends_is_left_suspended_and_goes_on_when_its_user_says_so(
    stage: Scene,
) -> None:
    job = small_job("resting", BEFORE)
    with Chronicle(stage) as chronicle:
        stage.submit(job)
        wait_training(stage, chronicle, job)
        suspend(stage, job)
        stays_suspended(stage, chronicle, job)
        suspend(stage, job, suspended=False)
        wait_training(stage, chronicle, job)
        assert not chronicle.rescales(job)
        assert not chronicle.training_complaints(job)


def test_a_suspension_that_its_user_takes_over_in_the_middle_of_a_rescale_stays(
    stage: Scene,
) -> None:
    job = small_job("resting", BEFORE)
    taken: list[str] = []

    def take_over(profile: Json) -> None:
        rescale = (profile.get("status") or {}).get("rescale") or {}
        if rescale.get("step") == "empty" and not taken:
            taken.append(rescale["id"])
            assert stage.stored(job)["metadata"]["annotations"][MARK] == rescale["id"]
            stage.api.patch(stage.path(job), {"metadata": {"annotations": {MARK: None}}})

    with Chronicle(stage, on_profile=take_over) as chronicle:
        stage.submit(job)
        wait_training(stage, chronicle, job)
        set_bounds(stage, job, AFTER)
        stage.wait(
            lambda: taken,
            "the rescale has suspended it, and its user has made that suspension its own",
        )
        stays_suspended(stage, chronicle, job)
        (rescale,) = chronicle.rescales(job)
        assert rescale.id == taken[0]
        assert rescale.phases[-1] == "Suspending"
        told = [
            event["message"]
            for event in stage.events(job.name)
            if event["reason"] == "RescaleEnded"
        ]
        assert told == ["its user made the suspension its own"]
        suspend(stage, job, suspended=False)
        wait_training(stage, chronicle, at(job, AFTER))
        assert not chronicle.training_complaints(job)


def test_a_suspension_while_a_rescaled_job_starts_stays(stage: Scene) -> None:
    job = small_job("resting", BEFORE, "MXJob")
    suspended: list[str] = []

    def suspend_once(profile: Json) -> None:
        if (profile.get("status") or {}).get("phase") == "Starting" and not suspended:
            suspended.append(profile["metadata"]["name"])
            suspend(stage, job)

    with Chronicle(stage, on_profile=suspend_once) as chronicle:
        stage.submit(job)
        wait_training(stage, chronicle, job)
        set_bounds(stage, job, AFTER)
        stage.wait(
            lambda: suspended, "its user has suspended it while it was started at its new counts"
        )
        stays_suspended(stage, chronicle, job)
        assert [each.phases[-1] for each in chronicle.rescales(job)] == ["Starting"]
        suspend(stage, job, suspended=False)
        wait_training(stage, chronicle, at(job, AFTER))
        assert not chronicle.training_complaints(job)
