"""Jobs of which the user writes one annotation alone, on a real API server: the component
`admission/defaults` adds the rest, and the extender places them on a tainted pool."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from localcluster.errors import KubectlError
from localcluster.specs import NodeSpec, Taint
from localcluster.testing.clusters import Shown
from optimus.kube.job_kinds import JOB_KINDS
from tests.cases import cases
from tests.e2e.extender.scheduler import TrainingJobs, scheduler_processes, tfjob
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.e2e

Json = dict[str, Any]
ADMISSION = Path(__file__).parents[3] / "manifests" / "admission"
GOAL = {"optimus.dl/target-loss": "0.2"}
TOLERATION = {"key": "optimus.dl/training", "operator": "Exists"}
ADDED = {
    "schedulerName": "optimus-scheduler",
    "priorityClassName": "optimus-training",
    "tolerations": [TOLERATION],
}


@pytest.fixture(scope="module")
def own(shown: Shown) -> Iterator[LocalCluster]:
    """Two nodes of four CPUs, both of the tainted pool; both policies are in force."""
    taint = (Taint("optimus.dl/training"),)
    nodes = [NodeSpec(f"pool-{number}", {"cpu": "4"}, taints=taint) for number in (1, 2)]
    with LocalCluster("defaults", nodes) as cluster, shown(cluster):
        cluster.kubectl("apply", "--server-side", "-f", str(ADMISSION / "annotations.yaml"))
        cluster.kubectl("apply", "--server-side", "-f", str(ADMISSION / "defaults/policy.yaml"))
        wait_until("jobs get their defaults", lambda: is_defaulted(cluster, job("probe")))
        wait_until("annotations are checked", lambda: warns(cluster, job("probe", {"what": ""})))
        yield cluster


def job(name: str, annotations: Json | None = None, **spec: Any) -> Json:
    """A TFJob whose pods say nothing of schedulers, tolerations or priorities but `spec`."""
    body: Json = json.loads(tfjob(name, 1, 2))
    given = GOAL if annotations is None else {f"optimus.dl/{k}": v for k, v in annotations.items()}
    body["metadata"]["annotations"] = given
    for each in body["spec"]["tfReplicaSpecs"].values():
        del each["template"]["spec"]["schedulerName"]
        each["template"]["spec"] |= spec
    return body


def mxjob(name: str) -> Json:
    body = job(name)
    roles = body["spec"].pop("tfReplicaSpecs")
    roles = {"Scheduler": roles["PS"], "Server": roles["PS"], "Worker": roles["Worker"]}
    text = json.dumps(roles).replace('"tensorflow"', '"mxnet"')
    specs = {"jobMode": "MXTrain", "mxReplicaSpecs": json.loads(text)}
    return {**body, "kind": "MXJob", "spec": specs}


def stored(cluster: LocalCluster, body: Json) -> list[Json]:
    """The pod specs that the API server would store, of every replica type."""
    create = ("create", "--dry-run=server", "-o", "json", "-f", "-")
    return templates(json.loads(cluster.kubectl(*create, stdin=json.dumps(body))))


def is_defaulted(cluster: LocalCluster, body: Json) -> bool:
    """Whether the policy is in force; before that the API server may refuse the job."""
    try:
        return "schedulerName" in str(stored(cluster, body))
    except KubectlError as error:
        print(error)
        return False


def templates(body: Json) -> list[Json]:
    specs = body["spec"][JOB_KINDS[body["kind"]].replica_specs]
    return [each["template"]["spec"] for each in specs.values()]


def warns(cluster: LocalCluster, body: Json) -> bool:
    create = ("create", "--dry-run=server", "--warnings-as-errors", "-f", "-")
    try:
        cluster.kubectl(*create, stdin=json.dumps(body))
    except KubectlError as error:
        return "ValidatingAdmissionPolicy" in str(error)
    return False


def test_a_job_with_one_annotation_is_placed_by_the_extender_on_the_pool(
    own: LocalCluster, jobs: TrainingJobs, tmp_path: Path
) -> None:
    body = job("one")
    assert not warns(own, body)
    with scheduler_processes(own, tmp_path):
        jobs.submit("one", json.dumps(body))
        jobs.wait_bound("one", 3)
    for pod in own.get("pods", "-n", "default")["items"]:
        assert pod["spec"]["schedulerName"] == "optimus-scheduler"
        assert (pod["spec"]["preemptionPolicy"], pod["spec"]["priority"]) == ("Never", 0)
        assert TOLERATION in pod["spec"]["tolerations"]


@cases("body", {"TFJob": job("j"), "MXJob": mxjob("j")})
def test_every_role_gets_what_it_lacks(own: LocalCluster, body: Json) -> None:
    before = templates(body)
    assert stored(own, body) == [{**each, **ADDED} for each in before]


@cases(
    ("spec", "added"),
    {
        "another scheduler": ({"schedulerName": "default-scheduler"}, {}),
        "a PriorityClass": (
            {"priorityClassName": "system-node-critical"},
            {name: ADDED[name] for name in ("schedulerName", "tolerations")},
        ),
        "a policy that this class does not have": (
            {"preemptionPolicy": "PreemptLowerPriority"},
            {name: ADDED[name] for name in ("schedulerName", "tolerations")},
        ),
        "the policy that this class has": ({"preemptionPolicy": "Never"}, ADDED),
        "a toleration of another taint": (
            {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
            {**ADDED, "tolerations": [{"key": "gpu", "operator": "Exists"}, TOLERATION]},
        ),
        "a toleration of every taint": (
            {"tolerations": [{"operator": "Exists"}]},
            {**ADDED, "tolerations": [{"operator": "Exists"}]},
        ),
    },
)
def test_what_the_user_writes_is_kept(own: LocalCluster, spec: Json, added: Json) -> None:
    body = job("j", **spec)
    before = templates(body)
    assert stored(own, body) == [{**each, **added} for each in before]


def test_jobs_without_a_goal_and_jobs_of_kueue_are_left_as_they_are(own: LocalCluster) -> None:
    plain, queued = job("j", {"workload": "resnet-50"}), job("j")
    queued["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    for body in (plain, queued):
        before = templates(body)
        assert stored(own, body) == before


def test_the_manifest_applied_or_replaced_again_keeps_them(
    own: LocalCluster, jobs: TrainingJobs
) -> None:
    body = job("again")
    text = json.dumps(body)
    jobs.submit("again", text)
    for command in ("apply", "replace"):
        own.kubectl(command, "-f", "-", stdin=text)
        again = templates(own.get("tfjob", "again"))
        assert [{name: each[name] for name in ADDED} for each in again] == [ADDED] * 2


def test_a_running_job_that_gets_a_goal_stays_where_it_is_until_it_is_suspended(
    own: LocalCluster, jobs: TrainingJobs
) -> None:
    jobs.submit("late", json.dumps(job("late", {})))
    own.kubectl("annotate", "tfjob", "late", "optimus.dl/target-loss=0.2")
    own.kubectl("annotate", "tfjob", "late", "optimus.dl/target-loss-")
    assert "schedulerName" not in str(templates(own.get("tfjob", "late")))
    suspend = json.dumps({"spec": {"runPolicy": {"suspend": True}}})
    own.kubectl("patch", "tfjob", "late", "--type=merge", "-p", suspend)
    own.kubectl("annotate", "tfjob", "late", "optimus.dl/target-loss=0.2")
    specs = templates(own.get("tfjob", "late"))
    assert [each["schedulerName"] for each in specs] == ["optimus-scheduler"] * 2
