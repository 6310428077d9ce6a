"""Either process is killed, -9, in the middle of a rescale: what was begun is finished, and no
training is lost."""

from dataclasses import replace

import pytest

from tests.harness.api import Json
from tests.harness.brute_force import violations as misplacements
from tests.harness.job_recorder import JobRecorder
from tests.harness.light_jobs import Kind, LightJob
from tests.harness.process_killer import ProcessKiller
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import at, set_bounds, small_job, wait_training

BEFORE, AFTER = (1, 2), (2, 3)


def reaches(scenario: Scenario, recorder: JobRecorder, job: LightJob) -> None:
    """The job has reached its new counts by one rescale, was never failed, and continues after its
    newest checkpoint."""
    wait_training(scenario, recorder, at(job, AFTER), 150)
    assert [str(each.target) for each in recorder.rescales(job)] == [str(AFTER)], recorder.rescales(
        job
    )
    stored = scenario.stored(job)
    assert not stored["spec"]["runPolicy"].get("suspend")
    assert "optimus.dl/suspended-by" not in stored["metadata"]["annotations"]
    assert not recorder.ever_failed(job)
    assert len(recorder.logs.runs(job.name)) == 2, (
        "it was restarted more often than the rescale requests_of for"
    )
    assert not recorder.training_violations(job)


def is_placed_evenly(scenario: Scenario, job: LightJob) -> None:
    """Its PSs and workers are; its scheduler may have been bound before the plan was lost."""
    demand = replace(job.demand(), fixed={})
    resized = {
        node: {role: count for role, count in roles.items() if role != "scheduler"}
        for node, roles in scenario.placement(job).items()
    }
    assert not misplacements(demand, scenario.free_resources_without(job), resized)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kind", "phase"),
    [
        pytest.param("TFJob", "Suspending", id="while a TFJob is suspended"),
        pytest.param("MXJob", "Resizing", id="while an MXJob has no pod"),
        pytest.param("TFJob", "Starting", id="while a TFJob starts at its new counts"),
    ],
)
def test_an_autoscaler_killed_during_a_rescale_continues_it(
    scenario: Scenario, kind: Kind, phase: str
) -> None:
    job = small_job("victim", BEFORE, kind)
    killer = ProcessKiller(scenario, "autoscaler")

    def on_profile(profile: Json) -> None:
        if (profile.get("status") or {}).get("phase") == phase:
            killer.kill_once()

    with JobRecorder(scenario, on_profile) as recorder:
        scenario.submit(job)
        wait_training(scenario, recorder, job)
        set_bounds(scenario, job, AFTER)
        scenario.wait(
            lambda: killer.has_killed, f"the autoscaler was killed while the job was {phase}"
        )
        killer.wait_restarted()
        reaches(scenario, recorder, job)


@pytest.mark.timeout(600)
def test_the_extender_killed_while_a_rescaled_gang_is_bound_leaves_it_whole(
    scenario: Scenario,
) -> None:
    job = small_job("victim", BEFORE, "MXJob")
    killer = ProcessKiller(scenario, "extender")

    with JobRecorder(scenario) as recorder:
        scenario.submit(job)
        wait_training(scenario, recorder, job)
        before = {pod["metadata"]["uid"] for pod in scenario.pods(job)}

        def on_pod(pod: Json) -> None:
            if pod["metadata"]["uid"] not in before and pod["spec"].get("nodeName"):
                killer.kill_once()

        with scenario.history(on_pod):
            set_bounds(scenario, job, AFTER)
            scenario.wait(
                lambda: killer.has_killed,
                "the extender was killed when a pod of the rescaled job was bound",
            )
        killer.wait_restarted()
        reaches(scenario, recorder, job)
        is_placed_evenly(scenario, at(job, AFTER))
