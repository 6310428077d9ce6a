"""TFJobs and MXJobs: as stored and as meant."""

import json
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given

from optimus.jobs import AtTarget, Counts, Role, TrainingMode
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.errors import Malformed
from optimus.kube.training_jobs import TrainingJob, decode_job
from tests.unit.kube.job_json import RULES, job_json, read, replica
from tests.unit.kube.test_pods import json_values


def test_a_job_without_annotations_is_a_gang_and_not_managed() -> None:
    found = read(job_json())
    assert found.job is not None
    assert found.job.counts == Counts(2, 4)
    assert (found.job.goal, found.job.managed, found.left_alone) == (None, False, None)
    assert found.created_at == 1767225600.0


def test_an_mxjobs_server_is_a_ps_and_its_scheduler_is_fixed() -> None:
    found = read(job_json("MXJob", target_loss="0.2"), "MXJob")
    assert found.job is not None
    assert found.job.managed
    assert found.job.counts == Counts(2, 4)
    assert [(role.role, role.count) for role in found.job.fixed] == [(Role.SCHEDULER, 1)]
    assert found.replica_keys == {
        Role.SCHEDULER: "Scheduler",
        Role.PS: "Server",
        Role.WORKER: "Worker",
    }


def test_keys_in_any_casing_are_found_and_kept_and_missing_replicas_are_one() -> None:
    raw = job_json(target_loss="1")
    raw["spec"]["tfReplicaSpecs"] = {"ps": replica(None), "WORKER": replica(3), "Chief": replica()}
    found = read(raw)
    assert found.job is not None
    assert found.job.counts == Counts(1, 3)
    assert found.replica_keys == {Role.PS: "ps", Role.WORKER: "WORKER", Role.CHIEF: "Chief"}
    assert found.job.managed


