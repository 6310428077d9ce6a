"""What operators and users do while gangs wait or are planned: nothing is left behind."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from localcluster.testing.waiting import holds_for
from tests.e2e.extender.scheduler import (
    SchedulerProcesses,
    TrainingJobs,
    nodes_of,
    scheduler_processes,
    tfjob,
    wait_until,
)
from tests.harness.api import CORE, Api, in_namespace

pytestmark = pytest.mark.e2e

OWN = "kube-scheduler-config.yaml"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"


@contextmanager
def unharmed(cluster: LocalCluster, folder: Path, *flags: str) -> Iterator[SchedulerProcesses]:
    """Both processes; at the end neither has erred, and nothing stays reserved."""
    with scheduler_processes(cluster, folder, OWN, *flags) as running:
        yield running
        wait_until("nothing is reserved", lambda: reservations(running) == 0)
        log = running.log("extender")
        assert "invariant broken" not in log
        assert "Traceback" not in log


def reservations(running: SchedulerProcesses) -> int:
    """How many replicas have a reservation; -1: not told."""
    found = re.search(
        r"^optimus_extender_reservations (\S+)$", running.get("/metrics"), re.MULTILINE
    )
    return int(float(found[1])) if found else -1


@contextmanager
def planned(
    running: SchedulerProcesses, jobs: TrainingJobs, name: str, ps: int, workers: int
) -> Iterator[None]:
    """A gang that is planned and not bound: its kube-scheduler is away."""
    jobs.submit("primer", tfjob("primer", 0, 1))
    jobs.wait_bound("primer", 1)
    jobs.delete("primer")
    running.kill("kube-scheduler")
    jobs.submit(name, tfjob(name, ps, workers))
    wait_until("it is planned", lambda: reservations(running) == ps + workers)
    yield
    running.start_scheduler()


def planned_nodes(api: Api, name: str) -> set[str]:
    label = f"training.kubeflow.org/job-name={name}"
    pods = api.items(in_namespace(CORE, "default", "pods"), labelSelector=label)
    return {pod["status"].get("nominatedNodeName", "") for pod in pods}


def test_a_job_deleted_while_it_is_planned_leaves_nothing(
    four: LocalCluster, four_jobs: TrainingJobs, tmp_path: Path
) -> None:
    with unharmed(four, tmp_path, "--leader-lease=") as running:
        with planned(running, four_jobs, "deleted", 2, 10):
            four_jobs.delete("deleted")
            wait_until("its room is free", lambda: reservations(running) == 0)
            four_jobs.submit("next", tfjob("next", 4, 12))
        four_jobs.wait_bound("next", 16)


def test_jobs_deleted_while_they_are_bound_leave_nothing(
    four: LocalCluster, four_jobs: TrainingJobs, tmp_path: Path
) -> None:
    with unharmed(four, tmp_path):
        for turn in range(4):
            name = f"short-{turn}"
            four_jobs.submit(name, tfjob(name, 2, 10))
            wait_until("some pods are bound", lambda name=name: four_jobs.nodes(name))
            four_jobs.delete(name)
        four_jobs.submit("last", tfjob("last", 4, 12))
        four_jobs.wait_bound("last", 16)


def test_a_gang_planned_on_a_node_that_is_cordoned_goes_elsewhere(
    four: LocalCluster, four_jobs: TrainingJobs, four_api: Api, tmp_path: Path
) -> None:
    with unharmed(four, tmp_path, "--leader-lease=") as running:
        try:
            with planned(running, four_jobs, "moves", 2, 6):
                wait_until(
                    "all its pods are nominated", lambda: "" not in planned_nodes(four_api, "moves")
                )
                cordoned = min(planned_nodes(four_api, "moves"))
                four.kubectl("cordon", cordoned)
            nodes = four_jobs.wait_bound("moves", 8)
            assert cordoned not in nodes.values()
        finally:
            for number in range(1, 5):
                four.kubectl("uncordon", f"node-{number}")


def test_a_gang_planned_on_a_node_that_is_deleted_goes_elsewhere(
    four: LocalCluster, four_jobs: TrainingJobs, four_api: Api, tmp_path: Path
) -> None:
    """The node's kubelet registers it again."""
    with unharmed(four, tmp_path, "--leader-lease=") as running:
        with planned(running, four_jobs, "moves", 2, 6):
            wait_until(
                "all its pods are nominated", lambda: "" not in planned_nodes(four_api, "moves")
            )
            gone = min(planned_nodes(four_api, "moves"))
            node = four_api.get(f"{CORE}/nodes/{gone}")
            four_api.delete(f"{CORE}/nodes/{gone}")
            wait_until("it is planned anew", lambda: gone not in planned_nodes(four_api, "moves"))
        nodes = four_jobs.wait_bound("moves", 8)
        assert gone not in nodes.values()
        if four_api.find(f"{CORE}/nodes/{gone}") is None:
            register(four_api, node)


