"""What happens to a cluster while gangs are planned and bound: the rest of each is bound whole, or
waits whole, and nothing stays reserved."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from localcluster.errors import KubectlError
from localcluster.testing.waiting import holds_for
from tests.e2e.extender.binding_policies import BindingPolicies
from tests.e2e.extender.scheduler import (
    TrainingJobs,
    frozen,
    reservations,
    unharmed,
)
from tests.harness.api import CORE, KUBEFLOW, Api, in_namespace
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.e2e

NODES = tuple(f"node-{number}" for number in range(1, 5))
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PODS, TFJOBS = in_namespace(CORE, "default", "pods"), in_namespace(KUBEFLOW, "default", "tfjobs")


@pytest.fixture
def cordoned(api: Api) -> Iterator[set[str]]:
    """Nodes that a test has cordoned: they are uncordoned after it."""
    names: set[str] = set()
    yield names
    for name in names:
        cordon(api, name, unschedulable=False)


def cordon(api: Api, node: str, *, unschedulable: bool) -> None:
    api.patch(f"{CORE}/nodes/{node}", {"spec": {"unschedulable": unschedulable}})


def test_a_gang_bound_in_part_goes_on_beside_a_node_that_is_cordoned(
    own: LocalCluster,
    jobs: TrainingJobs,
    api: Api,
    policies: BindingPolicies,
    cordoned: set[str],
    tmp_path: Path,
) -> None:
    policies.add("test-ps-first", "object.metadata.name.contains('-ps-')")
    with unharmed(own, tmp_path):
        jobs.create("half", 2, 6)
        wait_until("its PSs are bound", lambda: len(jobs.nodes("half")) == 2)
        ps = jobs.nodes("half")
        cordoned.add(min(ps.values()))
        cordon(api, min(ps.values()), unschedulable=True)
        policies.clear()
        nodes = jobs.wait_bound("half", 8)
        workers = {node for pod, node in nodes.items() if pod not in ps}
        assert workers.isdisjoint(cordoned)


def test_the_user_of_a_gang_that_stays_bound_in_part_is_told_what_would_help(
    own: LocalCluster,
    jobs: TrainingJobs,
    api: Api,
    policies: BindingPolicies,
    cordoned: set[str],
    tmp_path: Path,
) -> None:
    policies.add("test-ps-first", "object.metadata.name.contains('-ps-')")
    short = {"reservation_seconds": 5, "binding_seconds": 5}
    with unharmed(own, tmp_path, config=short):
        jobs.create("half", 2, 6)
        wait_until("its PSs are bound", lambda: len(jobs.nodes("half")) == 2)
        for node in NODES:
            cordoned.add(node)
            cordon(api, node, unschedulable=True)
        policies.clear()
        (event,) = wait_until("an Event says so", lambda: half_placed_events(api))
        assert event["involvedObject"]["kind"] == "TFJob"
        assert "2 of 8 pods are bound" in event["message"]
        assert "suspend and resume the job" in event["message"]
        for node in NODES:
            cordon(api, node, unschedulable=False)
        jobs.wait_bound("half", 8)
        assert len(half_placed_events(api)) == 1


def half_placed_events(api: Api) -> list[dict[str, Any]]:
    found = api.items(in_namespace(CORE, "default", "events"))
    return [event for event in found if event["reason"] == "HalfPlaced"]


def test_a_node_that_is_drained_while_a_gang_is_bound_in_part_leaves_nothing_reserved(
    own: LocalCluster,
    jobs: TrainingJobs,
    api: Api,
    policies: BindingPolicies,
    cordoned: set[str],
    tmp_path: Path,
) -> None:
    """The job has Failed, since its PS was evicted; another gang gets the room."""
    policies.add("test-ps-first", "object.metadata.name.contains('-ps-')")
    with unharmed(own, tmp_path):
        jobs.create("half", 2, 6)
        wait_until("its PSs are bound", lambda: len(jobs.nodes("half")) == 2)
        node = min(jobs.nodes("half").values())
        cordoned.add(node)
        own.kubectl("drain", node, "--force", "--ignore-daemonsets", "--grace-period=1")
        wait_until("the job is over", lambda: "Failed" in conditions(api, "half"))
        policies.clear()
        jobs.delete("half")
        jobs.create("next", 2, 10)
        assert node not in jobs.wait_bound("next", 12).values()


def conditions(api: Api, job: str) -> set[str]:
    found = (api.get(f"{TFJOBS}/{job}").get("status") or {}).get("conditions") or ()
    return {each["type"] for each in found if each["status"] == "True"}


def test_a_gang_is_bound_after_the_api_server_did_not_answer_for_half_a_minute(
    own: LocalCluster, jobs: TrainingJobs, tmp_path: Path
) -> None:
    with unharmed(own, tmp_path) as running:
        jobs.create("first", 4, 12)
        jobs.wait_bound("first", 16)
        jobs.create("second", 4, 12)
        jobs.wait_refused("second", 16, "Unschedulable")
        own.kubectl("delete", "tfjob", "first", "--wait=false")
        with frozen(own, "kube-apiserver"):
            holds_for(
                lambda: running.get("/healthz") == "ok\n", "the extender answers meanwhile", 30.0
            )
        # kube-scheduler ends when it cannot renew its Lease; its kubelet starts it again.
        running.kill("kube-scheduler")
        running.start_scheduler()
        jobs.wait_bound("second", 16)


LEAPING_CLOCK = """
import os, time
_real, _path = time.time, os.environ["CLOCK_OFFSET"]
def _leaping():
    with open(_path) as file:
        return _real() + float(file.read())
