"""What others do on a shared cluster: slow volumes, an API server that throttles, forged owners,
users who ask why."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from localcluster.faults.faults import Calls, ErrorResponse, Fault
from localcluster.kubeconfig import read_kubeconfig, write_kubeconfig
from localcluster.testing.waiting import holds_for
from optimus.cli.main import main
from tests.e2e.extender.scheduler import (
    REPOSITORY,
    TrainingJobs,
    frozen,
    reservations,
    scheduler_processes,
    tfjob,
)
from tests.e2e.extender.watched import watched
from tests.harness.api import CORE, Api, in_namespace
from tests.harness.waiting import wait_until
from tests.harness.watch_recorder import WatchRecorder

pytestmark = pytest.mark.e2e

WRITERS = 8
"""Threads of the extender that write to pods."""

STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CLAIMS = in_namespace(CORE, "default", "persistentvolumeclaims")
VOLUMES = f"{CORE}/persistentvolumes"
ANY_NODE_PATCH = Calls("PATCH", "/pods/[^/]+/status")


def with_claim(name: str, ps: int, workers: int, claim: str) -> str:
    """A TFJob of which every pod mounts the claim."""
    job = json.loads(tfjob(name, ps, workers))
    for replicas in job["spec"]["tfReplicaSpecs"].values():
        spec = replicas["template"]["spec"]
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
        spec["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return json.dumps(job)


def test_room_of_pods_whose_binding_waits_for_a_volume_is_not_given_away(
    own: LocalCluster, jobs: TrainingJobs, api: Api, tmp_path: Path
) -> None:
    """kube-scheduler waits for a provisioner for longer than reservations last."""
    folder = tmp_path / "volume"
    folder.mkdir()
    late = {"metadata": {"name": "late"}, "provisioner": "test/late"}
    api.create(STORAGE_CLASSES, {**late, "volumeBindingMode": "WaitForFirstConsumer"})
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": "late"}
    requests = {"resources": {"requests": {"storage": "1Gi"}}}
    api.create(CLAIMS, {"metadata": {"name": "late"}, "spec": {**common, **requests}})
    with scheduler_processes(own, tmp_path, config={"reservation_seconds": 3}):
        jobs.submit("binds", with_claim("binds", 1, 3, "late"))
        selected = "volume.kubernetes.io/selected-node"
        claim = f"{CLAIMS}/late"
        wait_until(
            "kube-scheduler waits for the volume",
            lambda: selected in (api.get(claim)["metadata"].get("annotations") or {}),
        )
        jobs.create("greedy", 1, 12)
        holds_for(lambda: not jobs.nodes("greedy"), "the room is not given to another gang", 12.0)
        volume = {"capacity": {"storage": "1Gi"}, "hostPath": {"path": str(folder)}, **common}
        reference = {"namespace": "default", "name": "late"}
        volume["claimRef"] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **reference}
        api.create(VOLUMES, {"metadata": {"name": "late"}, "spec": volume})
        assert len({*jobs.wait_bound("binds", 4).values()}) == 1
        assert not jobs.nodes("greedy")
        jobs.delete("binds")
        jobs.wait_bound("greedy", 13)


def test_writes_pause_while_the_api_server_throttles_and_go_on_after_it(
    own: LocalCluster, jobs: TrainingJobs, tmp_path: Path
) -> None:
    with watched(own, tmp_path) as seen:
        jobs.create("first", 4, 12)
        jobs.wait_bound("first", 16)
        jobs.create("second", 4, 12)
        wait_until("each pod was refused", lambda: len(seen.refused("second")) == 16)
        # It would bind them by itself, when it is the faster of the two.
        seen.processes.kill("kube-scheduler")
        seen.traffic.inject(Fault(ANY_NODE_PATCH, ErrorResponse(429, 2), times=1_000_000))
        jobs.delete("first")
        wait_until("a write was throttled", seen.writes)
        began = time.time()
        wait_until("ten seconds have passed", lambda: time.time() - began >= 10)
        # At most one write of each thread before every pause: of 2, 2, 4 and 8 s.
        calls = [each for each in seen.write_calls() if each.at <= began + 10]
        throttled = [each for each in calls if each.fault is not None]
        assert len(throttled) <= 4 * WRITERS
        seen.traffic.inject()
        seen.processes.start_scheduler()
        jobs.wait_bound("second", 16)


def test_a_pod_of_another_namespace_with_a_jobs_uid_gets_none_of_its_room(
    own: LocalCluster, jobs: TrainingJobs, api: Api, tmp_path: Path
) -> None:
    flags = ("kube-scheduler-config.yaml", "--leader-lease=")
    own.kubectl("create", "namespace", "forger")
    with (
        scheduler_processes(own, tmp_path, *flags) as running,
        frozen(own, "kube-controller-manager"),  # it would delete pods with owners elsewhere
    ):
        jobs.create("primer", 1, 1)  # kube-scheduler's first list of nodes
        jobs.wait_bound("primer", 2)
        running.kill("kube-scheduler")
        jobs.create("victim", 1, 3)
        wait_until("it is planned", lambda: reservations(running) == 4)
        pods = in_namespace(CORE, "forger", "pods")
        with WatchRecorder(api, pods) as forged:
            for pod in pods_of(api, "victim"):
                api.create(pods, forgery(pod))
            wait_until("the log says so", lambda: "is not its job" in running.log("extender"))
            running.start_scheduler()
            nodes = jobs.wait_bound("victim", 4)
            assert len({*nodes.values()}) == 1
            wait_until("the forged pods are seen", lambda: len(forged.objects) >= 4)
            assert not any(map(requeued, forged.objects))
        for pod in api.items(pods):
            path = f"{pods}/{pod['metadata']['name']}"
            own.kubectl("delete", "--raw", f"{path}?gracePeriodSeconds=0")


def pods_of(api: Api, job: str) -> list[dict[str, Any]]:
    label = f"training.kubeflow.org/job-name={job}"
    return api.items(in_namespace(CORE, "default", "pods"), labelSelector=label)


def requeued(pod: dict[str, Any]) -> bool:
    return "optimus.dl/requeued" in pod["metadata"].get("annotations", {})


def forgery(pod: dict[str, Any]) -> dict[str, Any]:
    """A pod like it, its owner too, for another namespace."""
    kept = ("name", "labels", "ownerReferences")
    metadata = {key: value for key, value in pod["metadata"].items() if key in kept}
    spec = {key: pod["spec"][key] for key in ("containers", "schedulerName")}
    for container in spec["containers"]:
        container.pop("volumeMounts", None)
    return {"metadata": metadata, "spec": spec}


def viewer(cluster: LocalCluster, path: Path) -> Path:
    """A kubeconfig of somebody who may view the default namespace, as any cluster's users may."""
    cluster.kubectl("create", "serviceaccount", "reader", "-n", "default")
    binding = ("rolebinding", "reader", "--clusterrole=view", "--serviceaccount=default:reader")
    cluster.kubectl("create", *binding, "-n", "default")
    token = cluster.kubectl("create", "token", "reader", "-n", "default").strip()
    admin = read_kubeconfig(cluster.kubeconfig)
    write_kubeconfig(path, admin.server, admin.ca_pem, {"token": token})
    return path


