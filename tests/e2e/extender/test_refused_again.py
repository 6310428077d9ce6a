"""A gang that kube-scheduler keeps refusing, or cannot bind: tried seldom, bound when it can be."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from localcluster.specs import numbered_nodes
from localcluster.testing.clusters import Shown
from localcluster.testing.waiting import holds_for
from tests.e2e.extender.binding_policies import BindingPolicies
from tests.e2e.extender.scheduler import TrainingJobs
from tests.e2e.extender.watched import watched
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.e2e

OFFERED = {"optimus-test/offered": "yes"}

WATCHED_SECONDS = 8.0
ROUNDS = 5
"""Attempts in that time: one at first, and one after each back-off of 1, 2 and 4 s; one more for
good measure."""


@pytest.fixture(scope="module")
def own(shown: Shown) -> Iterator[LocalCluster]:
    """Six nodes of four CPUs, shared with nobody."""
    with (
        LocalCluster("refusing", numbered_nodes(6, {"cpu": "4", "memory": "8Gi"})) as cluster,
        shown(cluster),
    ):
        yield cluster


def offer_only_labelled(document: dict[str, Any]) -> None:
    """A rule of kube-scheduler that no pod and no node shows: NodeAffinity's addedAffinity."""
    expressions = [
        {"key": key, "operator": "In", "values": [value]} for key, value in OFFERED.items()
    ]
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    arguments = {
        "addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required},
    }
    document["profiles"][0]["pluginConfig"] = [{"name": "NodeAffinity", "args": arguments}]


def label(cluster: LocalCluster, *nodes: str) -> None:
    pairs = [f"{key}={value}" for key, value in OFFERED.items()]
    for node in nodes:
        cluster.kubectl("label", "node", node, *pairs, "--overwrite")


def unlabel(cluster: LocalCluster, *nodes: str) -> None:
    for node in nodes:
        cluster.kubectl("label", "node", node, *(f"{key}-" for key in OFFERED))


@pytest.fixture
def two_offered(own: LocalCluster) -> Iterator[LocalCluster]:
    """Two of the six nodes are offered."""
    label(own, "node-1", "node-2")
    yield own
    unlabel(own, *(f"node-{number}" for number in range(1, 7)))


def test_a_gang_that_half_fits_on_the_nodes_offered_is_tried_seldom_and_bound_when_all_fit(
    two_offered: LocalCluster, jobs: TrainingJobs, tmp_path: Path
) -> None:
    """Of six nodes kube-scheduler offers room for the PS and two of the four workers."""
    with watched(two_offered, tmp_path, adjust=offer_only_labelled) as seen:
        jobs.create("half", 1, 4, worker_cpu="3")
        wait_until("each pod was refused", lambda: len(seen.changes_by_pod()) == 5)
        holds_for(lambda: not jobs.nodes("half"), "no pod is bound alone", WATCHED_SECONDS)
        assert seen.writes() <= 5 * ROUNDS
        assert max(seen.changes_by_pod().values()) <= 2 * ROUNDS
        label(two_offered, "node-3", "node-4")
        jobs.wait_bound("half", 5)


def test_a_node_where_bindings_fail_is_excluded_and_the_gang_goes_elsewhere(
    own: LocalCluster, jobs: TrainingJobs, policies: BindingPolicies, tmp_path: Path
) -> None:
    policies.add("test-node", "object.target.name != 'node-1'")
    with watched(own, tmp_path) as seen:
        jobs.create("fails", 2, 6)
        nodes = jobs.wait_bound("fails", 8)
        assert "node-1" not in nodes.values()
        assert max(seen.changes_by_pod().values()) <= 2 * ROUNDS
        assert "the node is excluded" in seen.processes.log("extender")


def test_a_gang_of_which_no_binding_succeeds_is_tried_seldom_and_bound_when_one_may(
    own: LocalCluster, jobs: TrainingJobs, policies: BindingPolicies, tmp_path: Path
) -> None:
    policies.add("test-all", "false")
    with watched(own, tmp_path) as seen:
        jobs.create("never", 1, 4)
        wait_until("each pod was tried", lambda: len(seen.changes_by_pod()) == 5)
        holds_for(lambda: not jobs.nodes("never"), "no pod is bound", WATCHED_SECONDS)
        assert seen.writes() <= 5 * ROUNDS
        assert max(seen.changes_by_pod().values()) <= 2 * ROUNDS
        policies.clear()
        jobs.wait_bound("never", 5)
