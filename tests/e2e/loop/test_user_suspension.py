"""A user's own suspension stays until the user ends it, also when it comes in the middle of a
rescale."""

import pytest

from tests.harness.api import CORE, Json, in_namespace
from tests.harness.job_recorder import JobRecorder
from tests.harness.light_jobs import LightJob
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import at, set_bounds, small_job, wait_training

pytestmark = pytest.mark.timeout(600)

BEFORE, AFTER = (1, 2), (1, 3)
MARK = "optimus.dl/suspended-by"
AN_INTERVAL_SECONDS = 7.0


def is_suspended(scenario: Scenario, job: LightJob) -> bool:
    return bool(scenario.stored(job)["spec"]["runPolicy"].get("suspend"))


def suspend(scenario: Scenario, job: LightJob, suspended: bool = True) -> None:
    scenario.api.patch(scenario.path(job), {"spec": {"runPolicy": {"suspend": suspended}}})


def hold_pod(scenario: Scenario, name: str, held: bool) -> None:
    """Keep a pod's object after its containers have ended, or let it go."""
    path = in_namespace(CORE, scenario.namespace, "pods", name)
    finalizers = ["optimus.test/held"] if held else None
    scenario.api.patch(path, {"metadata": {"finalizers": finalizers}})


def stays_suspended(scenario: Scenario, recorder: JobRecorder, job: LightJob) -> None:
    """It is suspended without our annotation, and in the next interval nothing is done to it."""
    scenario.wait(lambda: not scenario.pods(job), "its pods are gone")
    scenario.wait(
        lambda: recorder.phase(job) == "Suspended", "its profile says that it is suspended"
    )
    version = scenario.stored(job)["metadata"]["generation"]
    scenario.holds(lambda: is_suspended(scenario, job), "it stays suspended", AN_INTERVAL_SECONDS)
    assert scenario.stored(job)["metadata"]["generation"] == version
    assert MARK not in scenario.stored(job)["metadata"]["annotations"]
    assert not scenario.pods(job)
    assert not recorder.ever_failed(job)


def test_a_suspension_that_its_user_takes_over_in_the_middle_of_a_rescale_stays(
    scenario: Scenario,
) -> None:
    job = small_job("resting", BEFORE)
    taken: list[str] = []

    def take_over(profile: Json) -> None:
        rescale = (profile.get("status") or {}).get("rescale") or {}
        if rescale.get("step") == "empty" and not taken:
            mark = scenario.stored(job)["metadata"]["annotations"][MARK]
            assert mark.split()[0] == rescale["id"]
            scenario.api.patch(scenario.path(job), {"metadata": {"annotations": {MARK: None}}})
            taken.append(rescale["id"])

    with JobRecorder(scenario, on_profile=take_over) as recorder:
        scenario.submit(job)
        wait_training(scenario, recorder, job)
        # While a pod is left, the rescale waits for it: the user comes in time.
        hold_pod(scenario, "resting-worker-0", True)
        set_bounds(scenario, job, AFTER)
        scenario.wait(
            lambda: taken,
            "the rescale has suspended it, and its user has made that suspension its own",
        )
        hold_pod(scenario, "resting-worker-0", False)
        stays_suspended(scenario, recorder, job)
        (rescale,) = recorder.rescales(job)
        assert rescale.id == taken[0]
        assert rescale.phases[-1] == "Suspending"
        messages = scenario.wait_events(job.name, "RescaleEnded")
        assert messages["RescaleEnded"] == ["its user took over the suspension"]
        suspend(scenario, job, suspended=False)
        wait_training(scenario, recorder, at(job, AFTER))
        assert not recorder.training_violations(job)
