"""The admission policy on a real API server: who may change the replicas of which job, and when."""

import copy
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from localcluster.errors import KubectlError
from localcluster.testing.waiting import wait_until
from optimus.jobs import Counts, JobKey
from optimus.kube.client import Client
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.job_kinds import JOB_KINDS
from optimus.kube.live_reader import LiveReader
from optimus.kube.results import Written
from optimus.kube.training_jobs import TrainingJob
from optimus.kube.writer import JobWriter
from tests.cases import cases
from tests.e2e.kube.conftest import MANIFESTS
from tests.e2e.kube.test_real_api_server import replicas

GOAL = {"optimus.dl/target-loss": "0.1", "optimus.dl/global-batch-size": "64"}
SENTENCE = "the replicas of a running job with a goal are set by the Optimus autoscaler"
HOW = "set spec.runPolicy.suspend to true"
FIRST = {"TFJob": "PS", "MXJob": "Server", "PyTorchJob": "Master"}
RESIZED = [name for name, kind in JOB_KINDS.items() if kind.is_resized]
Json = dict[str, Any]


def job(kind: str, name: str, annotations: Mapping[str, str] = GOAL, **spec: object) -> Json:
    """One with 1 PS or master and 2 workers, whose pods find no scheduler: it never runs."""
    roles = {FIRST[kind]: 1, "Worker": 2} | ({"Scheduler": 1} if kind == "MXJob" else {})
    specs = {
        role: replicas(count, JOB_KINDS[kind].container, "nobody") for role, count in roles.items()
    }
    mode = {"jobMode": "MXTrain"} if kind == "MXJob" else {}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": name, "annotations": dict(annotations)},
        "spec": {JOB_KINDS[kind].replica_specs: specs, "runPolicy": {}, **mode, **spec},
    }


class Jobs:
    """The jobs of one namespace, as a user writes them."""

    def __init__(self, cluster: LocalCluster, namespace: str) -> None:
        self._cluster, self._namespace = cluster, namespace

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self._cluster.kubectl("-n", self._namespace, *arguments, stdin=stdin)

    def apply(self, body: Json, *how: str) -> str:
        return self.kubectl("apply", *how, "-f", "-", stdin=json.dumps(body))

    def patch(self, body: Json, patch: Json) -> str:
        name = f"{JOB_KINDS[body['kind']].plural}/{body['metadata']['name']}"
        return self.kubectl("patch", name, "--type=merge", "-p", json.dumps(patch))

    def stored(self, body: Json) -> Json:
        plural = JOB_KINDS[body["kind"]].plural
        found: Json = json.loads(self.kubectl("get", plural, body["metadata"]["name"], "-ojson"))
        return found

    def counts(self, body: Json) -> tuple[int, int]:
        specs = self.stored(body)["spec"][JOB_KINDS[body["kind"]].replica_specs]
        return specs[FIRST[body["kind"]]]["replicas"], specs["Worker"]["replicas"]


@pytest.fixture(scope="module")
def policed(granted: LocalCluster) -> Iterator[LocalCluster]:
    """The cluster with the policy, in force."""
    path = str(MANIFESTS / "admission-policy.yaml")
    granted.kubectl("apply", "--server-side", "-f", path)
    jobs, probe = Jobs(granted, "default"), job("TFJob", "probe")
    jobs.apply(probe)
    another = itertools.cycle((3, 2))  # it may come into force between any two changes

    def in_force() -> bool:
        try:
            jobs.patch(probe, of("TFJob", {"Worker": {"replicas": next(another)}}))
        except KubectlError as error:
            return SENTENCE in str(error)
        return False

    wait_until(in_force, "the policy is in force", 180)
    jobs.kubectl("delete", "tfjob", "probe")
    yield granted
    granted.kubectl("delete", "-f", path)


@pytest.fixture
def jobs(policed: LocalCluster, namespace: str) -> Jobs:
    return Jobs(policed, namespace)


def of(kind: str, specs: Json, **spec: object) -> Json:
    """A patch of the replica types, and of more of the spec."""
    return {"spec": {JOB_KINDS[kind].replica_specs: specs, **spec}}


def suspend(value: bool) -> Json:
    return {"runPolicy": {"suspend": value}}


FEWER = {"Worker": {"replicas": 1}}


@pytest.mark.parametrize("kind", RESIZED)
@cases(
    "changed",
    {
        "fewer workers": FEWER,
        "workers without a number, which means 1": {"Worker": {"replicas": None}},
        "more PSs or masters": {"PS": {"replicas": 2}},
        "a role less": {"Worker": None},
        "a role more": {"Evaluator": replicas(1, "tensorflow", "nobody")},
    },
)
def test_a_change_of_the_replicas_of_a_running_job_is_denied_with_the_right_way(
    jobs: Jobs, kind: str, changed: Json
) -> None:
    body = job(kind, "j")
    jobs.apply(body)
    changed = {FIRST[kind] if role == "PS" else role: each for role, each in changed.items()}
    with pytest.raises(KubectlError) as denied:
        jobs.patch(body, of(kind, changed))
    said = str(denied.value)
    assert SENTENCE in said
    assert HOW in said
    assert "Worker: 2" in said
    assert f"{FIRST[kind]}: 1" in said
    assert jobs.counts(body) == (1, 2)


