"""Pods and gangs with a priority on full nodes: no running job is lost for a gang that then does
not fit, and with --preempt of the autoscaler whole jobs make room for a whole one and come back."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from localcluster.specs import numbered_nodes
from localcluster.testing.clusters import Shown
from localcluster.testing.waiting import holds_for
from tests.e2e.extender.scheduler import scheduler_processes, single_pod, tfjob
from tests.harness.api import CORE, KUBEFLOW, Api, in_namespace
from tests.harness.waiting import wait_until

NODES = 6
JOBS = in_namespace(KUBEFLOW, "default", "tfjobs")
PODS, EVENTS = (in_namespace(CORE, "default", plural) for plural in ("pods", "events"))
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
OWN, CLUSTERS = "kube-scheduler-config.yaml", "cluster-scheduler.yaml"
MARK = "optimus.dl/suspended-by"
CRDS = Path(__file__).parents[3] / "manifests/crds"


@pytest.fixture(scope="module")
def six(shown: Shown) -> Iterator[LocalCluster]:
    """Six nodes of four CPUs, and a PriorityClass."""
    nodes = numbered_nodes(NODES, {"cpu": "4", "memory": "8Gi"})
    with LocalCluster("preempting", nodes) as cluster, shown(cluster):
        cluster.apply(CRDS)
        yield cluster


@pytest.fixture
def full(six: LocalCluster) -> Iterator["FullCluster"]:
    with six.api_client() as client:
        full = FullCluster(six, Api(client))
        yield full
        full.clear()


class FullCluster:
    """Jobs of one PS and one worker of two CPUs each, as many as there are nodes."""

    def __init__(self, cluster: LocalCluster, api: Api) -> None:
        self.cluster, self._api = cluster, api
        if api.find(f"{PRIORITY_CLASSES}/high") is None:
            api.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})

    def fill(self, count: int = NODES) -> None:
        """Wait until so many jobs run."""
        for index in range(count):
            self.job(f"low-{index}", 1, 1, ps_cpu="2", worker_cpu="2")
        wait_until("they run", lambda: len(self.running_jobs()) == count)

    def job(self, name: str, ps: int, workers: int, **fields: str) -> None:
        self._api.create(JOBS, json.loads(tfjob(name, ps, workers, **fields)))

    def pod(self, name: str, cpu: str, **spec: object) -> None:
        """A pod of no training job."""
        self._api.create(PODS, single_pod(name, cpu, **spec))

    def running_jobs(self) -> set[str]:
        """The jobs with the condition Running and without Failed."""
        return {
            job["metadata"]["name"]
            for job in self._api.items(JOBS)
            if {"Running"} == self.conditions(job) - {"Created"}
        }

    def conditions(self, job: dict[str, Any]) -> set[str]:
        found = job.get("status", {}).get("conditions") or ()
        return {each["type"] for each in found if each["status"] == "True"}

    def refused(self, prefix: str) -> list[str]:
        """The sentences of pods whose names begin so and that have no node."""
        conditions = [
            each
            for pod in self._api.items(PODS)
            if pod["metadata"]["name"].startswith(prefix)
            for each in pod["status"].get("conditions") or ()
        ]
        return [each["message"] for each in conditions if each.get("reason") == "Unschedulable"]

    def preempted(self) -> list[str]:
        """The names of pods with an Event Preempted."""
        found = [event for event in self._api.items(EVENTS) if event["reason"] == "Preempted"]
        return [event["involvedObject"]["name"] for event in found]

    def marked(self) -> set[str]:
        """The jobs that are suspended for another."""
        return {
            job["metadata"]["name"]
            for job in self._api.items(JOBS)
            if MARK in (job["metadata"].get("annotations") or {})
        }

    def delete(self, job: str) -> None:
        self._api.delete(f"{JOBS}/{job}")

    def node_of(self, pod: str) -> str | None:
        found = [each for each in self._api.items(PODS) if each["metadata"]["name"] == pod]
        return found[0]["spec"].get("nodeName") if found else None

    def runs(self, pod: str) -> bool:
        found = [each for each in self._api.items(PODS) if each["metadata"]["name"] == pod]
        return bool(found) and found[0]["status"].get("phase") == "Running"

    def assert_unharmed(self, jobs: int) -> None:
        """No job is lost, and for some seconds none is going to be."""
        holds_for(
            lambda: not self.preempted() and len(self.running_jobs()) == jobs,
            f"all {jobs} jobs run and nobody was preempted",
            3.0,
        )

    def clear(self) -> None:
        for job in self._api.items(JOBS):
            self._api.delete(f"{JOBS}/{job['metadata']['name']}")
        for pod in self._api.items(PODS):
            if not pod["metadata"].get("ownerReferences"):
                self._api.delete(f"{PODS}/{pod['metadata']['name']}")
        wait_until("all pods are gone", lambda: not self._api.items(PODS))
        for event in self._api.items(EVENTS):
            self._api.delete(f"{EVENTS}/{event['metadata']['name']}")


@pytest.mark.parametrize("configuration", [OWN, CLUSTERS])
def test_a_job_that_can_never_fit_evicts_nobody(
    full: FullCluster, tmp_path: Path, configuration: str
) -> None:
    with scheduler_processes(full.cluster, tmp_path, configuration):
        full.fill()
        full.job("high", 1, 8, ps_cpu="3", worker_cpu="3", priorityClassName="high")
        wait_until("all its pods were tried", lambda: len(full.refused("high")) == 9)
        full.assert_unharmed(NODES)


def test_behind_the_clusters_scheduler_another_pod_preempts_where_no_job_fails(
    full: FullCluster, tmp_path: Path
) -> None:
    with scheduler_processes(full.cluster, tmp_path, CLUSTERS):
        # It has run for longest: of victims that matter alike kube-scheduler evicts the youngest.
        full.pod("plain", "4")
        wait_until("it runs", lambda: full.runs("plain"))
        full.fill(NODES - 1)
        node = full.node_of("plain")
        full.pod("urgent", "2", priorityClassName="high")
        wait_until("the urgent pod has a node", lambda: full.node_of("urgent"))
        wait_until("an Event tells who made room", full.preempted)
        assert (full.node_of("urgent"), full.preempted()) == (node, ["plain"])
        assert len(full.running_jobs()) == NODES - 1


# --- with --preempt


def test_nobody_is_preempted_by_default_nor_for_a_gang_that_then_does_not_fit(
    full: FullCluster, tmp_path: Path
) -> None:
    with scheduler_processes(full.cluster, tmp_path, OWN) as running:
        running.start_autoscaler()
        full.fill()
        full.job("high", 1, 1, ps_cpu="2", worker_cpu="2", priorityClassName="high")
        wait_until("it was tried", lambda: len(full.refused("high")) == 2)
        full.assert_unharmed(NODES)
        running.kill("autoscaler")
        running.start_autoscaler("--preempt")
        full.delete("high")
        full.job("large", 1, 8, ps_cpu="3", worker_cpu="3", priorityClassName="high")
        full.job("equal", 1, 1, ps_cpu="2", worker_cpu="2")
        wait_until("both were tried", lambda: len(full.refused("large")) == 9)
        full.assert_unharmed(NODES)


@pytest.mark.parametrize("process", ["autoscaler", "extender"])
def test_a_process_that_is_killed_between_suspension_and_binding_is_replaced(
    full: FullCluster, tmp_path: Path, process: str
) -> None:
    with scheduler_processes(full.cluster, tmp_path, OWN) as running:
        full.fill()
        running.start_autoscaler("--preempt")
        full.job("high", 1, 1, ps_cpu="2", worker_cpu="2", priorityClassName="high")
        (victim,) = wait_until("a job is marked", full.marked)
        running.kill(process)
        if process == "extender":
            running.start_extender()
        else:
            running.start_autoscaler("--preempt")
        wait_until("it runs", lambda: "high" in full.running_jobs())
        wait_until("the victim is resumed", lambda: not full.marked())
        full.delete("high")
        wait_until("all run again", lambda: len(full.running_jobs()) == NODES)
        assert victim in full.running_jobs()