def register(api: Api, node: dict[str, Any]) -> None:
    """Make a node anew as it was."""
    kept = ("name", "labels", "annotations")
    metadata = {key: value for key, value in node["metadata"].items() if key in kept}
    api.create(f"{CORE}/nodes", {"metadata": metadata, "spec": {}, "status": node["status"]})
    api.patch(f"{CORE}/nodes/{node['metadata']['name']}", {"spec": {"taints": None}})


def test_a_namespace_that_is_deleted_gives_its_room_back(
    four: LocalCluster, four_jobs: TrainingJobs, tmp_path: Path
) -> None:
    with unharmed(four, tmp_path):
        namespace = "n" * 63  # as long as a name may be
        four.kubectl("create", "namespace", namespace)
        for name, workers in (("bound", 10), ("waits", 10)):
            job = json.loads(tfjob(name, 2, workers))
            job["metadata"]["namespace"] = namespace
            four.kubectl("create", "-f", "-", stdin=json.dumps(job))
        wait_until(
            "one of them is bound",
            lambda: any(bound_in(four, namespace, name) == 12 for name in ("bound", "waits")),
        )
        four_jobs.submit("other", tfjob("other", 4, 12))
        four.kubectl("delete", "namespace", namespace, "--wait=false")
        four_jobs.wait_bound("other", 16)


def bound_in(cluster: LocalCluster, namespace: str, job: str) -> int:
    return sum(node is not None for node in nodes_of(cluster, namespace, job).values())


def test_a_gang_that_waits_is_bound_after_the_api_server_was_restarted(
    four: LocalCluster, four_jobs: TrainingJobs, tmp_path: Path
) -> None:
    with unharmed(four, tmp_path) as running:
        four_jobs.submit("first", tfjob("first", 4, 12))
        four_jobs.wait_bound("first", 16)
        four_jobs.submit("second", tfjob("second", 4, 12))
        four.wait_restarted("kube-apiserver", four.kill("kube-apiserver"))
        # kube-scheduler ends when it cannot renew its Lease; its kubelet starts it again.
        running.kill("kube-scheduler")
        running.start_scheduler()
        four_jobs.delete("first")
        four_jobs.wait_bound("second", 16)


def test_a_gang_of_which_a_quota_lets_in_a_part_waits_and_holds_no_room(
    four: LocalCluster, four_jobs: TrainingJobs, tmp_path: Path
) -> None:
    with unharmed(four, tmp_path) as running:
        four.kubectl("create", "quota", "few", "--hard=pods=5", "-n", "default")
        try:
            four_jobs.submit("part", tfjob("part", 2, 6))
            wait_until("five pods exist", lambda: len(nodes_of(four, "default", "part")) == 5)
            holds_for(
                lambda: not four_jobs.nodes("part") and reservations(running) == 0,
                "no pod is bound, nothing is reserved",
                3.0,
            )
        finally:
            four.kubectl("delete", "quota", "few", "-n", "default")


