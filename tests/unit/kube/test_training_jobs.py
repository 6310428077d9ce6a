"""TFJobs and MXJobs: as stored, as meant, and why one is left alone."""

import json
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given

from kube.errors import Malformed
from kube.left_alone import JobRules
from kube.training_jobs import TrainingJob, decode_job
from scheduling.jobs import (
    AtTarget,
    Batch,
    BatchScope,
    ConvergenceThreshold,
    CountBounds,
    Counts,
    RescaleRule,
    Role,
    TargetLoss,
    TrainingMode,
)
from tests.unit.kube.test_pods import json_values

RULES = JobRules()


def replica(count: int | None = 1, *, scheduler: str = "optimus-scheduler", **container: object) -> dict[str, Any]:
    spec = {
        "schedulerName": scheduler,
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}, **container}],
    }
    return {"template": {"spec": spec}} | ({} if count is None else {"replicas": count})


def job_json(kind: str = "TFJob", **annotations: str) -> dict[str, Any]:
    roles: dict[str, Any] = {"PS": replica(2), "Worker": replica(4)}
    if kind == "MXJob":
        roles = {"Scheduler": replica(), "Server": replica(2), "Worker": replica(4)}
    return {
        "metadata": {
            "name": "j",
            "namespace": "ns",
            "uid": "u",
            "resourceVersion": "9",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {f"optimus.dl/{name.replace('_', '-')}": value for name, value in annotations.items()},
        },
        "spec": {"jobMode": "MXTrain", "tfReplicaSpecs" if kind == "TFJob" else "mxReplicaSpecs": roles},
    }


def read(raw: dict[str, Any], kind: str = "TFJob", rules: JobRules = RULES) -> TrainingJob:
    return decode_job(kind, json.dumps(raw).encode(), rules=rules)


def managed(**annotations: str) -> TrainingJob:
    return read(job_json(**{"target_loss": "0.2", **annotations}))


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
    assert found.replica_keys == {Role.SCHEDULER: "Scheduler", Role.PS: "Server", Role.WORKER: "Worker"}


def test_keys_in_any_casing_are_found_and_kept_and_missing_replicas_are_one() -> None:
    raw = job_json(target_loss="1")
    raw["spec"]["tfReplicaSpecs"] = {"ps": replica(None), "WORKER": replica(3), "Chief": replica()}
    found = read(raw)
    assert found.job is not None
    assert found.job.counts == Counts(1, 3)
    assert found.replica_keys == {Role.PS: "ps", Role.WORKER: "WORKER", Role.CHIEF: "Chief"}
    assert found.job.managed


def test_every_annotation_is_read() -> None:
    found = managed(
        at_target="suspend",
        training_mode="sync",
        global_batch_size="256",
        steps_per_epoch="12.5",
        loss_metric="nll",
        metrics_format=r"(\w+)=(\d+)",
        min_ps="1",
        max_ps="4",
        min_workers="2",
        max_workers="8",
        workload="resnet-50",
        rescale="any",
        checkpoint_format=r"saved (\d+)",
        chief_trains="true",
    )
    job = found.job
    assert found.problems == found.hints == ()
    assert job is not None
    assert (job.goal, job.at_target, job.rescale) == (TargetLoss(0.2), AtTarget.SUSPEND, RescaleRule.ANY)
    assert (job.mode, job.batch) == (TrainingMode.SYNC, Batch(256, BatchScope.JOB))
    assert job.bounds == CountBounds(1, 4, 2, 8)
    assert (job.steps_per_epoch, job.workload, job.chief_trains) == (12.5, "resnet-50", True)
    assert (job.loss_metric, job.metrics_format, job.checkpoint_format) == ("nll", r"(\w+)=(\d+)", r"saved (\d+)")


def test_convergence_may_be_the_goal() -> None:
    found = read(job_json(convergence_threshold="0.02"))
    assert found.job is not None
    assert found.job.goal == ConvergenceThreshold(0.02)


BAD = [
    ("target_loss", "low", "a number such as 0.25 would be right"),
    ("target_loss", "nan", "a number such as"),
    ("target_loss", "1e999", "a number such as"),
    ("convergence_threshold", "2", "a fraction below 1"),
    ("convergence_threshold", "0", "a number above 0"),
    ("convergence_threshold", "0.02", "not both"),
    ("at_target", "stop", "one of continue, suspend would be right"),
    ("training_mode", "both", "one of sync, async would be right"),
    ("global_batch_size", "0", "a whole number from 1"),
    ("worker_batch_size", "1.5", "a whole number from 1"),
    ("steps_per_epoch", "-3", "a number above 0"),
    ("min_ps", "0", "a whole number from 1 to 10000"),
    ("max_workers", "many", "a whole number from 1 to 10000"),
    ("loss_metric", " ", "a name of 1 to 100 characters"),
    ("metrics_format", "(", "is no regular expression"),
    ("metrics_format", "loss", "has 0 groups"),
    ("checkpoint_format", "[", "is no regular expression"),
    ("workload", "Res Net", "lower-case letters"),
    ("rescale", "sometimes", "one of checkpoint, any, never would be right"),
    ("chief_trains", "yes", '"true" or "false"'),
]


