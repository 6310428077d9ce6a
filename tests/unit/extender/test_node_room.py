"""How many nodes hold a replica, against counting them one by one."""

from hypothesis import given
from hypothesis import strategies as st

from extender.node_room import KIND_LABEL, NodeRoom
from optimus.jobs import NodeConstraints, ReplicaSpec
from optimus.nodes import Node
from optimus.placement.capacity import is_admitted
from optimus.resources import Resources

WHOLE = st.fixed_dictionaries(
    {"cpu": st.integers(0, 8), "memory": st.integers(0, 8), "gpu": st.integers(0, 2)}
)
NODES = st.lists(
    st.tuples(WHOLE, WHOLE, st.sampled_from(["", "small", "large"]), st.booleans()), max_size=6
)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[dict[str, Node], dict[str, Resources]]:
    nodes, left = {}, {}
    for number, (whole, used, kind, cordoned) in enumerate(draw(NODES)):
        name, labels = f"n{number}", {KIND_LABEL: kind} if kind else {}
        nodes[name] = Node(name, Resources(whole), labels, cordoned=cordoned)
        left[name] = Resources(whole) - Resources(used)  # below zero where others overcommit it
    return nodes, left


SPECS = st.builds(
    ReplicaSpec,
    st.builds(
        Resources,
        cpu=st.integers(0, 4),
        memory=st.integers(0, 4),
        gpu=st.integers(0, 1),
        fpga=st.sampled_from([0, 0, 0, 1]),
    ),
    st.builds(NodeConstraints, selector=st.sampled_from([(), ((KIND_LABEL, "small"),)])),
)


def places(free: Resources, asked: Resources, wanted: int) -> int:
    return max(min([wanted, *(free[name] // each for name, each in asked.items())]), 0)


@given(
    clusters(), clusters(), SPECS, st.integers(1, 5), st.frozensets(st.sampled_from(["n0", "n1"]))
)
def test_counts_are_those_of_a_walk_over_the_nodes(
    before: tuple[dict[str, Node], dict[str, Resources]],
    now: tuple[dict[str, Node], dict[str, Resources]],
    spec: ReplicaSpec,
    wanted: int,
    closed: frozenset[str],
) -> None:
    room = NodeRoom()
    room.update(*before)
    room.count(spec, wanted)
    nodes, left = now
    room.update(nodes, left)
    found = room.count(spec, wanted, closed)
    admitting = [node for node in nodes.values() if is_admitted(node, spec.constraints)]
    held = {
        node.name: 0 if node.name in closed else places(left[node.name], spec.resources, wanted)
        for node in admitting
    }
    assert found.all.nodes == len(nodes)
    assert found.all.admit_it == len(admitting)
    assert found.all.hold_it_now == sum(each > 0 for each in held.values())
    assert found.all.hold_it_empty == sum(
        places(node.allocatable, spec.resources, wanted) > 0 for node in admitting
    )
    assert found.all.places == min(sum(held.values()), wanted)
    kinds = {node.labels.get(KIND_LABEL, "") for node in nodes.values()}
    assert found.by_kind.keys() == kinds
    assert sum(each.hold_it_now for each in found.by_kind.values()) == found.all.hold_it_now


def test_a_changed_node_is_counted_as_it_is_now() -> None:
    room, spec = NodeRoom(), ReplicaSpec(Resources(cpu=2))
    nodes = {name: Node(name, Resources(cpu=4)) for name in ("a", "b")}
    room.update(nodes, {"a": Resources(cpu=1), "b": Resources(cpu=3)})
    assert room.count(spec, 4).all.places == 1
    room.update(None, {"a": Resources(cpu=4)})
    found = room.count(spec, 4).all
    assert (found.places, found.hold_it_now, found.short_of) == (3, 2, {"cpu": 2})


def test_the_resource_that_limits_most_nodes_comes_first() -> None:
    room, spec = NodeRoom(), ReplicaSpec(Resources(cpu=2, gpu=1))
    nodes = {name: Node(name, Resources(cpu=4, gpu=2)) for name in ("a", "b", "c")}
    left = {"a": Resources(cpu=4), "b": Resources(cpu=4), "c": Resources(gpu=2)}
    room.update(nodes, left)
    assert list(room.count(spec, 2).all.short_of.items()) == [("gpu", 2), ("cpu", 1)]