def with_template(name: str, ps: int, workers: int, **spec: Any) -> str:
    """A TFJob whose workers have these fields."""
    job = json.loads(tfjob(name, ps, workers))
    job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"] |= spec
    return json.dumps(job)


def test_gated_pods_hold_their_gang_back_until_the_gates_go(
    four: LocalCluster, four_jobs: TrainingJobs, tmp_path: Path
) -> None:
    with unharmed(four, tmp_path) as running:
        gates = [{"name": "example.com/data"}]
        four_jobs.submit("gated", with_template("gated", 1, 3, schedulingGates=gates))
        wait_until("its pods exist", lambda: len(nodes_of(four, "default", "gated")) == 4)
        holds_for(
            lambda: not four_jobs.nodes("gated") and reservations(running) == 0,
            "no pod is bound, nothing is reserved",
            3.0,
        )
        for pod in nodes_of(four, "default", "gated"):
            if "worker" in pod:
                ungated = '{"spec":{"schedulingGates":[]}}'
                four.kubectl("patch", "pod", pod, "--type=merge", "-p", ungated)
        four_jobs.wait_bound("gated", 4)


def test_a_gang_of_which_a_part_names_another_scheduler_is_completed(
    four: LocalCluster, four_jobs: TrainingJobs, tmp_path: Path
) -> None:
    """The cluster's own scheduler binds the workers at once; the PSs are planned beside them."""
    with unharmed(four, tmp_path):
        other = with_template("mixed", 1, 3, schedulerName="default-scheduler")
        four_jobs.submit("mixed", other)
        four_jobs.wait_bound("mixed", 4)


def test_a_job_with_the_longest_name_is_bound(
    four: LocalCluster, four_jobs: TrainingJobs, tmp_path: Path
) -> None:
    name = "j" * 54  # of 63, with -worker-0
    with unharmed(four, tmp_path):
        four_jobs.submit(name, tfjob(name, 1, 3))
        four_jobs.wait_bound(name, 4)


def test_nodes_that_attach_one_volume_each_hold_a_gang_with_two(
    four: LocalCluster, four_jobs: TrainingJobs, four_api: Api, tmp_path: Path
) -> None:
    """The plan puts PS and workers together; what kube-scheduler then offers is planned anew."""
    driver = {"name": "attach.test", "nodeID": "n", "allocatable": {"count": 1}}
    for number in range(1, 5):
        path = f"{CSI_NODES}/node-{number}"
        spec = {"drivers": [driver]}
        if four_api.find(path) is None:
            four_api.create(CSI_NODES, {"metadata": {"name": f"node-{number}"}, "spec": spec})
        else:
            four_api.patch(path, {"spec": spec})
    for claim in ("ps-data", "worker-data"):
        csi_volume(four_api, claim)
    job = json.loads(tfjob("attached", 1, 3))
    for role, claim in (("PS", "ps-data"), ("Worker", "worker-data")):
        spec = job["spec"]["tfReplicaSpecs"][role]["template"]["spec"]
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    with unharmed(four, tmp_path):
        four_jobs.submit("attached", json.dumps(job))
        nodes = four_jobs.wait_bound("attached", 4)
        ps = {node for pod, node in nodes.items() if "-ps-" in pod}
        assert not ps & {node for pod, node in nodes.items() if "-worker-" in pod}


def csi_volume(api: Api, name: str) -> None:
    """A volume of a CSI driver, bound to a claim of its name."""
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    reference = {"namespace": "default", "name": name}
    volume = {
        **common,
        "capacity": {"storage": "1Gi"},
        "csi": {"driver": "attach.test", "volumeHandle": name},
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **reference},
    }
    api.create(f"{CORE}/persistentvolumes", {"metadata": {"name": name}, "spec": volume})
    requests = {"resources": {"requests": {"storage": "1Gi"}}}
    claim = {**common, **requests, "volumeName": name}
    claims = in_namespace(CORE, "default", "persistentvolumeclaims")
    api.create(claims, {"metadata": {"name": name}, "spec": claim})
