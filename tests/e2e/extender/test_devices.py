"""Gangs whose pods claim devices, behind a real kube-scheduler: all get theirs, or none does.

The slices of devices are API objects; no driver is needed to schedule by them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from localcluster.specs import numbered_nodes
from localcluster.testing.clusters import Shown
from localcluster.testing.waiting import holds_for
from tests.e2e.extender.scheduler import SchedulerProcesses, TrainingJobs, tfjob, unharmed
from tests.harness.api import Api, in_namespace
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.e2e

DEVICES = "/apis/resource.k8s.io/v1"
CLAIMS = in_namespace(DEVICES, "default", "resourceclaims")
DRIVER = "gpu.example.com"
ROUNDS = 10


@pytest.fixture(scope="module")
def own(shown: Shown) -> Iterator[LocalCluster]:
    """Two nodes, shared with nobody; one device on each. Jobs of older training operators cannot
    name templates of claims."""
    nodes = numbered_nodes(2, {"cpu": "16", "memory": "32Gi"})
    with (
        LocalCluster("devices", nodes, training_operator="1.9.3") as cluster,
        shown(cluster),
    ):
        with cluster.api_client() as client:
            made = Api(client)
            expression = (
                f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "gpu"'
            )
            selectors = [{"cel": {"expression": expression}}]
            made.create(f"{DEVICES}/deviceclasses", named("gpu", {"selectors": selectors}))
            for node in ("node-1", "node-2"):
                made.create(f"{DEVICES}/resourceslices", slice_on(node))
            templates = in_namespace(DEVICES, "default", "resourceclaimtemplates")
            for name, selectors in (("one", []), ("certain", [{"cel": {"expression": "true"}}])):
                exactly = {"deviceClassName": "gpu", "selectors": selectors}
                requests = [{"name": "gpu", "exactly": exactly}]
                spec = {"spec": {"devices": {"requests": requests}}}
                made.create(templates, named(name, spec))
        yield cluster


def named(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def slice_on(node: str) -> dict[str, Any]:
    device = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": [device]}
    return named(f"{node}-gpu", spec)


def with_claims(name: str, template: str) -> str:
    """A gang of a PS and a worker with one device each."""
    document = json.loads(tfjob(name, 1, 1))
    for replicas in document["spec"]["tfReplicaSpecs"].values():
        spec = replicas["template"]["spec"]
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": template}]
        spec["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    return json.dumps(document)


@pytest.fixture
def running(own: LocalCluster, tmp_path: Path) -> Iterator[SchedulerProcesses]:
    with unharmed(own, tmp_path) as processes:
        yield processes


@pytest.mark.timeout(900)
@pytest.mark.parametrize("template", ["one", "certain"])
@pytest.mark.usefixtures("running")
def test_of_two_gangs_for_two_devices_one_is_bound_whole_and_then_the_other(
    jobs: TrainingJobs, api: Api, template: str
) -> None:
    """Devices of a class are counted. Those that an expression selects further are asked about."""
    for number in range(ROUNDS):
        pair = [f"{template}-{number}-{each}" for each in "ab"]
        for name in pair:
            jobs.submit(name, with_claims(name, template))

        def bound(names: list[str] = pair) -> list[int]:
            return [len(jobs.nodes(name)) for name in names]

        wait_until("a gang is bound whole", lambda: 2 in bound(), 60)
        holds_for(lambda: sorted(bound()) == [0, 2], "the other one waits whole", 1.0)
        first = pair[bound().index(2)]
        (second,) = {*pair} - {first}
        jobs.delete(first)
        jobs.wait_bound(second, 2, 60)
        jobs.delete(second)
        wait_until("no claim is left", lambda: not api.items(CLAIMS))
