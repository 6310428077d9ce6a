"""What operators and users do while gangs wait or are planned: nothing is left behind."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from tests.e2e.extender.scheduler import (
    SchedulerProcesses,
    TrainingJobs,
    reservations,
    scheduler_processes,
    tfjob,
    unharmed,
)
from tests.harness.api import CORE, Api
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.e2e

CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"


@contextmanager
def planned(
    running: SchedulerProcesses, jobs: TrainingJobs, name: str, ps: int, workers: int
) -> Iterator[None]:
    """A gang that is planned and not bound: its kube-scheduler is away."""
    jobs.create("primer", 0, 1)
    jobs.wait_bound("primer", 1)
    jobs.delete("primer")
    running.kill("kube-scheduler")
    jobs.create(name, ps, workers)
    wait_until("it is planned", lambda: reservations(running) == ps + workers)
    yield
    running.start_scheduler()


def planned_nodes(running: SchedulerProcesses, name: str) -> set[str]:
    (gang,) = json.loads(running.get(f"/inspect?job=default/{name}"))["gangs"]
    return {*gang["nodes"].values()}


def test_jobs_deleted_while_they_are_bound_leave_nothing(
    own: LocalCluster, jobs: TrainingJobs, tmp_path: Path
) -> None:
    with unharmed(own, tmp_path):
        for turn in range(4):
            name = f"short-{turn}"
            jobs.create(name, 2, 10)
            wait_until("some pods are bound", partial(jobs.nodes, name))
            jobs.delete(name)
        jobs.create("last", 4, 12)
        jobs.wait_bound("last", 16)


def test_a_gang_planned_on_a_node_that_is_deleted_goes_elsewhere(
    own: LocalCluster, jobs: TrainingJobs, api: Api, tmp_path: Path
) -> None:
    """The node's kubelet registers it again."""
    with unharmed(own, tmp_path, "--leader-lease=") as running:
        with planned(running, jobs, "moves", 2, 6):
            gone = min(planned_nodes(running, "moves"))
            node = api.get(f"{CORE}/nodes/{gone}")
            api.delete(f"{CORE}/nodes/{gone}")
            wait_until(
                "it is planned again",
                lambda: (nodes := planned_nodes(running, "moves")) and gone not in nodes,
            )
        nodes = jobs.wait_bound("moves", 8)
        assert gone not in nodes.values()
        if api.find(f"{CORE}/nodes/{gone}") is None:
            register(api, node)


def register(api: Api, node: dict[str, Any]) -> None:
    """Create a node again as it was."""
    kept = ("name", "labels", "annotations")
    metadata = {key: value for key, value in node["metadata"].items() if key in kept}
    api.create(f"{CORE}/nodes", {"metadata": metadata, "spec": {}, "status": node["status"]})
    api.patch(f"{CORE}/nodes/{node['metadata']['name']}", {"spec": {"taints": None}})


def with_template(name: str, ps: int, workers: int, **spec: Any) -> str:
    """A TFJob whose workers have these fields."""
    job = json.loads(tfjob(name, ps, workers))
    job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"] |= spec
    return json.dumps(job)


def test_a_gang_of_which_a_part_names_another_scheduler_is_completed(
    own: LocalCluster, jobs: TrainingJobs, tmp_path: Path
) -> None:
    """The cluster's own scheduler binds the workers at once; the PSs are planned beside them."""
    with unharmed(own, tmp_path):
        other = with_template("mixed", 1, 3, schedulerName="default-scheduler")
        jobs.submit("mixed", other)
        jobs.wait_bound("mixed", 4)


def attach_one_volume_per_node(api: Api) -> None:
    driver = {"name": "attach.test", "nodeID": "n", "allocatable": {"count": 1}}
    for number in range(1, 5):
        path = f"{CSI_NODES}/node-{number}"
        spec = {"drivers": [driver]}
        if api.find(path) is None:
            api.create(CSI_NODES, {"metadata": {"name": f"node-{number}"}, "spec": spec})
        else:
            api.patch(path, {"spec": spec})


def test_nodes_that_attach_one_volume_each_hold_a_gang_with_one_for_each_pod(
    own: LocalCluster, jobs: TrainingJobs, api: Api, tmp_path: Path
) -> None:
    """No pod's offer shows the limit: each node is planned again where the last pod filled it."""
    attach_one_volume_per_node(api)
    claims = [f"ephemeral-{role}-0-data" for role in ("ps", "worker")]
    claims += [f"ephemeral-worker-{index}-data" for index in (1, 2)]
    for claim in claims:
        api.create(f"{CORE}/persistentvolumes", persistent_volume(claim))
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    requests = {"resources": {"requests": {"storage": "1Gi"}}}
    template = {"volumeClaimTemplate": {"spec": {**common, **requests}}}
    job = json.loads(tfjob("ephemeral", 1, 3))
    for replicas in job["spec"]["tfReplicaSpecs"].values():
        spec = replicas["template"]["spec"]
        spec["volumes"] = [{"name": "data", "ephemeral": template}]
    with unharmed(own, tmp_path):
        jobs.submit("ephemeral", json.dumps(job))
        assert len({*jobs.wait_bound("ephemeral", 4).values()}) == 4


def persistent_volume(claim: str) -> dict[str, Any]:
    """A volume of a CSI driver for the claim of its name."""
    reference = {"namespace": "default", "name": claim}
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "capacity": {"storage": "1Gi"},
        "csi": {"driver": "attach.test", "volumeHandle": claim},
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **reference},
    }
    return {"metadata": {"name": claim}, "spec": spec}


def test_an_extender_that_waits_for_another_identity_says_so(
    own: LocalCluster, jobs: TrainingJobs, tmp_path: Path
) -> None:
    config = {"leader_identity": "another-host"}
    with scheduler_processes(own, tmp_path, config=config) as running:
        jobs.create("waits", 1, 3)
        wait_until(
            "the metric says so",
            lambda: "optimus_extender_leader_mismatch 1.0" in running.get("/metrics"),
        )
        assert "optimus_extender_leads 0.0" in running.get("/metrics")
        assert "another-host" in running.log("extender")
        assert not jobs.nodes("waits")
        running.kill("extender")
        running.config = {}
        running.start_extender()
        jobs.wait_bound("waits", 4)
        assert "optimus_extender_leader_mismatch 0.0" in running.get("/metrics")
        assert "optimus_extender_leads 1.0" in running.get("/metrics")
