"""What jobs take of quotas, and their priority, worked out before their pods exist."""

import json
from typing import Any

import pytest

from optimus.kube.admission import Priorities, quotas_of
from optimus.kube.pods import Pod, decode_pod
from optimus.kube.quotas import (
    PriorityClass,
    ResourceQuota,
    decode_priority_class,
    decode_quota,
)
from optimus.kube.training_jobs import TrainingJob
from optimus.quotas import Quota
from optimus.resources import Resources
from tests.unit.kube.job_json import job_json, read, replica

GIB = 2**30


def quota(
    hard: dict[str, object], used: dict[str, object] | None = None, **spec: object
) -> ResourceQuota:
    body = {
        "metadata": {"name": "compute", "namespace": "ns"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used or {}},
    }
    return decode_quota(json.dumps(body).encode())


def priority_class(name: str, value: int, *, is_default: bool = False) -> PriorityClass:
    body = {"metadata": {"name": name}, "value": value, "globalDefault": is_default}
    return decode_priority_class(json.dumps(body).encode())


def training_job(container: dict[str, Any] | None = None, **spec: object) -> TrainingJob:
    """2 PSs and 4 workers of one container each, with further fields of the pods' spec."""
    raw = job_json(target_loss="0.2")
    for role, count in (("PS", 2), ("Worker", 4)):
        written = replica(count, **(container or {}))
        written["template"]["spec"].update(spec)
        raw["spec"]["tfReplicaSpecs"][role] = written
    return read(raw)


def amounts(requests: dict[str, str], limits: dict[str, str] | None = None) -> dict[str, Any]:
    return {"resources": {"requests": requests, **({"limits": limits} if limits else {})}}


def pod(role: str, index: int, phase: str = "Running", *, leaving: bool = False) -> Pod:
    metadata = {
        "name": f"j-{role}-{index}",
        "namespace": "ns",
        "uid": f"p-{role}-{index}",
        "labels": {
            "training.kubeflow.org/replica-type": role,
            "training.kubeflow.org/replica-index": str(index),
        },
        "ownerReferences": [
            {
                "apiVersion": "kubeflow.org/v1",
                "kind": "TFJob",
                "name": "j",
                "uid": "u",
                "controller": True,
            }
        ],
    }
    if leaving:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    body = {"metadata": metadata, "spec": {"containers": []}, "status": {"phase": phase}}
    return decode_pod(json.dumps(body).encode())


def only(job: TrainingJob, quota: ResourceQuota, pods: tuple[Pod, ...] = ()) -> Quota:
    (found,) = quotas_of([job], {"u": pods}, [quota])
    return found


def test_the_room_is_what_others_leave_of_the_quota() -> None:
    """Hard 10, used 7, of which 3 by the job's own pods: others use 4."""
    ended = pod("worker", 2, "Succeeded")
    pods = (pod("ps", 0), pod("worker", 0), pod("worker", 1, leaving=True), ended)
    found = only(training_job(), quota({"cpu": "10"}, {"cpu": "7"}), pods)
    assert found.limited == ("requests.cpu",)
    assert found.room == Resources({"requests.cpu": 6000})
    charge = found.charges["u"]
    assert charge.held == Resources({"requests.cpu": 2000})
    assert charge.leaving == Resources({"requests.cpu": 1000})


def test_what_lags_behind_the_pods_does_not_make_others_negative() -> None:
    pods = (pod("ps", 0), pod("worker", 0))
    found = only(training_job(), quota({"cpu": "10"}, {"cpu": "1"}), pods)
    assert found.room == Resources({"requests.cpu": 10_000})


def test_every_resource_of_a_pod_is_charged() -> None:
    container = amounts(
        {"cpu": "1", "memory": "2Gi", "nvidia.com/gpu": "1"},
        {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"},
    )
    hard: dict[str, object] = {
        "requests.cpu": "9",
        "memory": "9Gi",
        "limits.cpu": "20",
        "limits.memory": "64Gi",
        "requests.nvidia.com/gpu": 8,
        "count/pods": "12",
        "services": "3",
        "count/jobs.batch": "4",
        "requests.storage": "1Ti",
    }
    found = only(training_job(container), quota(hard))
    one = {
        "requests.cpu": 1000,
        "requests.memory": 2 * GIB,
        "limits.cpu": 2000,
        "limits.memory": 4 * GIB,
        "requests.nvidia.com/gpu": 1,
        "pods": 1,
    }
    assert found.charges["u"].worker == Resources(one)
    assert set(found.limited) == set(one)


def test_of_two_names_for_one_thing_the_smaller_counts() -> None:
    found = quota({"cpu": "4", "requests.cpu": "3"})
    assert (found.limited, found.hard) == (("requests.cpu",), Resources({"requests.cpu": 3000}))


@pytest.mark.parametrize(
    "spec",
    [
        {"scopes": ["NotTerminating"]},
        {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass"}]}},
    ],
)
def test_a_quota_with_scopes_limits_nothing(spec: dict[str, Any]) -> None:
    assert not quotas_of([training_job()], {}, [quota({"pods": "3"}, **spec)])


def test_jobs_that_are_over_are_not_charged() -> None:
    raw = job_json(target_loss="0.2")
    raw["status"] = {"conditions": [{"type": "Succeeded", "status": "True"}]}
    assert not quotas_of([read(raw)], {}, [quota({"pods": "3"})])


def test_the_priority_comes_from_the_class_of_the_template_or_the_global_default() -> None:
    high, usual = priority_class("high", 1000), priority_class("usual", 7, is_default=True)
    jobs = [training_job(priorityClassName="high"), training_job()]
    found = Priorities().set_on(jobs, [high, usual])
    known = [(each.job.priority, each.job.priority_class) for each in found if each.job]
    assert known == [(1000, "high"), (7, "usual")]


def test_a_job_is_the_same_object_until_something_changes() -> None:
    job, high, priorities = (
        training_job(priorityClassName="high"),
        priority_class("high", 9),
        Priorities(),
    )
    assert Priorities().set_on([training_job()], [])[0].job == training_job().job
    (first,) = priorities.set_on([job], [high])
    assert priorities.set_on([job], [high])[0] is first
    assert priorities.set_on([job], [priority_class("high", 8)])[0] is not first
