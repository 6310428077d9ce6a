"""A job that crashes the real training-operator again and again affects no other job."""

from tests.harness.api import KUBEFLOW, Json
from tests.harness.light_jobs import LightJob
from tests.harness.optimus_cluster import AUTOSCALER, SCHEDULER
from tests.harness.scenario import Scenario

PROCESSES = ((SCHEDULER, "extender"), (SCHEDULER, "kube-scheduler"), (AUTOSCALER, "autoscaler"))


def without_containers(scenario: Scenario) -> Json:
    body = LightJob("TFJob", "empty", annotations={"optimus.dl/target-loss": "0.2"}).manifest(
        scenario.namespace
    )
    body["spec"]["tfReplicaSpecs"]["PS"]["template"]["spec"]["containers"] = []
    return body


def test_a_job_with_an_empty_list_of_containers_affects_no_other(scenario: Scenario) -> None:
    restarts = {each: scenario.restarts(*each) for each in PROCESSES}
    healthy = LightJob("TFJob", "healthy", 1, 2, flags={"--epochs": "4"})
    scenario.submit(healthy)
    scenario.wait(lambda: scenario.training_log("healthy-worker-0"), "the healthy job trains")
    cluster = scenario.optimus.cluster
    operator = cluster.components["training-operator"].process
    assert operator is not None
    scenario.create(KUBEFLOW, "tfjobs", without_containers(scenario))
    scenario.wait(
        lambda: cluster.components["training-operator"].process != operator,
        "the operator has fallen over it",
    )
    scenario.wait(
        lambda: any(
            "replica type PS has no container" in event["message"]
            for event in scenario.events_of_type("empty", "Warning")
        ),
        "the job gets an Event that says what it lacks",
    )
    before = scenario.training_log("healthy-worker-0")[-1].step
    scenario.wait(
        lambda: scenario.training_log("healthy-worker-0")[-1].step > before,
        "the healthy job trains on",
    )
    scenario.api.delete(f"{KUBEFLOW}/namespaces/{scenario.namespace}/tfjobs/empty")
    cluster.wait_restarted("training-operator", operator)
    scenario.wait(
        lambda: "Succeeded" in scenario.conditions(healthy), "the healthy job has succeeded"
    )
    assert {each: scenario.restarts(*each) for each in PROCESSES} == restarts
