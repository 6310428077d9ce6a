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
from tests.e2e.extender.scheduler import TrainingJobs, scheduler_processes, tfjob, wait_until

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


@pytest.fixture
def jobs(own: LocalCluster, tmp_path: Path) -> Iterator["Jobs"]:
    with scheduler_processes(own, tmp_path):
        made = Jobs(own)
        yield made
        made.delete(*made.names)
        wait_until("all pods are gone", lambda: not own.get("pods", "-n", "default")["items"])


class Jobs(TrainingJobs):
    """TFJobs of workers alone with rules of one kind, deleted at the end."""

    def create(self, name: str, workers: int, **spec: Any) -> None:
        """A job of so many workers with these fields in their pods' spec."""
        job = json.loads(tfjob(name, 0, workers))
        del job["spec"]["tfReplicaSpecs"]["PS"]
        template = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]
        template["metadata"] = {"labels": {"group": "rules"}}
        container = template["spec"]["containers"][0]
        container |= spec.pop("container", {})
        template["spec"] |= spec
        self.submit(name, json.dumps(job))

    def wait_refused(self, name: str, pods: int, sentence: str) -> None:
        """Wait until every pod of the job says so, and none is bound."""

        def messages() -> list[str]:
            label = f"training.kubeflow.org/job-name={name}"
            found = self._cluster.get("pods", "-n", "default", "-l", label)["items"]
            return [json.dumps(pod["status"].get("conditions", [])) for pod in found]

        def told() -> bool:
            found = messages()
            return len(found) == pods and all(sentence in each for each in found)

        wait_until(f"all pods of {name} say {sentence!r}", told)
        assert not self.nodes(name)


def anti_affinity(key: str) -> dict[str, Any]:
    required = [{"topologyKey": key, "labelSelector": SELECTOR}]
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def test_of_two_jobs_that_keep_apart_one_is_bound_whole_and_one_waits_whole(jobs: Jobs) -> None:
    jobs.create("apart-a", 4, affinity=anti_affinity(HOST))
    assert len({*jobs.wait_bound("apart-a", 4).values()}) == 4
    jobs.create("apart-b", 4, affinity=anti_affinity(HOST))
    jobs.wait_refused("apart-b", 4, "required pod anti-affinity leaves too few nodes")
    jobs.delete("apart-a")
    assert len({*jobs.wait_bound("apart-b", 4).values()}) == 4


def test_two_such_jobs_created_at_once_are_not_mixed(jobs: Jobs) -> None:
    jobs.create("once-a", 4, affinity=anti_affinity(HOST))
    jobs.create("once-b", 4, affinity=anti_affinity(HOST))
    wait_until(
        "one of them is bound whole",
        lambda: {len(jobs.nodes("once-a")), len(jobs.nodes("once-b"))} == {0, 4},
    )
    waiting = "once-b" if jobs.nodes("once-a") else "once-a"
    jobs.wait_refused(waiting, 4, "required pod anti-affinity leaves too few nodes")


def test_a_host_port_is_taken_once_per_node(jobs: Jobs) -> None:
    ports = {"ports": [{"name": "x", "containerPort": 4444, "hostPort": 4444}]}
    jobs.create("port-a", 4, container=ports)
    assert len({*jobs.wait_bound("port-a", 4).values()}) == 4
    jobs.create("port-b", 3, container=ports)
    jobs.wait_refused("port-b", 3, "no free host port for each of its pods")


def test_a_topology_spread_is_bound_whole(jobs: Jobs) -> None:
    constraint = {
        "topologyKey": "zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": SELECTOR,
    }
    jobs.create("spread", 8, topologySpreadConstraints=[constraint])
    zones = Counter(ZONES[node] for node in jobs.wait_bound("spread", 8).values())
    assert zones == {"east": 4, "west": 4}


def test_a_gang_that_wants_to_be_in_one_zone_is_bound_there(jobs: Jobs) -> None:
    required = [{"topologyKey": "zone", "labelSelector": SELECTOR}]
    beside = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    jobs.create("beside", 9, affinity=beside)
    assert len({ZONES[node] for node in jobs.wait_bound("beside", 9).values()}) == 1


def test_a_volume_of_one_zone_keeps_its_gang_there(
    own: LocalCluster, jobs: Jobs, tmp_path: Path
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
    jobs.create("zonal", 6, volumes=volumes, container=mounts)
    for body in (volume, claim):
        own.kubectl("create", "-f", "-", stdin=json.dumps(body))
    assert {ZONES[node] for node in jobs.wait_bound("zonal", 6).values()} == {"west"}
    jobs.create("too-large", 8, volumes=volumes, container=mounts)
    jobs.wait_refused("too-large", 8, "its volumes leave too few nodes")
