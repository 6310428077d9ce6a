"""Grouping nodes into classes changes nothing: placements against the obvious slow versions."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given

from optimus.nodes import Node, refusal
from optimus.placement import PLACEMENT_RULES
from optimus.placement.capacity import Capacity
from optimus.placement.gang import Gang, Placement
from optimus.placement.per_pod import PerPod
from optimus.resources import Resources, total
from optimus.snapshot import ReplicaId
from tests.unit.placement.random_gangs import Case, many_alike
from tests.unit.properties import examples
from tests.unit.seeded import seeded


@examples(200)
@given(case=seeded(many_alike))
def test_a_gang_goes_where_it_goes_if_no_two_nodes_are_alike(case: Case) -> None:
    gang, nodes, free = case
    marked = [
        Node(
            each.name,
            each.allocatable + Resources({f"only-on-{each.name}": 1}),
            each.labels,
            each.taints,
        )
        for each in nodes
    ]
    for rule in PLACEMENT_RULES.values():
        assert rule.place(gang, Capacity(nodes, free)) == rule.place(gang, Capacity(marked, free))


@pytest.mark.parametrize("name", ["spread", "pack"])
@examples(200)
@given(case=seeded(many_alike))
def test_replicas_go_one_by_one_to_the_emptiest_or_fullest_node(name: str, case: Case) -> None:
    gang, nodes, free = case
    rule = PLACEMENT_RULES[name]
    assert isinstance(rule, PerPod)
    found = _one_by_one(gang, nodes, free, rule.emptiest_first)
    answer = rule.place(gang, Capacity(nodes, free))
    assert found == (dict(answer.nodes) if isinstance(answer, Placement) else None)


def _one_by_one(
    gang: Gang, nodes: Sequence[Node], free: Mapping[str, Resources], emptiest_first: bool
) -> dict[ReplicaId, str] | None:
    left, found = dict(free), dict[ReplicaId, str]()
    capacity = total(node.allocatable for node in nodes)
    for member in sorted(gang.unbound, key=lambda member: (member.role, member.index)):
        asked = member.spec.resources
        dominant, _ = asked.dominant(capacity)
        shares = {
            node.name: left[node.name][dominant] / node.allocatable[dominant]
            if node.allocatable[dominant]
            else 0.0
            for node in nodes
            if asked.fits_in(left[node.name])
            and node.name not in member.excluded
            and refusal(node, member.spec.constraints) is None
        }
        if not shares:
            return None
        sign = -1 if emptiest_first else 1
        name = min(shares, key=lambda name: (sign * shares[name], name))
        left[name] -= asked
        found[ReplicaId(gang.job_uid, member.role, member.index)] = name
    return found
