"""Somebody changes the replicas of a managed job that runs, as applying its old manifest does."""

from collections.abc import Iterator

import pytest
from kubernetes.client.exceptions import ApiException

from localcluster.testing.waiting import wait_until
from tests.harness.api import Json
from tests.harness.job_recorder import Counts, JobRecorder
from tests.harness.light_jobs import LightJob
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import at, bounds, set_bounds, small_job, wait_training

BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
BEFORE, AFTER, MORE = (1, 2), (2, 3), (2, 4)
SPECS = {"TFJob": ("tfReplicaSpecs", "PS"), "MXJob": ("mxReplicaSpecs", "Server")}


def change(scenario: Scenario, job: LightJob, counts: Counts) -> None:
    """Set the replicas in place, with bounds that allow them."""
    specs, ps = SPECS[job.kind]
    replicas = {ps: {"replicas": counts[0]}, "Worker": {"replicas": counts[1]}}
    body = {"metadata": {"annotations": bounds(counts)}, "spec": {specs: replicas}}
    scenario.api.patch(scenario.path(job), body)


def change_unpoliced(scenario: Scenario, job: LightJob, counts: Counts) -> None:
    """The same as soon as the API server has forgotten the binding."""

    def is_changed() -> bool:
        try:
            change(scenario, job, counts)
        except ApiException as error:
            if error.status == 403:
                return False
            raise
        return True

    wait_until(is_changed, "the API server has forgotten the binding", 180)


def reasons(scenario: Scenario, job: LightJob) -> set[str]:
    return {event["reason"] for event in scenario.events(job.name)}


@pytest.fixture
def unpoliced(scenario: Scenario) -> Iterator[Scenario]:
    """Without the policy's binding, as where it is not installed."""
    api, path = scenario.api, f"{BINDINGS}/optimus-replicas"
    binding = api.get(path)
    api.delete(path)
    yield scenario
    kept: Json = {key: binding[key] for key in ("apiVersion", "kind", "spec")}
    api.create(BINDINGS, {**kept, "metadata": {"name": "optimus-replicas"}})


def test_the_policy_denies_it_and_the_job_trains_on(scenario: Scenario) -> None:
    job = small_job("policed", BEFORE)
    grown = at(job, AFTER)
    with JobRecorder(scenario) as recorder:
        scenario.submit(job)
        wait_training(scenario, recorder, job)
        set_bounds(scenario, job, AFTER)
        wait_training(scenario, recorder, grown)
        with pytest.raises(ApiException) as denied:
            change(scenario, job, BEFORE)
        assert denied.value.status == 403
        assert "set by the Optimus autoscaler" in str(denied.value)
        wait_training(scenario, recorder, grown)
        assert len(recorder.logs.runs(job.name)) == 2, "it was not begun again"
        assert not recorder.ever_failed(job)


def test_without_the_policy_a_job_that_was_made_larger_is_begun_again_as_a_whole(
    unpoliced: Scenario,
) -> None:
    scenario, job = unpoliced, small_job("larger", BEFORE)
    with JobRecorder(scenario) as recorder:
        scenario.submit(job)
        wait_training(scenario, recorder, job)
        change_unpoliced(scenario, job, MORE)
        wait_training(scenario, recorder, at(job, MORE))
        assert not recorder.ever_failed(job)
        assert not recorder.training_violations(job)
    scenario.wait_events(job.name, "ReplicasChanged")


def test_without_the_policy_a_job_that_was_made_smaller_gets_an_event(
    unpoliced: Scenario,
) -> None:
    """The operator mostly fails it before anybody can stop it."""
    scenario, job = unpoliced, small_job("smaller", AFTER)
    with JobRecorder(scenario) as recorder:
        scenario.submit(job)
        wait_training(scenario, recorder, job)
        change_unpoliced(scenario, job, BEFORE)
        scenario.wait(lambda: "ReplicasChanged" in reasons(scenario, job), "an Event says so")
        if "Failed" not in scenario.conditions(job):
            wait_training(scenario, recorder, at(job, BEFORE))
