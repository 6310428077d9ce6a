"""How many nodes hold a replica, against counting them one by one."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from extender.node_places import NodePlaces
from optimus.jobs import NodeConstraints, ReplicaSpec
from optimus.nodes import Node
from optimus.placement.capacity import is_admitted
from optimus.resources import Resources
from tests.unit.seeded import seeded

Cluster = tuple[dict[str, Node], dict[str, Resources]]


def _amounts(rng: Random) -> Resources:
    return Resources(cpu=rng.randint(0, 8), memory=rng.randint(0, 8), gpu=rng.randint(0, 2))


def a_cluster(rng: Random) -> Cluster:
    nodes, left = {}, {}
    for number in range(rng.randint(0, 6)):
        name, kind, whole = f"n{number}", rng.choice(["", "small", "large"]), _amounts(rng)
        labels = {"kind": kind} if kind else {}
        nodes[name] = Node(name, whole, labels, cordoned=rng.random() < 0.5)
        left[name] = whole - _amounts(rng)  # below zero where others overcommit it
    return nodes, left


def a_spec(rng: Random) -> ReplicaSpec:
    asked = Resources(
        cpu=rng.randint(0, 4),
        memory=rng.randint(0, 4),
        gpu=rng.randint(0, 1),
        fpga=rng.choice([0, 0, 0, 1]),
    )
    return ReplicaSpec(asked, NodeConstraints(rng.choice([(), (("kind", "small"),)])))


def places(free: Resources, asked: Resources, wanted: int) -> int:
    return max(min([wanted, *(free[name] // each for name, each in asked.items())]), 0)


@given(
    seeded(a_cluster),
    seeded(a_spec),
    st.integers(1, 5),
    st.frozensets(st.sampled_from(["n0", "n1"])),
)
def test_counts_are_those_of_a_walk_over_the_nodes(
    now: Cluster,
    spec: ReplicaSpec,
    wanted: int,
    closed: frozenset[str],
) -> None:
    nodes, left = now
    found = NodePlaces(nodes, left).count(spec, wanted, closed)
    admitting = [node for node in nodes.values() if is_admitted(node, spec.constraints)]
    held = {
        node.name: 0 if node.name in closed else places(left[node.name], spec.resources, wanted)
        for node in admitting
    }
    assert found.nodes == len(nodes)
    assert found.admit_it == len(admitting)
    assert found.hold_it_now == sum(each > 0 for each in held.values())
    assert found.hold_it_empty == sum(
        places(node.allocatable, spec.resources, wanted) > 0 for node in admitting
    )
    assert found.places == min(sum(held.values()), wanted)


def test_the_resource_that_limits_most_nodes_comes_first() -> None:
    spec = ReplicaSpec(Resources(cpu=2, gpu=1))
    nodes = {name: Node(name, Resources(cpu=4, gpu=2)) for name in ("a", "b", "c")}
    left = {"a": Resources(cpu=4), "b": Resources(cpu=4), "c": Resources(gpu=2)}
    assert list(NodePlaces(nodes, left).count(spec, 2).short_of.items()) == [("gpu", 2), ("cpu", 1)]


def test_what_no_node_has_limits_them_all() -> None:
    spec = ReplicaSpec(Resources(cpu=2, fpga=1))
    nodes = {name: Node(name, Resources(cpu=4)) for name in ("a", "b")}
    left = {"a": Resources(), "b": Resources(cpu=4)}
    found = NodePlaces(nodes, left).count(spec, 2)
    assert (found.places, found.hold_it_empty, found.short_of) == (0, 0, {"fpga": 2})
