"""Gangs in one zone or rack and on nodes of one kind, where these hold them."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.jobs import Role
from optimus.nodes import Node
from optimus.placement.capacity import Capacity
from optimus.placement.gang import DoesNotFit, Gang, Placement
from optimus.placement.theorem1 import Theorem1
from optimus.placement.topology import NodePreferences
from optimus.resources import Resources
from tests.unit.placement.exhaustive_search import gang_of, overfull
from tests.unit.placement.random_gangs import Case, cases
from tests.unit.properties import examples
from tests.unit.seeded import seeded

RACKS = Theorem1(preferences=NodePreferences(("zone", "rack"), one_kind=True))


def node(name: str, cpu: int, zone: str = "", rack: str = "", kind: str = "m") -> Node:
    labels = {"zone": zone, "rack": rack, "node.kubernetes.io/instance-type": kind}
    return Node(name, Resources(cpu=cpu), {key: value for key, value in labels.items() if value})


def where(gang: Gang, *nodes: Node, rule: Theorem1 = RACKS) -> set[str]:
    free = {each.name: each.allocatable for each in nodes}
    answer = rule.place(gang, Capacity(nodes, free))
    assert isinstance(answer, Placement)
    assert len(answer.nodes) == len(gang.unbound)
    return {*answer.nodes.values()}


def described(nodes: Mapping[str, str]) -> list[Node]:
    """Nodes by name: their CPUs, and where they have them their zone/rack and their kind."""
    found = []
    for name, text in nodes.items():
        cpu, place, kind = [*text.split(), "", ""][:3]
        zone, _, rack = place.partition("/")
        found.append(node(name, int(cpu), zone, rack, kind or "m"))
    return found


PREFERRED = {
    "a rack that holds it": ({"a": "3 z/1", "b": "3 z/2", "c": "3 z/2"}, "bc"),
    "of two racks that hold it the one with least free": (
        {"a": "5 z/1", "b": "5 z/1", "c": "5 z/2", "d": "4 z/3", "e": "3 z/3"},
        "de",
    ),
    "a zone where no rack holds it; racks of a name in two zones differ": (
        {"a": "4 y/1", "b": "3 z/1", "c": "3 z/2"},
        "bc",
    ),
    "several zones where none holds it": ({"a": "3 y/1", "b": "2 z/1", "c": "1 x/2"}, "abc"),
    "nodes without the labels are in no domain": (
        {"a": "4", "b": "4", "c": "3 z/1", "d": "3 z/1"},
        "cd",
    ),
    "nodes of one kind in the rack": (
        {"a": "5 z/1 fast", "b": "4 z/1 slow", "c": "4 z/1 slow"},
        "bc",
    ),
    "one rack comes before one kind": (
        {"a": "4 z/1 fast", "b": "4 z/1 slow", "c": "4 z/2 slow"},
        "ab",
    ),
    "nodes of one kind in the rack with least free, not in another": (
        {
            "a": "5 z/1 fast",
            "b": "4 z/1 slow",
            "c": "4 z/1 slow",
            "d": "3 z/2 slow",
            "e": "3 z/2 slow",
            "f": "5 z/2 fast",
            "g": "5 z/2 fast",
        },
        "bc",
    ),
    "of two racks the one with nodes of one kind": (
        {"a": "4 z/1 fast", "b": "4 z/1 slow", "c": "5 z/2 slow", "d": "5 z/2 slow"},
        "cd",
    ),
}


@pytest.mark.parametrize(("nodes", "expected"), PREFERRED.values(), ids=PREFERRED)
def test_where_a_gang_of_two_pss_and_four_workers_goes(
    nodes: dict[str, str], expected: str
) -> None:
    assert where(gang_of(2, 4), *described(nodes)) == set(expected)


def test_the_rest_of_a_gang_goes_to_the_rack_of_its_bound_replicas() -> None:
    nodes = [node("a", 3, "z", "1"), node("b", 3, "z", "1"), node("c", 9, "z", "2")]
    gang = gang_of(2, 4)
    members = tuple(
        replace(m, node="a") if (m.role, m.index) == (Role.PS, 0) else m for m in gang.members
    )
    assert where(replace(gang, members=members), *nodes) == {"a", "b"}


@examples(150)
@given(seeded(cases))
def test_a_preference_refuses_nothing(
    case: Case,
) -> None:
    gang, nodes, free = case
    rule = Theorem1(preferences=NodePreferences(("pool",), one_kind=True))
    answer = rule.place(gang, Capacity(nodes, free))
    plain = Theorem1().place(gang, Capacity(nodes, free))
    assert isinstance(answer, DoesNotFit) == isinstance(plain, DoesNotFit)
    if isinstance(answer, Placement) and isinstance(plain, Placement):
        assert answer.nodes.keys() == plain.nodes.keys()
        assert not overfull(gang, answer, free)


@examples(30)
@given(st.randoms(use_true_random=False))
def test_what_is_kept_from_gang_to_gang_changes_no_answer(random: Random) -> None:
    nodes = [
        node(f"n{at}", 6, random.choice("yz"), random.choice("123"), random.choice("mp"))
        for at in range(random.randint(2, 12))
    ]
    free = {each.name: Resources(cpu=random.randint(-1, 6)) for each in nodes}
    capacity = Capacity(nodes, free)
    for _ in range(4):
        gang = gang_of(random.randint(0, 3), random.randint(1, 6))
        answer = RACKS.place(gang, capacity)
        assert answer == RACKS.place(gang, Capacity(nodes, capacity.free_by_name()))
        for name in random.sample(sorted(free), random.randint(0, 2)):
            assert capacity.set_free(name, Resources(cpu=random.randint(-1, 6)))
        if isinstance(answer, Placement):
            mark = capacity.mark()
            for name in answer.nodes.values():
                capacity.take(capacity.row_of[name], (random.randint(0, 1),))
            if random.random() < 0.5:
                capacity.undo_to(mark)
