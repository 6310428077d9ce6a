"""A job that is deleted some time after its end can be suspended, as the setting says of this
operator."""

from tests.harness.api import KUBEFLOW
from tests.harness.job_recorder import JobRecorder
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import at, set_bounds, small_job, wait_training

BEFORE, AFTER = (1, 1), (1, 2)


def test_a_job_with_ttl_seconds_after_finished_is_rescaled(scenario: Scenario) -> None:
    job = small_job("limited", BEFORE)
    body = job.manifest(scenario.namespace)
    body["spec"]["runPolicy"]["ttlSecondsAfterFinished"] = 600
    with JobRecorder(scenario) as recorder:
        scenario.create(KUBEFLOW, "tfjobs", body)
        wait_training(scenario, recorder, job)
        set_bounds(scenario, job, AFTER)
        wait_training(scenario, recorder, at(job, AFTER))
        assert not recorder.ever_failed(job)
        assert not recorder.training_violations(job)