@pytest.mark.parametrize(("name", "value", "right"), BAD)
def test_a_value_that_cannot_be_used_names_itself_and_what_would_be_right(name: str, value: str, right: str) -> None:
    found = managed(**{name: value})
    annotation = f"optimus.dl/{name.replace('_', '-')}"
    assert [problem.annotation for problem in found.problems] == [annotation]
    assert right in str(found.problems[0])
    assert found.left_alone is not None
    assert annotation in found.left_alone
    assert found.job is not None
    assert not found.job.managed
    assert found.job.counts == Counts(2, 4)


def test_contradictions_are_problems() -> None:
    both = managed(global_batch_size="8", worker_batch_size="8")
    assert [problem.annotation for problem in both.problems] == ["optimus.dl/worker-batch-size"]
    crossed = managed(min_ps="4", max_ps="2")
    assert "at least optimus.dl/min-ps (4)" in str(crossed.problems[0])


def test_a_misspelt_annotation_is_a_hint_and_does_no_harm() -> None:
    found = managed(target_los="1", suspended_by="i-1")
    assert [hint.annotation for hint in found.hints] == ["optimus.dl/target-los"]
    assert "perhaps optimus.dl/target-loss is meant" in str(found.hints[0])
    assert found.job is not None
    assert found.job.managed


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
        case "dynamic":
            spec["enableDynamicWorker"] = True
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
    "dynamic": "enableDynamicWorker",
    "tune": "MXTune",
    "kueue label": "kueue.x-k8s.io/queue-name",
    "managed by": "runPolicy.managedBy",
    "ttl": "before 1.8.1",
    "scheduler": 'add "schedulerName: optimus-scheduler" to spec.tfReplicaSpecs.Worker.template.spec',
}


@pytest.mark.parametrize("change", LEFT_ALONE)
def test_a_job_that_cannot_be_managed_is_left_alone_with_a_reason(change: str) -> None:
    found = read(changed(change))
    assert found.left_alone is not None
    assert LEFT_ALONE[change] in found.left_alone
    assert found.job is not None
    assert not found.job.managed


@pytest.mark.parametrize("change", LEFT_ALONE)
def test_who_does_not_ask_for_management_is_not_bothered(change: str) -> None:
    raw = changed(change)
    raw["metadata"]["annotations"] = {}
    found = read(raw)
    assert found.left_alone is None
    assert found.job is not None


def test_a_newer_operator_copes_with_a_lifetime_after_the_end() -> None:
    assert read(changed("ttl"), rules=JobRules(operator_version=(1, 8, 1))).left_alone is None


def test_another_scheduler_may_be_the_one() -> None:
    found = read(job_json(target_loss="1"), rules=JobRules(scheduler_name="default-scheduler"))
    assert found.left_alone is not None
    assert '"schedulerName: default-scheduler"' in found.left_alone


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
            roles["PS"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "lots"
    return raw


BROKEN = {
    "empty containers": "replica type Worker has no container",
    "no template": "replica type Worker has no container",
    "no roles": "no replica type",
    "unknown role": "replica type Tuner",
    "twice": "are the same one",
    "negative": "asks for -1 replicas",
    "huge": "asks for 2000000000 replicas",
    "bad amount": "replica type PS: cpu: 'lots' is no quantity",
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


@pytest.mark.parametrize(
    ("conditions", "outcome"),
    [
        pytest.param([("Created", "True"), ("Running", "True")], None, id="running"),
        pytest.param([("Succeeded", "True"), ("Running", "False")], "Succeeded", id="succeeded"),
        pytest.param([("Failed", "True")], "Failed", id="failed"),
        pytest.param([("Failed", "False")], None, id="a condition that does not hold"),
    ],
)
def test_a_finished_job_is_not_active(conditions: list[tuple[str, str]], outcome: str | None) -> None:
    raw = job_json() | {"status": {"conditions": [{"type": kind, "status": status} for kind, status in conditions]}}
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


def test_a_job_being_deleted_is_not_active() -> None:
    raw = job_json()
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert read(raw).active is None


@given(json_values, json_values)
def test_any_json_is_a_job_or_refused(value: object, other: object) -> None:
    whole = deepcopy(job_json(target_loss="0.2"))
    whole["spec"]["tfReplicaSpecs"]["PS"] = value
    partly = deepcopy(job_json(target_loss="0.2"))
    partly["spec"]["tfReplicaSpecs"]["PS"]["template"]["spec"] = {"containers": [{"resources": value}], "x": other}
    for candidate in (value, whole, partly, {"metadata": {"name": "n", "uid": "u"}, "spec": value, "status": other}):
        with suppress(Malformed):
            assert isinstance(decode_job("TFJob", json.dumps(candidate).encode(), rules=RULES), TrainingJob)
