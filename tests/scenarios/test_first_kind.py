"""A new job starts on the kind of nodes on which jobs were fastest, as the autoscaler's Lease
says."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from localcluster.specs import Backend, NodeSpec
from localcluster.testing.clusters import Shown
from optimus.kube.contract import KIND_ORDERS
from optimus.kube.kind_orders import encode_kind_orders
from optimus.nodes import NODE_KIND_LABEL
from optimus.placement.first_kind import KindOrders
from tests.harness.optimus_cluster import (
    QUICK_TUNING,
    SCHEDULER,
    OptimusCluster,
    optimus_cluster,
    training_nodes,
)
from tests.harness.scenario import scenario_namespace
from tests.harness.small_jobs import SMALL, small_job

KINDS = {"train-1": "fast", "train-2": "slow"}
LEASE = "/apis/coordination.k8s.io/v1/namespaces/optimus-system/leases/optimus-autoscaler"
WORKER = {"cpu": "1", "memory": "64Mi"}


def _nodes() -> Iterator[NodeSpec]:
    """The slow node has more room: without an order jobs go there."""
    for node in training_nodes("3", "8"):
        yield replace(node, labels={**node.labels, NODE_KIND_LABEL: KINDS[node.name]})


@pytest.fixture(
    params=[
        pytest.param(Backend.EMBEDDED, id="embedded"),
        pytest.param(Backend.REAL, id="real", marks=pytest.mark.e2e),
    ]
)
def optimus_of_two_kinds(request: pytest.FixtureRequest, shown: Shown) -> Iterator[OptimusCluster]:
    backend: Backend = request.param
    name = f"first-kind-{backend}"
    with (
        optimus_cluster(name, tuple(_nodes()), QUICK_TUNING, backend=backend) as optimus,
        shown(optimus.cluster),
    ):
        optimus.deploy()
        yield optimus


def test_new_jobs_start_on_the_kind_that_the_lease_names(
    optimus_of_two_kinds: OptimusCluster, tmp_path: Path
) -> None:
    optimus = optimus_of_two_kinds
    first, second, third = (
        small_job(name, (1, 2), requests={"PS": SMALL, "Worker": WORKER})
        for name in ("before", "after", "beside")
    )
    with scenario_namespace(optimus, "first-kind", tmp_path / "checkpoints") as scenario:

        def kinds_of_workers(name: str) -> set[str]:
            pods = [
                each for each in scenario.pods() if f"{name}-worker" in each["metadata"]["name"]
            ]
            return {KINDS[each["spec"]["nodeName"]] for each in pods}

        scenario.submit(first)
        scenario.wait_bound(first)
        assert kinds_of_workers("before") == {"slow"}
        # As the leader writes it once it has measured jobs on both.
        holder = scenario.wait(
            lambda: scenario.api.get(LEASE)["spec"].get("holderIdentity"), "an autoscaler leads"
        )
        order = encode_kind_orders(KindOrders(NODE_KIND_LABEL, ("fast", "slow")), holder)
        scenario.api.patch(LEASE, {"metadata": {"annotations": {KIND_ORDERS: order}}})
        scenario.wait(
            lambda: "start on nodes of the kinds fast, slow" in optimus.log(SCHEDULER, "extender"),
            "the extender has read the order",
        )
        scenario.submit(second)
        scenario.wait_bound(second)
        assert kinds_of_workers("after") == {"fast"}
        # The fast node is full by now: nobody waits for it.
        scenario.submit(third)
        scenario.wait_bound(third)
        assert kinds_of_workers("beside") == {"slow"}
