"""Gangs whose pods have rules, behind a real kube-scheduler: bound whole, or waiting whole."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from localcluster.specs import numbered_nodes
from localcluster.testing.clusters import Shown
from tests.e2e.extender.scheduler import TrainingJobs, scheduler_processes, tfjob
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.e2e

HOST = "kubernetes.io/hostname"
ZONES = {f"node-{number}": "east" if number <= 3 else "west" for number in range(1, 7)}
SELECTOR = {"matchLabels": {"group": "rules"}}


@pytest.fixture(scope="module")
def own(shown: Shown) -> Iterator[LocalCluster]:
    """Six nodes of four CPUs in two zones, shared with nobody: these tests fill them."""
    with (
        LocalCluster("rules", numbered_nodes(6, {"cpu": "4", "memory": "8Gi"})) as cluster,
        shown(cluster),
    ):
        for node, zone in ZONES.items():
            cluster.kubectl("label", "node", node, f"zone={zone}", f"{HOST}={node}", "--overwrite")
        yield cluster


@pytest.fixture(autouse=True)
def processes(own: LocalCluster, tmp_path: Path) -> Iterator[None]:
    """The two processes run during each of these tests."""
    with scheduler_processes(own, tmp_path):
        yield


def workers_with(name: str, workers: int, **spec: Any) -> str:
    """A TFJob of so many workers alone with these fields in their pods' spec."""
    job = json.loads(tfjob(name, 0, workers))
    del job["spec"]["tfReplicaSpecs"]["PS"]
    template = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    template["metadata"] = {"labels": {"group": "rules"}}
    container = template["spec"]["containers"][0]
    container |= spec.pop("container", {})
    template["spec"] |= spec
    return json.dumps(job)


def anti_affinity(key: str) -> dict[str, Any]:
    required = [{"topologyKey": key, "labelSelector": SELECTOR}]
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def test_two_such_jobs_created_at_once_are_not_mixed(jobs: TrainingJobs) -> None:
    jobs.submit("once-a", workers_with("once-a", 4, affinity=anti_affinity(HOST)))
    jobs.submit("once-b", workers_with("once-b", 4, affinity=anti_affinity(HOST)))
    wait_until(
        "one of them is bound whole",
        lambda: {len(jobs.nodes("once-a")), len(jobs.nodes("once-b"))} == {0, 4},
    )
    waiting = "once-b" if jobs.nodes("once-a") else "once-a"
    jobs.wait_refused(waiting, 4, "required pod anti-affinity leaves too few nodes")


def test_a_host_port_is_taken_once_per_node(jobs: TrainingJobs) -> None:
    ports = {"ports": [{"name": "x", "containerPort": 4444, "hostPort": 4444}]}
    jobs.submit("port-a", workers_with("port-a", 4, container=ports))
    assert len({*jobs.wait_bound("port-a", 4).values()}) == 4
    jobs.submit("port-b", workers_with("port-b", 3, container=ports))
    jobs.wait_refused("port-b", 3, "no free host port for each of its pods")


def test_a_topology_spread_is_bound_whole(jobs: TrainingJobs) -> None:
    constraint = {
        "topologyKey": "zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": SELECTOR,
    }
    jobs.submit("spread", workers_with("spread", 8, topologySpreadConstraints=[constraint]))
    zones = Counter(ZONES[node] for node in jobs.wait_bound("spread", 8).values())
    assert zones == {"east": 4, "west": 4}


def test_a_volume_of_one_zone_keeps_its_gang_there(
    own: LocalCluster, jobs: TrainingJobs, tmp_path: Path
) -> None:
    folder = tmp_path / "volume"
    folder.mkdir()
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["west"]}]}]
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "west"},
        "spec": {
            **common,
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": str(folder)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {**common, "volumeName": "west", "resources": {"requests": {"storage": "1Gi"}}},
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    mounts = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    jobs.submit("zonal", workers_with("zonal", 6, volumes=volumes, container=mounts))
    for body in (volume, claim):
        own.kubectl("create", "-f", "-", stdin=json.dumps(body))
    assert {ZONES[node] for node in jobs.wait_bound("zonal", 6).values()} == {"west"}
    jobs.submit("too-large", workers_with("too-large", 8, volumes=volumes, container=mounts))
    jobs.wait_refused("too-large", 8, "its volumes leave too few nodes")
