"""What happens to a cluster while gangs are planned and bound: the rest of each is bound whole, or
waits whole, and nothing stays reserved."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from localcluster.testing.waiting import holds_for
from tests.e2e.extender.binding_policies import BindingPolicies
from tests.e2e.extender.scheduler import (
    TrainingJobs,
    frozen,
    unharmed,
)
from tests.harness.api import CORE, KUBEFLOW, Api, in_namespace
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.e2e

NODES = tuple(f"node-{number}" for number in range(1, 5))
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