def test_who_may_view_a_namespace_sees_why_a_job_waits(
    own: LocalCluster, jobs: TrainingJobs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = viewer(own, tmp_path / "reader")
    own.apply(REPOSITORY / "manifests" / "crds/crd-trainingprofiles.yaml")
    with scheduler_processes(own, tmp_path) as running:
        jobs.create("wide", 1, 16)
        asked = ["why", "wide", "-n", "default", "--kubeconfig", str(kubeconfig)]
        assert main(asked) != 0, "Kubernetes' four role view has no training jobs"
        assert "you may not get tfjobs.kubeflow.org" in capsys.readouterr().err
        own.apply(REPOSITORY / "manifests" / "user-roles/rbac.yaml")
        wait_until("the role view has been completed", lambda: main(asked) == 0)
        capsys.readouterr()
        inspected = [*asked, "--inspect", f"http://127.0.0.1:{running.port}"]
        text = ""

        def event_shown() -> bool:
            nonlocal text
            assert main(inspected) == 0
            text = capsys.readouterr().out
            return "place 1, 0 jobs before it" in text

        wait_until("an Event names the place in the queue", event_shown)
        assert "waits for nodes: 17 of 17 pods have none" in text
        assert "does not fit" in text
        assert main(["why", "wide", "-n", "kube-system", "--kubeconfig", str(kubeconfig)]) != 0
        assert "you may not get tfjobs.kubeflow.org" in capsys.readouterr().err
        assert main([*asked, "--inspect", "http://127.0.0.1:1"]) != 0
        assert "is the port forwarded?" in capsys.readouterr().err
