"""The webhook of the operator itself, which each write to a TFJob passes, the autoscaler's too."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from kubernetes.client.exceptions import ApiException

from localcluster.webhook import CONFIGURATION
from tests.harness.api import KUBEFLOW
from tests.harness.job_recorder import JobRecorder
from tests.harness.optimus_cluster import AUTOSCALER
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import at, bounds, small_job, wait_training

PATH = f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{CONFIGURATION}"
BEFORE, AFTER = (1, 2), (2, 3)
UNREACHABLE = "failed calling webhook"


class Webhook:
    """The operator's, which may be put out of reach, as it is while the operator is away."""

    def __init__(self, scenario: Scenario) -> None:
        self._api = scenario.api
        (self._port,) = {
            each["clientConfig"]["service"]["port"] for each in self._api.get(PATH)["webhooks"]
        }

    def set_reachable(self, reachable: bool) -> None:
        webhooks = self._api.get(PATH)["webhooks"]
        for each in webhooks:
            each["clientConfig"]["service"]["port"] = self._port if reachable else 1
        self._api.patch(PATH, {"webhooks": webhooks})


@pytest.fixture
def webhook(scenario: Scenario) -> Iterator[Webhook]:
    """It can be reached again afterwards."""
    webhook = Webhook(scenario)
    yield webhook
    webhook.set_reachable(True)


def test_a_job_without_containers_is_refused_and_the_operator_lives(scenario: Scenario) -> None:
    operator = scenario.optimus.cluster.components["training-operator"].process
    body = small_job("empty", BEFORE).manifest(scenario.namespace)
    body["spec"]["tfReplicaSpecs"]["PS"]["template"]["spec"]["containers"] = []
    with pytest.raises(ApiException) as refused:
        scenario.create(KUBEFLOW, "tfjobs", body)
    assert refused.value.status == 403
    assert "containers: Required value" in str(refused.value)
    assert scenario.optimus.cluster.components["training-operator"].process == operator


def test_it_serves_again_after_the_operator_was_killed(scenario: Scenario) -> None:
    cluster, job = scenario.optimus.cluster, small_job("later", BEFORE)
    cluster.wait_restarted("training-operator", cluster.kill("training-operator"))
    scenario.submit(job)
    scenario.wait_bound(job)


def test_a_rescale_waits_for_the_webhook_and_is_carried_out_then(
    scenario: Scenario, webhook: Webhook
) -> None:
    job = small_job("moved", BEFORE)
    job = replace(job, annotations={**(job.annotations or {}), **bounds(AFTER)})
    with JobRecorder(scenario) as recorder:
        scenario.submit(job)
        scenario.wait(lambda: len(scenario.pods(job)) == job.pods, "its pods are made")
        webhook.set_reachable(False)
        scenario.wait(
            lambda: UNREACHABLE in scenario.optimus.log(AUTOSCALER, "autoscaler"),
            "the autoscaler cannot suspend the job",
        )
        assert not scenario.stored(job)["spec"]["runPolicy"].get("suspend")
        webhook.set_reachable(True)
        wait_training(scenario, recorder, at(job, AFTER))
        assert not recorder.ever_failed(job)
        assert not recorder.training_violations(job)