time.time = _leaping
"""


def test_the_extenders_clock_leaps_by_a_day(
    own: LocalCluster, jobs: TrainingJobs, tmp_path: Path
) -> None:
    """Forward and back, while a gang waits and another is bound."""
    folder, offset = tmp_path / "clock", tmp_path / "offset"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(LEAPING_CLOCK)
    offset.write_text("0")
    clock = {"PYTHONPATH": str(folder), "CLOCK_OFFSET": str(offset)}
    with unharmed(own, tmp_path, environment=clock) as running:
        jobs.create("first", 4, 12)
        jobs.wait_bound("first", 16)
        for name, seconds in (("second", 86_400), ("third", -86_400)):
            jobs.create(name, 4, 12)
            jobs.wait_refused(name, 16, "Unschedulable")
            offset.write_text(str(seconds))
            jobs.delete("first" if name == "second" else "second")
            jobs.wait_bound(name, 16)
        assert "reservations ended before" not in running.log("extender")


def value_of_class(cluster: LocalCluster, name: str) -> int | None:
    """The priority of a pod that would be created now; None where it would be refused."""
    container = {"name": "c", "image": "busybox"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "tried", "namespace": "default"},
        "spec": {"priorityClassName": name, "containers": [container]},
    }
    command = ("create", "--dry-run=server", "-o", "json", "-f", "-")
    try:
        answer = json.loads(cluster.kubectl(*command, stdin=json.dumps(pod)))
    except KubectlError:
        return None
    return int(answer["spec"]["priority"])


def priority_of(api: Api, pod: str) -> int | None:
    """A pod's priority; None where it is not there."""
    found = api.find(f"{PODS}/{pod}")
    return None if found is None else int(found["spec"]["priority"])


def test_a_gang_whose_priority_class_is_recreated_is_bound_whole(
    own: LocalCluster, jobs: TrainingJobs, api: Api, tmp_path: Path
) -> None:
    """A pod keeps the value that its class had when it was made: one of them gets another."""
    api.create(CLASSES, {"metadata": {"name": "test-moved"}, "value": 1000})
    try:
        with unharmed(own, tmp_path) as running:
            jobs.create("first", 4, 12)
            jobs.wait_bound("first", 16)
            jobs.create("moved", 2, 6, priorityClassName="test-moved")
            jobs.wait_refused("moved", 8, "Unschedulable")
            api.delete(f"{CLASSES}/test-moved")
            api.create(CLASSES, {"metadata": {"name": "test-moved"}, "value": -5})
            # The operator may wait for minutes after it was not allowed to create a pod.
            wait_until("pods get the new value", lambda: value_of_class(own, "test-moved") == -5)
            api.delete(f"{PODS}/moved-worker-5")
            wait_until(
                "it is recreated, with the new value",
                lambda: priority_of(api, "moved-worker-5") == -5,
            )
            holds_for(
                lambda: not jobs.nodes("moved") and reservations(running) == 0,
                "the gang waits for room",
                3.0,
            )
            jobs.delete("first")
            jobs.wait_bound("moved", 8)
    finally:
        if api.find(f"{CLASSES}/test-moved") is not None:
            api.delete(f"{CLASSES}/test-moved")
