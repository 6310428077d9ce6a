"""Calls on a real API server beside a real training operator, as the identities that the manifests
grant."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import pytest
import yaml

from localcluster.cluster import LocalCluster
from optimus.jobs import Counts, JobKey, TargetLoss
from optimus.kube.client import Client
from optimus.kube.contract import Phase
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.errors import ErrorKind, KubeError
from optimus.kube.live_reader import LiveReader
from optimus.kube.pods import Pod, watched_pods
from optimus.kube.profiles import (
    ProfileStatus,
    ProfileWriter,
    RescaleStatus,
    TrainingProfile,
    watched_profiles,
)
from optimus.kube.reflector import Reflector
from optimus.kube.results import Refused, Written
from optimus.kube.store import Cached
from optimus.kube.training_jobs import TrainingJob
from optimus.kube.workload_profiles import (
    WorkloadProfile,
    WorkloadProfileWriter,
    status_of,
    watched_workload_profiles,
)
from optimus.kube.writer import PodWriter
from optimus.models.earlier_runs import MOST_LOSSES, MOST_RUNS, MOST_SAMPLES
from optimus.progress.types import EarlierRun, SpeedSample
from tests.e2e.kube.conftest import MANIFESTS

WAIT_SECONDS = 180.0
T = TypeVar("T", bound=Cached)
Found = TypeVar("Found")


def replicas(count: int, container: str, scheduler: str = "default-scheduler") -> dict[str, object]:
    command = ["sh", "-c", "echo started; exec sleep 600"]
    spec = {
        "schedulerName": scheduler,
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": container,
                "image": "busybox",
                "command": command,
                "resources": {"requests": {"cpu": "50m", "memory": "16Mi"}},
            }
        ],
    }
    return {"replicas": count, "restartPolicy": "Never", "template": {"spec": spec}}


def tfjob(name: str, scheduler: str = "default-scheduler") -> str:
    spec = {
        "runPolicy": {"cleanPodPolicy": "Running"},
        "tfReplicaSpecs": {
            "PS": replicas(1, "tensorflow", scheduler),
            "worker": replicas(2, "tensorflow", scheduler),
        },
    }
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": spec,
    }
    return json.dumps(job)


@contextmanager
def followed(reflector: Reflector[T]) -> Iterator[Reflector[T]]:
    reflector.start()
    try:
        assert reflector.wait_synced(WAIT_SECONDS), reflector.failure
        yield reflector
    finally:
        reflector.stop()


def until(reflector: Reflector[T], find: Callable[[], Found | None]) -> Found:
    """Wait for the copy to show something."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        seen = reflector.changes.count
        found = find()
        if found:
            return found
        reflector.changes.wait(seen, 1.0)
    raise AssertionError(f"never seen: {reflector.items()} {reflector.failure}")


def pods_in(reflector: Reflector[Pod], namespace: str) -> list[Pod]:
    return [pod for pod in reflector.items() if pod.namespace == namespace]


def test_the_autoscaler_may_annotate_a_pod_and_not_change_it(
    granted: LocalCluster, namespace: str, scheduler: Client, autoscaler: Client
) -> None:
    granted.kubectl("apply", "-n", namespace, "-f", "-", stdin=tfjob("j", scheduler="nobody"))
    at = "2026-01-01T00:00:00Z"
    with followed(Reflector(scheduler, watched_pods())) as pods:
        pod = until(pods, lambda: next(iter(pods_in(pods, namespace)), None))
        assert isinstance(PodWriter(autoscaler).set_goal_met(pod, at), Written)
        until(pods, lambda: (again := pods.find(namespace, pod.name)) and again.goal_met == at)
        assert isinstance(PodWriter(autoscaler).set_goal_met(pod, None), Written)
        until(pods, lambda: (again := pods.find(namespace, pod.name)) and not again.goal_met)
    path = f"/api/v1/namespaces/{namespace}/pods/{pod.name}"
    change = json.dumps({"spec": {"activeDeadlineSeconds": 1}}).encode()
    with pytest.raises(KubeError) as refused:
        autoscaler.patch("change the pod", path, change)
    assert refused.value.kind is ErrorKind.FORBIDDEN


