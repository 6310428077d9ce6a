"""Which gang gets which nodes on a cluster that others use too: priorities, the nodes of an old
gang."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from localcluster.specs import numbered_nodes
from localcluster.testing.clusters import Shown
from localcluster.testing.waiting import holds_for
from tests.e2e.extender.scheduler import (
    REPOSITORY,
    SchedulerProcesses,
    reservations,
    scheduler_processes,
    single_pod,
    tfjob,
)
from tests.harness.api import CORE, KUBEFLOW, OPTIMUS, Api, in_namespace
from tests.harness.waiting import wait_until

NODES = tuple(f"node-{number}" for number in range(1, 7))
CPUS = 5
JOBS = in_namespace(KUBEFLOW, "default", "tfjobs")
PODS = in_namespace(CORE, "default", "pods")
PROFILES = in_namespace(OPTIMUS, "default", "trainingprofiles")
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
CONFIGURATION = "kube-scheduler-config.yaml"


@pytest.fixture(scope="module")
def six(shown: Shown) -> Iterator[LocalCluster]:
    """Six nodes of five CPUs, and a PriorityClass."""
    nodes = numbered_nodes(len(NODES), {"cpu": str(CPUS), "memory": "8Gi"})
    with LocalCluster("ordering", nodes) as cluster, shown(cluster):
        cluster.apply(REPOSITORY / "manifests" / "crds/crd-trainingprofiles.yaml")
        with cluster.api_client() as client:
            Api(client).create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
        yield cluster


class SharedCluster:
    """The cluster of one test, and who uses it."""

    def __init__(self, cluster: LocalCluster, api: Api) -> None:
        self.cluster, self._api = cluster, api

    def job(self, name: str, ps: int, workers: int, *, cpu: str = "1", **fields: Any) -> None:
        body = json.loads(tfjob(name, ps, workers, ps_cpu=cpu, worker_cpu=cpu, **fields))
        if not ps:
            del body["spec"]["tfReplicaSpecs"]["PS"]
        self._api.create(JOBS, body)

    def running_job(self, name: str, node: str, cpu: str) -> None:
        """A job of one worker that runs there already."""
        self.job(name, 0, 1, cpu=cpu, nodeName=node)
        wait_until(f"{name} is bound", lambda: len(self.bound(name)) == 1)

    def pod(self, name: str, cpu: str, **spec: Any) -> None:
        """A pod of no training job."""
        self._api.create(PODS, single_pod(name, cpu, **spec))

    def leave(self, free: dict[str, int]) -> None:
        """Pods of others take all CPUs but these, by node; they run."""
        for node in NODES:
            taken = CPUS - free.get(node, 0)
            if taken:
                self.pod(f"others-{node}", str(taken), nodeName=node)

    def forecast(self, job: str, seconds: float) -> None:
        """What the autoscaler writes of a job that ends in so many seconds."""
        uid = self._api.get(f"{JOBS}/{job}")["metadata"]["uid"]
        body = {
            "apiVersion": "optimus.dl/v1alpha1",
            "kind": "TrainingProfile",
            "metadata": {"name": job},
            "spec": {"jobRef": {"kind": "TFJob", "name": job, "uid": uid}},
        }
        self._api.create(PROFILES, body)
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        status = {"decidedAt": now, "remainingSeconds": seconds}
        self._api.patch(f"{PROFILES}/{job}/status", {"status": status})

    def pods_of(self, name: str) -> list[dict[str, Any]]:
        """The pods of a job, or the pod of this name."""
        own = {"PS": "ps", "Worker": "worker"}.values()
        names = {f"{name}-{role}-{index}" for role in own for index in range(20)} | {name}
        return [pod for pod in self._api.items(PODS) if pod["metadata"]["name"] in names]

    def bound(self, name: str) -> dict[str, str]:
        """Node by pod."""
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in self.pods_of(name)
            if pod["spec"].get("nodeName")
        }

    def wait_bound(self, name: str, pods: int) -> dict[str, str]:
        wait_until(f"all pods of {name} are bound", lambda: len(self.bound(name)) == pods)
        return self.bound(name)

    def wait_refused(self, name: str, sentence: str) -> None:
        def messages() -> list[str]:
            return [json.dumps(pod["status"].get("conditions", [])) for pod in self.pods_of(name)]

        wait_until(
            f"{name} is refused: {sentence!r}",
            lambda: (found := messages()) and all(sentence in each for each in found),
        )
        assert not self.bound(name)

    def delete_job(self, name: str) -> None:
        self._api.delete(f"{JOBS}/{name}")

    def delete_pod(self, name: str) -> None:
        self._api.delete(f"{PODS}/{name}")

    def clear(self) -> None:
        for job in self._api.items(JOBS):
            self.delete_job(job["metadata"]["name"])
        for profile in self._api.items(PROFILES):
            self._api.delete(f"{PROFILES}/{profile['metadata']['name']}")
        for pod in self._api.items(PODS):
            if not pod["metadata"].get("ownerReferences"):
                self.delete_pod(pod["metadata"]["name"])
        wait_until("all pods are gone", lambda: not self._api.items(PODS))


@pytest.fixture
def shared(six: LocalCluster) -> Iterator[SharedCluster]:
    with six.api_client() as client:
        shared = SharedCluster(six, Api(client))
        yield shared
        shared.clear()


def inspected(running: SchedulerProcesses, job: str) -> dict[str, Any]:
    """What /inspect says of a job; {} while it says nothing."""
    found = json.loads(running.get(f"/inspect?job=default/{job}") or "{}").get("gangs") or [{}]
    return dict(found[0])


def test_of_two_waiting_gangs_the_one_of_the_higher_priority_goes_first(
    shared: SharedCluster, tmp_path: Path
) -> None:
    """The other one has waited longer, and is smaller."""
    shared.leave({"node-1": 1})
    with scheduler_processes(shared.cluster, tmp_path, CONFIGURATION):
        shared.job("low", 1, 2)
        shared.wait_refused("low", "does not fit as a whole")
        shared.job("high", 2, 3, priorityClassName="high")
        shared.wait_refused("high", "does not fit as a whole")
        shared.delete_pod("others-node-1")
        assert set(shared.wait_bound("high", 5).values()) == {"node-1"}
        assert not shared.bound("low")
        shared.delete_job("high")
        shared.wait_bound("low", 3)


@pytest.mark.parametrize("priority_class", ["", "high"])
def test_a_pod_of_no_job_takes_what_is_reserved_for_gangs_of_a_lower_priority_alone(
    shared: SharedCluster, tmp_path: Path, priority_class: str
) -> None:
    """kube-scheduler tries it first: the reservation alone is in its way."""
    shared.leave({"node-1": CPUS})
    running = SchedulerProcesses(
        shared.cluster,
        tmp_path,
        CONFIGURATION,
        ("--leader-lease=",),
    )
    try:
        running.start_extender()
        shared.pod("single", "1", priorityClassName=priority_class)
        shared.job("gang", 1, 4)
        wait_until("the gang is planned", lambda: reservations(running) == 5)
        running.start_scheduler()
        bound, waits = ("single", "gang") if priority_class else ("gang", "single")
        shared.wait_bound(bound, len(shared.pods_of(bound)))
        wait_until(
            "the other was tried",
            lambda: all(pod["status"].get("conditions") for pod in shared.pods_of(waits)),
        )
        assert not shared.bound(waits)
        assert "invariant broken" not in running.log("extender")
    finally:
        running.stop()


def test_an_old_gang_closes_the_nodes_of_its_own_plan_alone(
    shared: SharedCluster, tmp_path: Path
) -> None:
    """It needs two empty nodes, and a job runs on each of the six; four of five CPUs are free."""
    for number, node in enumerate(NODES):
        shared.running_job(f"runs-{number}", node, "1")
        shared.forecast(f"runs-{number}", 900)
    with scheduler_processes(
        shared.cluster, tmp_path, CONFIGURATION, config={"age_limit_seconds": 1}
    ) as running:
        shared.job("old", 1, 1, cpu=str(CPUS))
        closed: list[str] = wait_until(
            "it closes nodes", lambda: inspected(running, "old").get("keepsNodes", [])
        )
        assert len(closed) == 2
        for number in range(4):
            shared.job(f"small-{number}", 1, 1, cpu="2")
        small = [node for at in range(4) for node in shared.wait_bound(f"small-{at}", 2).values()]
        assert set(small) == set(NODES) - set(closed)
        shared.job("after", 1, 1, cpu="2")
        shared.wait_refused("after", "a job before it in the queue needs the capacity")
        shared.job("short", 1, 1, cpu="2")
        shared.forecast("short", 60)  # it ends before the room can be free
        assert set(shared.wait_bound("short", 2).values()) <= set(closed)
        shared.delete_job("short")
        for node in closed:
            shared.delete_job(f"runs-{NODES.index(node)}")
        assert set(shared.wait_bound("old", 2).values()) == set(closed)
        holds_for(lambda: not shared.bound("after"), "the gang behind it has no room", 2.0)
        assert "invariant broken" not in running.log("extender")
