"""Pods that ask for more than numbers of 64 bits hold keep nobody else from being placed.

The API server takes up to 2**63 - 1 of each container, and a pod may have many."""

import pytest

from optimus.jobs import Counts, Role
from optimus.resources import Resources
from tests.unit.extender.fake_cluster import FakeCluster

AMOUNTS = [
    pytest.param(Resources({name: amount, "pods": 1}), id=f"{amount:.0e} of {name}")
    for name in ("cpu", "memory", "example.com/device")
    for amount in (2**62, 2**63 - 1, 3 * 2**63, 2**80)
]


def placed_beside(cluster: FakeCluster) -> list[str | None]:
    return [cluster.place(name) for name in cluster.job("honest", 1, 1)]


@pytest.mark.parametrize("asked", AMOUNTS)
def test_a_gang_that_asks_for_an_absurd_amount_waits_alone(asked: Resources) -> None:
    cluster = FakeCluster({"a": 4, "b": 4})
    counts = Counts(2, 2)
    roles = ((role, index) for role in (Role.PS, Role.WORKER) for index in range(2))
    absurd = [cluster.pod("absurd", role, at, counts, resources=asked) for role, at in roles]
    for pod in absurd:
        assert not cluster.ask(pod.name, ["a", "b"]).kept
    cluster.now += 1000  # it is old enough to close nodes for others
    cluster.plan()
    assert None not in placed_beside(cluster)
