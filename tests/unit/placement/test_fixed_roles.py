"""Where chiefs, masters, evaluators and schedulers go: on the plan's servers, else on one more."""

from collections import Counter
from dataclasses import replace

from hypothesis import given

from optimus.jobs import ReplicaSpec, Role
from optimus.nodes import Node
from optimus.placement.capacity import Capacity
from optimus.placement.gang import Gang, Member, Placement
from optimus.resources import Resources, total
from optimus.snapshot import ReplicaId
from tests.cases import cases
from tests.unit.placement.exhaustive_search import Spread, gang_of, overfull, spreads
from tests.unit.placement.random_gangs import (
    RULE,
    Case,
    cases_and_requests,
    fixed,
    nodes_of,
    placed,
    with_fixed,
)
from tests.unit.properties import examples
from tests.unit.seeded import seeded


@cases(
    ("cpus", "gang", "node"),
    {
        "together": (
            {"a": 4, "b": 4, "c": 9},
            with_fixed(gang_of(1, 1), fixed(Role.CHIEF, 2)),
            "c",
        ),
        "else on one more server": (
            {"a": 3, "b": 2, "c": 2},
            with_fixed(gang_of(2, 1), fixed(Role.CHIEF, 2)),
            "b",
        ),
        "first, where it has one place": (
            {"a": 5, "b": 2},
            with_fixed(gang_of(1, 1), fixed(Role.CHIEF, 5)),
            "a",
        ),
    },
)
def test_where_a_fixed_role_goes(cpus: dict[str, int], gang: Gang, node: str) -> None:
    nodes, free = nodes_of(**cpus)
    assert placed(gang, nodes, free).nodes[ReplicaId("uid", Role.CHIEF, 0)] == node


@examples(300)
@given(seeded(cases_and_requests))
def test_a_chief_is_part_of_what_has_to_fit(case_and_request: tuple[Case, Resources]) -> None:
    (gang, nodes, free), asked = case_and_request
    whole = with_fixed(gang, Member(Role.CHIEF, 0, ReplicaSpec(asked)))
    answer = RULE.place(whole, Capacity(nodes, free))
    if isinstance(answer, Placement):
        assert not overfull(whole, answer, free)
        assert ReplicaId("uid", Role.CHIEF, 0) in answer.nodes
    else:
        assert not any(
            _leaves_room(gang, spread, free, asked) for spread in spreads(gang, nodes, free)
        )


def _leaves_room(gang: Gang, spread: Spread, free: dict[str, Resources], asked: Resources) -> bool:
    specs = {member.role: member.spec.resources for member in gang.members}
    bound = Counter((member.node, member.role) for member in gang.members)
    for node, left in free.items():
        ps, workers = spread.get(node, (0, 0))
        taken = total(
            specs[role] * (count - bound[node, role])
            for role, count in ((Role.PS, ps), (Role.WORKER, workers))
            if count > bound[node, role]
        )
        if asked.fits_in(left - taken):
            return True
    return False


@cases(
    ("cpus", "bound_to", "excluded", "node"),
    {
        "the plan's own server": ({"a": 9, "b": 4}, None, {"a"}, "b"),
        "the roomiest other node": ({"a": 1, "b": 4, "c": 3}, "a", {"b"}, "c"),
        "the first of equal nodes": ({"a": 1, "b": 3, "c": 3}, "a", {"b"}, "c"),
    },
)
def test_a_fixed_role_does_not_go_where_it_is_excluded(
    cpus: dict[str, int], bound_to: str | None, excluded: set[str], node: str
) -> None:
    nodes, free = nodes_of(**cpus)
    chief = replace(fixed(Role.CHIEF, 2), excluded=frozenset(excluded))
    members = tuple(replace(each, node=bound_to) for each in gang_of(1, 1).members)
    gang = with_fixed(replace(gang_of(1, 1), members=members), chief)
    assert placed(gang, nodes, free).nodes[ReplicaId("uid", Role.CHIEF, 0)] == node


def test_another_node_is_tried_for_the_largest_fixed_role() -> None:
    """On the roomiest node, b, the chief leaves room for the gang but not for the evaluator."""
    free = {"a": Resources(cpu=2, memory=5), "b": Resources(cpu=7, memory=4)}
    specs = {
        Role.PS: Resources(cpu=2, memory=2),
        Role.WORKER: Resources(cpu=2),
        Role.CHIEF: Resources(cpu=1, memory=3),
        Role.EVALUATOR: Resources(cpu=2, memory=1),
    }
    gang = with_fixed(gang_of(1, 2), fixed(Role.CHIEF, 1), fixed(Role.EVALUATOR, 1))
    members = tuple(replace(m, spec=ReplicaSpec(specs[m.role])) for m in gang.members)
    placed(replace(gang, members=members), [Node(name, free[name]) for name in free], free)
