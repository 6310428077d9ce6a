"""Pods that no training job controls, and jobs without annotations."""

from tests.harness.api import CORE
from tests.harness.brute_force import violations
from tests.harness.light_jobs import LightJob, plain_pod
from tests.harness.scenario import Scenario


def test_a_pod_without_a_training_job_is_scheduled(scenario: Scenario) -> None:
    scenario.create(
        CORE,
        "pods",
        plain_pod("passer", scenario.namespace, "1", schedulerName="optimus-scheduler"),
    )
    scenario.wait(
        lambda: scenario.pod("passer")["status"].get("phase") == "Running", "the plain pod runs"
    )
    assert not scenario.events_of_type("passer", "Warning")


def test_a_job_without_annotations_is_gang_scheduled_completes_and_is_not_rescaled(
    scenario: Scenario,
) -> None:
    job = LightJob("TFJob", "bare", 2, 3, flags={"--epochs": "3"})
    free = scenario.free_resources(job)
    scenario.submit(job)
    observed = scenario.wait_bound(job)
    assert not violations(job.demand(), free, observed)
    scenario.wait(lambda: "Succeeded" in scenario.conditions(job), "the job has succeeded")
    stored = scenario.stored(job)
    assert stored["metadata"]["generation"] == 1, "its spec was written again"
    assert "optimus.dl/suspended-by" not in (stored["metadata"].get("annotations") or {})
    steps = [record.step for record in scenario.training_log("bare-worker-0")]
    assert steps == sorted(steps)
    assert steps[-1] == 3 * 20
