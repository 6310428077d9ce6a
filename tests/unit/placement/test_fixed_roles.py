"""Where chiefs, masters, evaluators and schedulers go: on the plan's servers, else on one more."""

from collections import Counter

import pytest
from hypothesis import given, settings

from optimus.jobs import JobKey, ReplicaSpec, Role
from optimus.nodes import Node
from optimus.placement.capacity import Capacity
from optimus.placement.gang import Gang, Member, Placement
from optimus.resources import Resources, total
from optimus.snapshot import ReplicaId
from tests.unit.placement.exhaustive_search import (
    Spread,
    gang_of,
    overfull,
    spreads,
)
from tests.unit.placement.random_gangs import (
    RULE,
    amounts,
    cases,
    fixed,
    nodes_of,
    placed,
    with_fixed,
)


@pytest.mark.parametrize(
    ("cpus", "gang", "node"),
    [
        pytest.param(
            {"a": 4, "b": 4, "c": 9},
            with_fixed(gang_of(1, 1), fixed(Role.CHIEF, 2)),
            "c",
            id="together",
        ),
        pytest.param(
            {"a": 3, "b": 2, "c": 2},
            with_fixed(gang_of(2, 1), fixed(Role.CHIEF, 2)),
            "b",
            id="else on one more server",
        ),
        pytest.param(
            {"a": 5, "b": 2},
            with_fixed(gang_of(1, 1), fixed(Role.CHIEF, 5)),
            "a",
            id="first, where it has one place",
        ),
    ],
)
def test_where_a_fixed_role_goes(cpus: dict[str, int], gang: Gang, node: str) -> None:
    nodes, free = nodes_of(**cpus)
    assert placed(gang, nodes, free).nodes[ReplicaId("uid", Role.CHIEF, 0)] == node


@settings(max_examples=300, deadline=None)
@given(cases(), amounts)
def test_a_chief_is_part_of_what_has_to_fit(
    case: tuple[Gang, list[Node], dict[str, Resources]], asked: Resources
) -> None:
    gang, nodes, free = case
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


def test_a_job_of_fixed_roles_alone_is_placed() -> None:
    nodes, free = nodes_of(a=1, b=1)
    gang = Gang(JobKey("ns", "job"), "uid", (fixed(Role.CHIEF, 1), fixed(Role.EVALUATOR, 1)))
    assert set(placed(gang, nodes, free).nodes.values()) == {"a", "b"}
