"""Why a job that asks for management is left as it is."""

from typing import Any

import pytest

from tests.unit.kube.job_json import job_json, read, replica


def changed(change: str) -> dict[str, Any]:
    raw = job_json(target_loss="0.2")
    spec = raw["spec"]
    roles = spec["tfReplicaSpecs"]
    match change:
        case "no ps":
            del roles["PS"]
        case "zero ps":
            roles["PS"]["replicas"] = 0
        case "no worker":
            del roles["Worker"]
        case "tune":
            spec["jobMode"] = "MXTune"
        case "kueue label":
            raw["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
        case "managed by":
            spec["runPolicy"] = {"managedBy": "kueue.x-k8s.io/multikueue"}
        case "ttl":
            spec["runPolicy"] = {"ttlSecondsAfterFinished": 60}
        case "scheduler":
            del roles["Worker"]["template"]["spec"]["schedulerName"]
    return raw


LEFT_ALONE = {
    "no ps": "the job has no parameter server",
    "zero ps": "the job has no parameter server",
    "no worker": "the job has no worker",
    "tune": "MXTune",
    "kueue label": "kueue.x-k8s.io/queue-name",
    "managed by": "runPolicy.managedBy",
    "ttl": "before 1.8.1",
    "scheduler": (
        'add "schedulerName: optimus-scheduler" to spec.tfReplicaSpecs.Worker.template.spec'
    ),
}


@pytest.mark.parametrize("change", LEFT_ALONE)
def test_a_job_that_cannot_be_managed_is_left_alone_with_a_reason(change: str) -> None:
    found = read(changed(change))
    assert found.left_alone is not None
    assert LEFT_ALONE[change] in found.left_alone
    assert found.job is not None
    assert not found.job.managed


@pytest.mark.parametrize("change", LEFT_ALONE)
def test_a_job_without_annotations_has_no_reason_to_be_left_alone(change: str) -> None:
    raw = changed(change)
    raw["metadata"]["annotations"] = {}
    found = read(raw)
    assert found.left_alone is None
    assert found.job is not None


def test_a_reason_does_not_quote_a_field_of_any_length() -> None:
    named = job_json(target_loss="0.2")
    named["spec"]["tfReplicaSpecs"]["Worker"] = replica(scheduler="s" * 1_000_000)
    unknown = job_json(target_loss="0.2")
    unknown["spec"]["tfReplicaSpecs"]["x" * 1_000_000] = replica()
    for raw in (named, unknown):
        assert 0 < len(read(raw).left_alone or "") <= 1000