def broken(change: str) -> dict[str, Any]:
    raw = job_json(target_loss="0.2")
    roles = raw["spec"]["tfReplicaSpecs"]
    match change:
        case "empty containers":
            roles["Worker"]["template"]["spec"]["containers"] = []
        case "no template":
            roles["Worker"] = {"replicas": 1}
        case "no roles":
            raw["spec"]["tfReplicaSpecs"] = {}
        case "unknown role":
            roles["Tuner"] = replica()
        case "twice":
            roles["worker"] = replica()
        case "negative":
            roles["PS"]["replicas"] = -1
        case "huge":
            roles["PS"]["replicas"] = 2_000_000_000
        case "bad amount":
            roles["PS"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = (
                "lots"
            )
    return raw


BROKEN = {
    "empty containers": "replica type Worker has no container",
    "no template": "replica type Worker has no container",
    "no roles": "no replica type",
    "unknown role": "replica type Tuner",
    "twice": "are the same one",
    "negative": "requests -1 replicas",
    "huge": "requests 2000000000 replicas",
    "bad amount": "replica type PS: cpu: 'lots' is not a quantity",
}


@pytest.mark.parametrize("change", BROKEN)
def test_a_job_that_is_no_gang_is_not_scheduled_and_says_why(change: str) -> None:
    found = read(broken(change))
    assert found.job is None
    assert found.left_alone is not None
    assert BROKEN[change] in found.left_alone


@pytest.mark.parametrize(
    ("words", "mode"),
    [
        pytest.param(["--kv-store", "dist_sync"], TrainingMode.SYNC, id="dist_sync"),
        pytest.param(["--kv-store=dist_device_sync"], TrainingMode.SYNC, id="dist_device_sync"),
        pytest.param(["--kv-store=dist_async"], TrainingMode.ASYNC, id="dist_async"),
        pytest.param(["--kv-store=dist_device_async"], TrainingMode.ASYNC, id="dist_device_async"),
        pytest.param(["train.py"], TrainingMode.ASYNC, id="nothing said"),
    ],
)
def test_the_mode_comes_from_the_workers_command(words: list[str], mode: TrainingMode) -> None:
    raw = job_json("MXJob")
    raw["spec"]["mxReplicaSpecs"]["Worker"] = replica(2, command=["python"], args=words)
    found = read(raw, "MXJob")
    assert found.job is not None
    assert found.job.mode is mode
    assert found.job.command == " ".join(["python", *words])


SHOWN = {"fieldRef": {"fieldPath": "metadata.annotations['optimus.dl/goal-met']"}}
OTHER_FILES = {"items": [{"fieldRef": {"fieldPath": "metadata.name"}}, {"resourceFieldRef": {}}]}


@pytest.mark.parametrize(
    ("files", "annotations", "at_target"),
    [
        ({"items": [*OTHER_FILES["items"], SHOWN]}, {}, AtTarget.COMPLETE),
        ({"items": [SHOWN]}, {"at_target": "continue"}, AtTarget.CONTINUE),
        (OTHER_FILES, {}, AtTarget.CONTINUE),
        ({}, {}, AtTarget.CONTINUE),
        (OTHER_FILES, {"at_target": "suspend"}, AtTarget.SUSPEND),
    ],
)
@pytest.mark.parametrize("kind", ["TFJob", "MXJob"])
def test_a_job_whose_pods_show_that_its_goal_is_met_ends_there(
    kind: str, files: dict[str, Any], annotations: dict[str, str], at_target: AtTarget
) -> None:
    raw = job_json(kind, target_loss="0.2", **annotations)
    specs = raw["spec"]["tfReplicaSpecs" if kind == "TFJob" else "mxReplicaSpecs"]
    specs["Worker"] = replica(4)
    specs["Worker"]["template"]["spec"]["volumes"] = [{"name": "x"}, {"downwardAPI": files}]
    job = read(raw, kind).job
    assert job is not None
    assert job.at_target is at_target


def test_of_a_long_command_the_beginning_is_kept() -> None:
    raw = job_json("MXJob")
    raw["spec"]["mxReplicaSpecs"]["Worker"] = replica(2, command=["sh", "-c"], args=["x" * 9000])
    found = read(raw, "MXJob")
    assert found.job is not None
    assert found.job.command == ("sh -c " + "x" * 9000)[:2000]


@pytest.mark.parametrize(
    ("conditions", "outcome"),
    [
        pytest.param([("Created", "True"), ("Running", "True")], None, id="running"),
        pytest.param([("Succeeded", "True"), ("Running", "False")], "Succeeded", id="succeeded"),
        pytest.param([("Failed", "True")], "Failed", id="failed"),
        pytest.param([("Failed", "False")], None, id="a condition that does not hold"),
    ],
)
def test_a_finished_job_is_not_active(
    conditions: list[tuple[str, str]], outcome: str | None
) -> None:
    raw = job_json() | {
        "status": {"conditions": [{"type": kind, "status": status} for kind, status in conditions]}
    }
    found = read(raw)
    assert found.outcome == outcome
    assert (found.active is None) == (outcome is not None)


def test_suspension_and_whose_it_is() -> None:
    raw = job_json(suspended_by="i-7")
    raw["spec"]["runPolicy"] = {"suspend": True}
    found = read(raw)
    assert (found.suspended, found.suspended_by) == (True, "i-7")
    assert found.job is not None
    assert found.job.suspended


@pytest.mark.parametrize(
    ("text", "job"),
    [
        ("preemption/ns/high/u-1/2026-01-01T00:00:00Z one paused-for-gang", "ns/high"),
        ("preemption/ns/high/u-1/2026-01-01T00:00:00Z one", ""),
        ("by hand paused-for-gang", ""),
    ],
)
def test_for_which_job_it_was_preempted(text: str, job: str) -> None:
    found = read(job_json(suspended_by=text))
    assert found.job is not None
    assert found.job.preempted_for == job


@pytest.mark.parametrize(
    ("policy", "labels", "version", "why"),
    [
        pytest.param({}, {}, (1, 7, 0), None, id="any job, managed or not"),
        pytest.param({"managedBy": "x/y"}, {}, (1, 9, 0), "x/y", id="another manager's"),
        pytest.param({}, {"kueue.x-k8s.io/queue-name": "q"}, (1, 9, 0), "Kueue", id="Kueue's"),
        pytest.param({"ttlSecondsAfterFinished": 5}, {}, (1, 7, 0), "1.8.1", id="stuck for ever"),
        pytest.param({"ttlSecondsAfterFinished": 5}, {}, (1, 8, 1), None, id="not since 1.8.1"),
    ],
)
def test_whether_a_job_may_be_suspended(
    policy: dict[str, object],
    labels: dict[str, str],
    version: tuple[int, int, int],
    why: str | None,
) -> None:
    raw = job_json()
    raw["metadata"]["labels"], raw["spec"]["runPolicy"] = labels, policy
    found = read(raw, config=EligibilityConfig(operator_version=version)).not_suspendable
    assert found is None if why is None else why in str(found)


def test_a_job_being_deleted_is_not_active() -> None:
    raw = job_json()
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert read(raw).active is None


@given(json_values, json_values)
def test_any_json_is_a_job_or_refused(value: object, other: object) -> None:
    whole = deepcopy(job_json(target_loss="0.2"))
    whole["spec"]["tfReplicaSpecs"]["PS"] = value
    partly = deepcopy(job_json(target_loss="0.2"))
    partly["spec"]["tfReplicaSpecs"]["PS"]["template"]["spec"] = {
        "containers": [{"resources": value}],
        "x": other,
    }
    for candidate in (
        value,
        whole,
        partly,
        {"metadata": {"name": "n", "uid": "u"}, "spec": value, "status": other},
    ):
        with suppress(Malformed):
            assert isinstance(
                decode_job("TFJob", json.dumps(candidate).encode(), config=RULES), TrainingJob
            )