def suspending(profile: TrainingProfile | None) -> TrainingProfile | None:
    return profile if profile is not None and profile.status.phase is Phase.SUSPENDING else None


def test_a_profile_lives_and_dies_with_its_job(
    granted: LocalCluster, namespace: str, autoscaler: Client
) -> None:
    granted.kubectl("apply", "-n", namespace, "-f", "-", stdin=tfjob("j"))
    job = LiveReader(autoscaler, EligibilityConfig()).job("TFJob", JobKey(namespace, "j"))
    assert isinstance(job, TrainingJob)
    writer = ProfileWriter(autoscaler)
    profile = writer.create(job)
    assert isinstance(profile, TrainingProfile)
    assert writer.create(job) == profile
    rescale = RescaleStatus(
        "i-1", "2026-01-01T00:00:00Z", 1, 2, 2, 3, why="worker 3 saves 41 s", step="empty"
    )
    status = ProfileStatus(
        phase=Phase.SUSPENDING,
        reason="worker 3 saves 41 s",
        ps=1,
        workers=2,
        target_ps=2,
        target_workers=3,
        loss=0.41234567,
        goal="loss <= 0.2",
        progress_percent=41,
        steps_per_second=float("nan"),
        remaining_seconds=330,
        rescale=rescale,
        state="eJyrVg==",
    )
    assert isinstance(writer.write_status(profile, status), Written)
    with followed(Reflector(autoscaler, watched_profiles())) as profiles:
        found = until(profiles, lambda: suspending(profiles.find(namespace, "j")))
        assert found.status.rescale == rescale
        assert (found.status.loss, found.status.steps_per_second) == (0.41235, None)
        assert found.status.state == status.state
        assert isinstance(writer.write_status(found, ProfileStatus(phase=Phase.TRAINING)), Written)
        until(
            profiles,
            lambda: (seen := profiles.find(namespace, "j")) and seen.status.rescale is None,
        )
        table = granted.kubectl("get", "tprof", "-n", namespace).splitlines()
        columns = "NAME PHASE PS WORKERS LOSS GOAL PROGRESS% STEPS/S REMAINING(S) AGE REASON"
        assert " ".join(table[0].split()) == columns
        granted.kubectl("delete", "tfjob", "j", "-n", namespace)
        until(profiles, lambda: profiles.find(namespace, "j") is None)
    gone = writer.write_status(profile, ProfileStatus(phase=Phase.TRAINING))
    assert isinstance(gone, Refused)
    assert gone.kind is ErrorKind.NOT_FOUND


def test_what_runs_of_a_workload_have_shown_is_stored_within_its_bounds(
    granted: LocalCluster, namespace: str, autoscaler: Client
) -> None:
    sample = SpeedSample(Counts(2, 4), 3.5, 61.5, 1_800_000_000.0, "a100")
    run = EarlierRun(
        uid="u-1",
        job="train-1",
        at=1_800_000_000.0,
        conditions="TFJob; async; batch 32 of the job",
        samples=(sample,) * MOST_SAMPLES,
        places=tuple(float(n) for n in range(MOST_LOSSES)),
        losses=(0.5,) * MOST_LOSSES,
        every_epoch=True,
        goal=TargetLoss(0.6),
        met_at=2.0,
        steps_per_epoch=100.0,
    )
    runs = [replace(run, uid=str(n)) for n in range(MOST_RUNS)]
    writer = WorkloadProfileWriter(autoscaler)
    made = writer.stored(namespace, "resnet")
    assert isinstance(made, WorkloadProfile)
    assert isinstance(writer.write(made, status_of(runs, "test")), Written)
    stale = writer.write(made, status_of(runs, "another"))
    assert isinstance(stale, Refused)
    assert stale.kind is ErrorKind.CONFLICT
    with followed(Reflector(autoscaler, watched_workload_profiles())) as profiles:

        def whole() -> WorkloadProfile | None:
            found = profiles.find(namespace, "resnet")
            return found if found is not None and found.runs else None

        assert until(profiles, whole).runs == tuple(runs)
    printed = granted.kubectl("get", "wprof", "resnet", "-n", namespace)
    assert printed.splitlines()[1].split()[:4] == ["resnet", "16", str(16 * MOST_SAMPLES), "2"]
    read_again = writer.stored(namespace, "resnet")
    assert isinstance(read_again, WorkloadProfile)
    too_many = writer.write(read_again, status_of([*runs, run]))
    assert isinstance(too_many, Refused)
    assert too_many.kind is ErrorKind.INVALID
    outdated = writer.delete(made)
    assert isinstance(outdated, Refused)
    assert outdated.kind is ErrorKind.CONFLICT
    assert isinstance(writer.delete(read_again), Written)
    forgotten = writer.stored(namespace, "resnet")
    assert isinstance(forgotten, WorkloadProfile)
    assert forgotten.runs == ()


