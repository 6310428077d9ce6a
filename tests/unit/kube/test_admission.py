"""What admission makes of a job's pods, worked out before they exist."""

import json
from typing import Any

import pytest

from optimus.jobs import Role
from optimus.kube.admission import Admission, Namespaces
from optimus.kube.pods import Pod, decode_pod
from optimus.kube.quotas import (
    LimitRange,
    PriorityClass,
    ResourceQuota,
    decode_limit_range,
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


def limit_range(*items: dict[str, Any]) -> LimitRange:
    body = {"metadata": {"name": "usual", "namespace": "ns"}, "spec": {"limits": list(items)}}
    return decode_limit_range(json.dumps(body).encode())


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


def only(
    job: TrainingJob, of: Namespaces, pods: tuple[Pod, ...] = (), budgets: Any = None
) -> Quota:
    (found,) = Admission(budgets or {}).quotas([job], {"u": pods}, of)
    return found


def spaces(
    *quotas: ResourceQuota,
    ranges: tuple[LimitRange, ...] = (),
    classes: tuple[PriorityClass, ...] = (),
) -> Namespaces:
    return Namespaces.of(quotas, ranges, classes)


def test_the_room_is_what_others_leave_of_the_quota() -> None:
    """Hard 10, used 7, of which 3 by the job's own pods: others use 4."""
    ended = pod("worker", 2, "Succeeded")
    pods = (pod("ps", 0), pod("worker", 0), pod("worker", 1, leaving=True), ended)
    found = only(training_job(), spaces(quota({"cpu": "10"}, {"cpu": "7"})), pods)
    assert found.limited == ("requests.cpu",)
    assert found.room == Resources({"requests.cpu": 6000})
    charge = found.charges["u"]
    assert charge.held == Resources({"requests.cpu": 2000})
    assert charge.leaving == Resources({"requests.cpu": 1000})


def test_what_lags_behind_the_pods_does_not_make_others_negative() -> None:
    pods = (pod("ps", 0), pod("worker", 0))
    found = only(training_job(), spaces(quota({"cpu": "10"}, {"cpu": "1"})), pods)
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
    found = only(training_job(container), spaces(quota(hard)))
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
    ("spec", "fields", "counts"),
    [
        ({"scopes": ["NotTerminating"]}, {}, True),
        ({"scopes": ["Terminating"]}, {}, False),
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 60}, True),
        ({"scopes": ["BestEffort"]}, {}, False),
        ({"scopes": ["NotBestEffort"]}, {}, True),
        ({"scopes": ["PriorityClass"]}, {}, False),
        ({"scopes": ["CrossNamespacePodAffinity"]}, {}, False),
        ({"scopes": ["PriorityClass"]}, {"priorityClassName": "high"}, True),
        ({"scopes": ["PriorityClass", "Terminating"]}, {"priorityClassName": "high"}, False),
    ],
)
def test_a_scope_leaves_pods_out(
    spec: dict[str, Any], fields: dict[str, Any], counts: bool
) -> None:
    job = training_job(**fields)
    found = only(job, spaces(quota({"pods": "3"}, **spec)))
    assert ("u" in found.charges) == counts


@pytest.mark.parametrize(
    ("operator", "values", "counts"),
    [
        ("In", ["high", "other"], True),
        ("In", ["other"], False),
        ("NotIn", ["other"], True),
        ("NotIn", ["high"], False),
        ("Exists", None, True),
        ("DoesNotExist", None, False),
    ],
)
def test_a_scope_selector_asks_for_the_class(
    operator: str, values: list[str] | None, counts: bool
) -> None:
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    selector = {"matchExpressions": [expression]}
    found = only(
        training_job(priorityClassName="high"),
        spaces(quota({"pods": "3"}, scopeSelector=selector)),
    )
    assert ("u" in found.charges) == counts


def test_a_limit_range_fills_in_what_the_pods_do_not_state() -> None:
    ranges = limit_range(
        {
            "type": "Container",
            "default": {"cpu": "2", "memory": "1Gi"},
            "defaultRequest": {"cpu": "1500m", "memory": "512Mi"},
        }
    )
    job = training_job(amounts({"memory": "2Gi"}))
    of = spaces(quota({"cpu": "9", "limits.memory": "9Gi"}), ranges=(ranges,))
    (admitted,) = Admission().admitted([job], of)
    assert admitted.job is not None
    assert admitted.job.ps.resources == Resources(cpu=1500, memory=2 * GIB, pods=1)
    charge = only(job, of).charges["u"]
    assert charge.ps == Resources({"requests.cpu": 1500, "limits.memory": GIB})


