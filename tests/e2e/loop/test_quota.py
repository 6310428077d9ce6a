"""A ResourceQuota of the API server limits what the autoscaler asks for."""

from typing import Any

import pytest

from tests.harness.api import CORE, Json, in_namespace
from tests.harness.job_recorder import JobRecorder
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import at, set_bounds, small_job, wait_training

BEFORE, AFTER = (1, 2), (2, 4)
# Of 200m for each pod: 600m before, 1200m afterwards.
TOO_LITTLE, ENOUGH = "1", "2"


def quota(cpu: str) -> Json:
    """A quota on requested CPU; the memory of the pods is not limited."""
    spec: dict[str, Any] = {"hard": {"requests.cpu": cpu}}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "compute"},
        "spec": spec,
    }


@pytest.mark.timeout(600)
def test_no_job_is_stopped_for_counts_beyond_the_quota_and_it_grows_once_that_is_raised(
    scenario: Scenario,
) -> None:
    job = small_job("limited", BEFORE)
    path = in_namespace(CORE, scenario.namespace, "resourcequotas", "compute")
    with JobRecorder(scenario) as recorder:
        scenario.create(CORE, "resourcequotas", quota(TOO_LITTLE))
        scenario.submit(job)
        wait_training(scenario, recorder, job)
        scenario.wait(
            lambda: scenario.api.get(path)["status"].get("used") == {"requests.cpu": "600m"},
            "the API server counts the pods",
        )
        set_bounds(scenario, job, AFTER)

        def quota_reason() -> str:
            reason = str(recorder.status(job).get("reason", ""))
            return reason if "quota compute of namespace" in reason else ""

        reason = scenario.wait(quota_reason, "the profile names the quota")
        assert "leaves 1 of requests.cpu, and 2 PS + 4 workers would take 1.2" in reason
        scenario.wait_events(job.name, "QuotaReached")
        scenario.holds(
            lambda: not recorder.rescales(job) and len(scenario.pods(job)) == job.pods,
            "the job is not stopped",
            15,
        )
        scenario.api.patch(path, {"spec": {"hard": {"requests.cpu": ENOUGH}}})
        wait_training(scenario, recorder, at(job, AFTER))
        assert not recorder.training_violations(job)