@pytest.mark.parametrize(
    ("account", "verb", "what", "allowed"),
    [
        ("optimus-autoscaler", "patch", "tfjobs.kubeflow.org", True),
        ("optimus-autoscaler", "delete", "tfjobs.kubeflow.org", False),
        ("optimus-autoscaler", "create", "mxjobs.kubeflow.org", False),
        ("optimus-autoscaler", "patch", "pods", False),
        ("optimus-autoscaler", "delete", "pods", False),
        ("optimus-autoscaler", "get", "secrets", False),
        ("optimus-autoscaler", "patch", "nodes", False),
        ("optimus-autoscaler", "create", "workloadprofiles.optimus.dl", True),
        ("optimus-autoscaler", "delete", "workloadprofiles.optimus.dl", True),
        ("optimus-autoscaler", "update", "workloadprofiles.optimus.dl", False),
        ("optimus-scheduler", "patch", "tfjobs.kubeflow.org", False),
        ("optimus-scheduler", "patch", "trainingprofiles.optimus.dl", False),
        ("optimus-scheduler", "watch", "trainingprofiles.optimus.dl", True),
        ("optimus-scheduler", "watch", "mxjobs.kubeflow.org", True),
        ("optimus-scheduler", "get", "secrets", False),
    ],
)
def test_rights_end_where_the_design_ends_them(
    granted: LocalCluster, account: str, verb: str, what: str, allowed: bool
) -> None:
    identity = f"system:serviceaccount:optimus-system:{account}"
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": identity,
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": {
                "verb": verb,
                "resource": what.partition(".")[0],
                "group": what.partition(".")[2],
                "namespace": "default",
            },
        },
    }
    answer = granted.kubectl("create", "-f", "-", "-o", "json", stdin=json.dumps(review))
    assert json.loads(answer)["status"]["allowed"] is allowed


def deployments() -> list[dict[str, Any]]:
    paths = [MANIFESTS / "autoscaler.yaml", MANIFESTS / "scheduler.yaml"]
    return [yaml.safe_load(path.read_text()) for path in paths]


def test_the_manifests_as_shipped_are_accepted_whole(granted: LocalCluster) -> None:
    listed = granted.kubectl(
        "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-k", str(MANIFESTS)
    )
    assert "deployment.apps/optimus-scheduler" in listed
    assert "configmap/optimus-scheduler-config-" in listed
    assert all(line.endswith("serverside-applied (server dry run)") for line in listed.splitlines())


@pytest.mark.parametrize(
    "deployment", deployments(), ids=lambda document: str(document["metadata"]["name"])
)
def test_the_pods_are_admitted_at_the_restricted_level(
    granted: LocalCluster, deployment: dict[str, Any]
) -> None:
    template = deployment["spec"]["template"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe"},
        "spec": template["spec"],
    }
    made = granted.kubectl(
        "create",
        "-n",
        "optimus-system",
        "--dry-run=server",
        "-f",
        "-",
        "-o",
        "json",
        stdin=json.dumps(pod),
    )
    assert json.loads(made)["spec"]["serviceAccountName"] == template["spec"]["serviceAccountName"]