def test_without_limit_ranges_and_classes_a_job_is_the_very_same() -> None:
    job = training_job()
    assert Admission().admitted([job], spaces(quota({"pods": "3"})))[0] is job


def test_what_was_worked_out_for_a_job_is_kept() -> None:
    admission, job = Admission(), training_job()
    of = spaces(ranges=(limit_range({"type": "Container", "defaultRequest": {"memory": "1Gi"}}),))
    (first,) = admission.admitted([job], of)
    (second,) = admission.admitted([job], of)
    assert first is second is not job


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (
            {"type": "Container", "max": {"cpu": "2"}},
            "limit range usual allows a container no more than 2 of cpu, and it asks 4",
        ),
        (
            {"type": "Container", "max": {"memory": "2Gi"}},
            "no more than 2Gi of memory, and it states no limit",
        ),
        (
            {"type": "Container", "min": {"cpu": "5"}},
            "allows a container no less than 5 of cpu, and it asks 3",
        ),
        ({"type": "Pod", "max": {"cpu": "2"}}, "limit range usual allows a pod no more than 2"),
        (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "1.2"}},
            "a limit of 1.2 times the request of cpu, and it has 1.33333 times",
        ),
    ],
)
def test_a_limit_range_that_refuses_the_pods_is_reported_in_a_sentence(
    item: dict[str, Any], said: str
) -> None:
    job = training_job(amounts({"cpu": "3"}, {"cpu": "4"}))
    refused = Admission().refused([job], spaces(ranges=(limit_range(item),)))
    assert refused["u"].startswith("its ps pods could not be made again after a rescale: ")
    assert said in refused["u"]


def test_a_quota_that_wants_limits_refuses_pods_without_them() -> None:
    of = spaces(quota({"limits.cpu": "9"}))
    refused = Admission().refused([training_job()], of)
    assert refused["u"].endswith("quota compute wants limits.cpu to be stated")
    stated = training_job(amounts({"cpu": "1"}, {"cpu": "1"}))
    assert not Admission().refused([stated], of)
    default = limit_range({"type": "Container", "default": {"cpu": "2"}})
    assert not Admission().refused([training_job()], spaces(*of.quotas["ns"], ranges=(default,)))


def test_the_priority_comes_from_the_class_of_the_template_or_the_global_default() -> None:
    high, usual = priority_class("high", 1000), priority_class("usual", 7, is_default=True)
    of = spaces(classes=(high, usual))
    found = Admission().admitted([training_job(priorityClassName="high"), training_job()], of)
    known = [(each.job.priority, each.job.priority_class) for each in found if each.job]
    assert known == [(1000, "high"), (7, "usual")]


def test_a_budget_is_one_more_quota_of_the_training_jobs_alone() -> None:
    budget = {"ns": Resources({"requests.cpu": 40_000, "requests.nvidia.com/gpu": 8})}
    found = only(training_job(), spaces(), (pod("ps", 0),), budget)
    assert (found.name, found.room["requests.cpu"]) == ("the budget", 40_000)
    assert found.charges["u"].at(training_job().job.counts) == Resources({"requests.cpu": 6000})  # type: ignore[union-attr]  # it has a job


def test_jobs_that_are_over_are_not_charged() -> None:
    raw = job_json(target_loss="0.2")
    raw["status"] = {"conditions": [{"type": "Succeeded", "status": "True"}]}
    assert not Admission().quotas([read(raw)], {}, spaces(quota({"pods": "3"})))


def test_a_template_is_shared_by_all_jobs_that_have_it() -> None:
    assert training_job().templates[Role.PS] is training_job().templates[Role.WORKER]


def test_a_job_whose_priority_class_is_gone_is_refused() -> None:
    """The API server would refuse every pod that is made anew."""
    job = training_job(priorityClassName="gone")
    other = spaces(classes=(priority_class("other", 5),))
    refused = Admission().refused([job], other)
    assert refused["u"].endswith("there is no PriorityClass gone")
    there = spaces(classes=(priority_class("gone", 5),))
    assert not Admission().refused([job], there)
    assert not Admission().refused([job], spaces()), "no class is known: they may not be read"
