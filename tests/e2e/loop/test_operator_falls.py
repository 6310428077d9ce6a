"""A job that the real training-operator falls over, again and again, disturbs nobody else's."""

from tests.harness.api import KUBEFLOW, Json
from tests.harness.jobs import LightJob
from tests.harness.scene import Scene
from tests.harness.stack import AUTOSCALER, SCHEDULER

PROCESSES = ((SCHEDULER, "extender"), (SCHEDULER, "kube-scheduler"), (AUTOSCALER, "autoscaler"))


def without_containers(stage: Scene) -> Json:
    body = LightJob("TFJob", "empty", annotations={"optimus.dl/target-loss": "0.2"}).manifest(
        stage.namespace
    )
    body["spec"]["tfReplicaSpecs"]["PS"]["template"]["spec"]["containers"] = []
    return body


def test_a_job_with_an_empty_list_of_containers_disturbs_nobody(stage: Scene) -> None:
    restarts = {each: stage.restarts(*each) for each in PROCESSES}
    healthy = LightJob("TFJob", "healthy", 1, 2, flags={"--epochs": "4"})
    stage.submit(healthy)
    stage.wait(lambda: stage.training_log("healthy-worker-0"), "the healthy job trains")
    cluster = stage.optimus.cluster
    operator = cluster.components["training-operator"].process
    assert operator is not None
    stage.create(KUBEFLOW, "tfjobs", without_containers(stage))
    stage.wait(
        lambda: cluster.components["training-operator"].process != operator,
        "the operator has fallen over it",
    )
    said = stage.wait(lambda: stage.events_of_type("empty", "Warning"), "the job's user is told")
    assert any("replica type PS has no container" in event["message"] for event in said), said
    before = stage.training_log("healthy-worker-0")[-1].step
    stage.wait(
        lambda: stage.training_log("healthy-worker-0")[-1].step > before,
        "the healthy job trains on",
    )
    stage.api.delete(f"{KUBEFLOW}/namespaces/{stage.namespace}/tfjobs/empty")
    cluster.wait_restarted("training-operator", operator)
    stage.wait(
        lambda: "Succeeded" in stage.conditions(healthy), "the healthy job has succeeded", 90
    )
    assert {each: stage.restarts(*each) for each in PROCESSES} == restarts
