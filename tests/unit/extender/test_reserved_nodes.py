"""Which nodes are too full with reservations for a pod of no job."""

from random import Random

import pytest

from optimus.resources import Resources
from tests.unit.extender.fake_cluster import FakeCluster


def too_full_in_full(cluster: FakeCluster, resources: Resources) -> set[str]:
    """The same, from every node: gangs and pods here have one priority."""
    reservations = cluster.state.reservations
    return {
        node
        for node in reservations.ledger.held_by_node()
        if node in cluster.nodes and not resources.fits_in(reservations.left(node))
    }


@pytest.mark.parametrize("seed", range(20))
def test_the_nodes_are_those_that_a_look_at_every_node_finds(seed: int) -> None:
    random = Random(seed)
    cluster = FakeCluster({f"n{index}": 4 for index in range(8)})
    jobs: list[list[str]] = []
    for step in range(40):
        action = random.randrange(5)
        if action == 0:
            jobs.append(cluster.job(f"j{step}", 1, random.randint(1, 4), random.randint(1, 2)))
            cluster.plan()
        elif action == 1 and jobs:
            waiting = [name for name in random.choice(jobs) if cluster.pods[name].node is None]
            if waiting:
                cluster.place(waiting[0])
        elif action == 2 and jobs:
            names = jobs.pop(random.randrange(len(jobs)))
            cluster.delete(*names)
            cluster.handlers.set_job(f"uid-{names[0].split('-')[0]}", None)
        elif action == 3 and len(cluster.nodes) > 4:
            cluster.lose_node(random.choice(sorted(cluster.nodes)))
        else:
            cluster.node(f"n{random.randrange(8)}", random.randint(2, 6))
        for cpu in (1, 2, 3):
            asked = Resources(cpu=cpu, pods=1)
            found = cluster.state.reservations.nodes_too_full(asked, tuple(cluster.nodes), 0)
            assert found == too_full_in_full(cluster, asked)