@pytest.mark.parametrize("kind", RESIZED)
@cases(
    ("annotations", "spec", "patch"),
    {
        "of a job without a goal": ({}, {}, FEWER),
        "that suspends the job": (GOAL, {}, {**FEWER, "also": suspend(True)}),
        "that resumes the job": (GOAL, suspend(True), {**FEWER, "also": suspend(False)}),
        "to what they are": (GOAL, {}, {"Worker": {"replicas": 2}}),
        "of something else": (GOAL, {}, {"Worker": {"restartPolicy": "OnFailure"}}),
    },
)
def test_these_changes_are_permitted(
    jobs: Jobs, kind: str, annotations: Json, spec: Json, patch: Json
) -> None:
    body = job(kind, "j", annotations, **spec)
    jobs.apply(body)
    specs = {FIRST[kind] if role == "PS" else role: patch[role] for role in patch.keys() - {"also"}}
    assert "patched" in jobs.patch(body, of(kind, specs, **patch.get("also", {})))


def test_a_job_with_dynamic_workers_is_no_exception(jobs: Jobs) -> None:
    body = job("TFJob", "j", enableDynamicWorker=True)
    jobs.apply(body)
    with pytest.raises(KubectlError, match=SENTENCE):
        jobs.patch(body, of("TFJob", FEWER))


def test_jobs_that_are_never_managed_are_not_looked_at(jobs: Jobs) -> None:
    queued = job("TFJob", "queued")
    queued["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    ended = job("TFJob", "ended")
    for body in (queued, ended):
        jobs.apply(body)
    condition = {"type": "Failed", "status": "True", "reason": "TFJobFailed", "message": "ended"}
    status = json.dumps({"status": {"conditions": [condition], "replicaStatuses": {}}})
    jobs.kubectl("patch", "tfjob/ended", "--subresource=status", "--type=merge", "-p", status)
    for body in (queued, ended):
        jobs.patch(body, of("TFJob", FEWER))
        assert jobs.counts(body) == (1, 1)


def resize(autoscaler: Client, namespace: str) -> None:
    """The autoscaler sets 2 PSs and 4 workers; the job need not be suspended for that here."""
    reader, key = LiveReader(autoscaler, EligibilityConfig()), JobKey(namespace, "j")

    def resized() -> bool:
        found = reader.job("TFJob", key)
        assert isinstance(found, TrainingJob)
        written = JobWriter(autoscaler).resize_and_resume(found, Counts(2, 4))
        return isinstance(written, Written)  # else the operator wrote a status in between

    wait_until(resized, "it is resized", 180)


def test_the_manifest_of_a_resized_job_is_denied_until_it_leaves_the_counts_alone(
    jobs: Jobs, namespace: str, autoscaler: Client
) -> None:
    """The user guide's way with `kubectl apply`: the file with the present counts is accepted."""
    body = job("TFJob", "j")
    jobs.apply(body)
    resize(autoscaler, namespace)
    body["metadata"]["annotations"]["team"] = "vision"
    with pytest.raises(KubectlError, match=SENTENCE):
        jobs.apply(body)
    present = copy.deepcopy(body)
    present["spec"]["tfReplicaSpecs"]["PS"]["replicas"] = 2
    present["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = 4
    jobs.apply(present)
    assert jobs.counts(body) == (2, 4)
    assert jobs.stored(body)["metadata"]["annotations"]["team"] == "vision"


def test_server_side_apply_without_the_counts_keeps_them(
    jobs: Jobs, namespace: str, autoscaler: Client
) -> None:
    """As the user guide says: the counts are given once, by a field manager of their own."""
    whole, rest, server_side = job("TFJob", "j"), job("TFJob", "j"), "--server-side"
    for each in rest["spec"]["tfReplicaSpecs"].values():
        del each["replicas"]
    jobs.apply(whole, server_side, "--field-manager=initial-counts")
    jobs.apply(rest, server_side)
    assert jobs.counts(whole) == (1, 2)
    resize(autoscaler, namespace)
    rest["metadata"]["annotations"]["team"] = "vision"
    jobs.apply(rest, server_side)
    assert jobs.counts(whole) == (2, 4)
    assert jobs.stored(whole)["metadata"]["annotations"]["team"] == "vision"
    with pytest.raises(KubectlError, match="conflicts with"):
        jobs.apply(whole, server_side)
    with pytest.raises(KubectlError, match=SENTENCE):
        jobs.apply(whole, server_side, "--force-conflicts")
    assert jobs.counts(whole) == (2, 4)
