"""A job's own activeDeadlineSeconds holds over a rescale, which restarts its count."""

import secrets
from datetime import UTC, datetime

from tests.harness.api import KUBEFLOW, PLURALS
from tests.harness.job_recorder import JobRecorder
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import at, set_bounds, small_job, wait_training

BEFORE, AFTER = (1, 2), (1, 3)
DEADLINE = 300


def instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_active_seconds_are_carried_over_a_rescale(scenario: Scenario) -> None:
    job = small_job("limited", BEFORE)
    body = job.manifest(scenario.namespace)
    body["spec"].setdefault("runPolicy", {})["activeDeadlineSeconds"] = DEADLINE
    with JobRecorder(scenario) as recorder:
        scenario.create(KUBEFLOW, PLURALS["TFJob"], body)
        wait_training(scenario, recorder, job)
        began = instant(scenario.stored(job)["status"]["startTime"])
        set_bounds(scenario, job, AFTER)
        wait_training(scenario, recorder, at(job, AFTER))
    stored = scenario.stored(job)
    left = stored["spec"]["runPolicy"]["activeDeadlineSeconds"]
    assert left < DEADLINE
    resumed = instant(stored["status"]["startTime"])
    assert DEADLINE - left <= resumed - began + 1
    # The rest of the deadline is long, so that a busy machine trains within it: its user cuts it.
    soon = int(datetime.now(UTC).timestamp() - resumed) + 10
    policy = {"runPolicy": {"activeDeadlineSeconds": soon}}
    scenario.api.patch(scenario.path(job), {"spec": policy})

    def is_failed() -> bool:
        # The operator looks at the deadline only when something happens to the job.
        touched = {"metadata": {"annotations": {"tests/touched": secrets.token_hex(4)}}}
        scenario.api.patch(scenario.path(job), touched)
        return "Failed" in scenario.conditions(job)

    scenario.wait(is_failed, "the operator ends it at its deadline")
    (failed,) = [
        each for each in scenario.stored(job)["status"]["conditions"] if each["type"] == "Failed"
    ]
    assert soon - 1 <= instant(failed["lastTransitionTime"]) - resumed < DEADLINE
