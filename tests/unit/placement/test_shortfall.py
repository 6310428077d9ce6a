"""What a refused gang lacks, and whether nodes have gained it since."""

from collections.abc import Mapping, Sequence

from optimus.jobs import JobKey, NodeConstraints, ReplicaSpec, Role
from optimus.nodes import Node
from optimus.placement.capacity import Capacity
from optimus.placement.gang import Gang, Member
from optimus.placement.queue.capacity_copy import CapacityCopy
from optimus.placement.queue.order import Instant
from optimus.placement.queue.planning import Snapshot
from optimus.placement.queue.shortfall import Shortage, Shortfall, shortages
from optimus.resources import Resources
from tests.cases import cases

ANYWHERE = NodeConstraints()
EVERYWHERE = frozenset({ANYWHERE})


def cpu(amount: int) -> Resources:
    return Resources(cpu=amount)


def capacity_of(*free: int, disks: Sequence[str] = ()) -> Capacity:
    """Nodes of 9 CPUs with so much free; each with a disk of one kind where that is given."""
    labels = [{"disk": disk} for disk in disks] or [dict[str, str]()] * len(free)
    nodes = [Node(f"n{at}", cpu(9), each) for at, each in enumerate(labels)]
    return Capacity(tuple(nodes), {f"n{at}": cpu(each) for at, each in enumerate(free)})


def gang_of(ps: int, workers: int, worker: ReplicaSpec, bound: int = 0) -> Gang:
    """PSs of one CPU, and workers of which the first so many are bound."""
    members = [Member(Role.PS, at, ReplicaSpec(cpu(1))) for at in range(ps)]
    members += [
        Member(Role.WORKER, at, worker, "n0" if at < bound else None) for at in range(workers)
    ]
    return Gang(JobKey("ns", "j"), "uid", tuple(members))


@cases(
    ("free", "workers", "asks", "expected"),
    {
        "one of three workers finds no place": ((3, 3), 3, 2, [(1, (2,))]),
        "none does": ((1, 1), 3, 2, [(3, (2,))]),
        "an overcommitted node holds nothing": ((-2, 1), 3, 2, [(3, (2,))]),
        "a large node holds several": ((9, 1), 5, 2, [(1, (2,))]),
    },
)
def test_what_one_role_lacks(
    free: tuple[int, ...], workers: int, asks: int, expected: list[tuple[int, tuple[int]]]
) -> None:
    gang = gang_of(0, workers, ReplicaSpec(cpu(asks)))
    found = shortages(gang, capacity_of(*free))
    assert [(each.missing, each.amount) for each in found] == expected
    assert {each.constraints for each in found} == {EVERYWHERE}


def test_two_roles_lack_places_each_and_together() -> None:
    found = shortages(gang_of(2, 2, ReplicaSpec(cpu(4))), capacity_of(3))
    assert [(each.missing, each.amount) for each in found] == [(2, (4,)), (1, (1,))]


@cases(
    ("before", "after", "gained"),
    {
        "from one place to two": ((3, 9), (4, 9), 1),
        "not enough for another": ((2, 9), (3, 9), 0),
        "fewer than before": ((4, 9), (2, 9), 0),
        "what was overcommitted has to be free first": ((-3, 9), (2, 9), 1),
        "of the other resource": ((9, 1), (9, 2), 1),
    },
)
def test_the_places_that_a_node_gains(
    before: tuple[int, int], after: tuple[int, int], gained: int
) -> None:
    assert Shortage(1, EVERYWHERE, (2, 1)).gain(before, after) == gained


# --- what nodes have gained since a refusal


def shortfall(*missing: int, closed: frozenset[str] = frozenset()) -> Shortfall:
    lacking = [Shortage(count, EVERYWHERE, (2,)) for count in missing]
    return Shortfall(lacking, dict.fromkeys(("a", "b"), (1,)), closed)


def node(name: str, **fields: object) -> Node:
    return Node(name, cpu(9), {}, **fields)  # type: ignore[arg-type]  # fields of a node


@cases(
    ("found", "gains"),
    {
        "that admits no replica": (node("a", cordoned=True), False),
        "that admits them": (node("a"), True),
    },
)
def test_places_on_a_node(found: Node, gains: bool) -> None:
    lacking = shortfall(1)
    lacking.update(found, (9,))
    assert lacking.is_covered() is gains


# --- the thread's own copy of what is left


def snapshot(left: Mapping[str, int | None], nodes: Mapping[str, Node] | None = None) -> Snapshot:
    amounts = {name: None if each is None else cpu(each) for name, each in left.items()}
    return Snapshot(Instant(0.0, 0.0), [], {}, amounts, nodes, {}, {}, 0, 0, 0)


def free(room: CapacityCopy) -> dict[str, int]:
    return {name: each["cpu"] for name, each in room.capacity.free_by_name().items()}


def two_nodes() -> CapacityCopy:
    room = CapacityCopy()
    nodes = {"a": node("a"), "b": node("b")}
    assert room.update(snapshot({"a": 4, "b": 5}, nodes)) is None, "nothing to compare with"
    return room
