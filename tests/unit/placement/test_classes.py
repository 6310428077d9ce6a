"""Grouping nodes into classes changes nothing: placements against the obvious slow versions."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given

from optimus.jobs import Role
from optimus.nodes import Node, refusal
from optimus.placement import PLACEMENT_RULES
from optimus.placement.capacity import Capacity
from optimus.placement.gang import DoesNotFit, Gang, Member, Placement
from optimus.placement.per_pod import PerPod
from optimus.placement.theorem1 import Theorem1
from optimus.resources import Resources, total
from optimus.snapshot import ReplicaId
from tests.unit.placement.exhaustive_search import is_even, spread_of, transfer_time
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


@examples(200)
@given(case=seeded(many_alike))
def test_an_even_spread_is_on_the_fewest_and_roomiest_servers_or_there_is_a_better_one(
    case: Case,
) -> None:
    gang, nodes, free = case
    answer = Theorem1().place(gang, Capacity(nodes, free))
    counts = [
        sum(member.role is role for member in gang.members) for role in (Role.PS, Role.WORKER)
    ]
    together = sum(counts) - all(counts)
    names = _roomiest_first(gang, nodes, free)
    fewest = next(
        (k for k in range(1, together + 1) if _holds_evenly(gang, nodes, free, names, k)), None
    )
    if isinstance(answer, DoesNotFit):
        assert fewest is None
        return
    spread = spread_of(gang, answer)
    if fewest is None or not gang.unbound:
        return
    if not is_even(spread) or len(spread) != fewest:
        time, even_time = transfer_time(spread), _longest_even_time(counts, fewest)
        assert time < even_time or (time == even_time and len(spread) < fewest)
        return
    if len(gang.unbound) == len(gang.members):
        # Among fewer of the roomiest nodes there is no even spread over so many servers. With bound
        # replicas, which counts their servers get is decided first.
        last = max(names.index(name) for name in spread)
        assert not _holds_evenly(gang, nodes, free, names[:last], fewest)


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


def _longest_even_time(counts: Sequence[int], servers: int) -> float:
    """The longest transfer time that an even spread over so many servers may have."""
    p, w = counts
    return max(w - w // servers, p - p // servers) / p if p and w else 0.0


def _roomiest_first(gang: Gang, nodes: Sequence[Node], free: Mapping[str, Resources]) -> list[str]:
    spread = [member for member in gang.unbound if member.role in (Role.PS, Role.WORKER)]
    capacity = total(node.allocatable for node in nodes)
    dominant, _ = total(member.spec.resources for member in spread).dominant(capacity)
    return sorted(free, key=lambda name: (-free[name][dominant], name))


def _holds_evenly(
    gang: Gang,
    nodes: Sequence[Node],
    free: Mapping[str, Resources],
    names: Sequence[str],
    servers: int,
) -> bool:
    """Whether these nodes and those with bound replicas hold an even spread over so many servers:
    every way to use up servers with one more PS or worker, node by node."""
    by_name = {node.name: node for node in nodes}
    members = [[m for m in gang.members if m.role is role] for role in (Role.PS, Role.WORKER)]
    present = [[m for m in each if m.node is None or m.node in by_name] for each in members]
    (ps, more_ps), (workers, more_workers) = (divmod(len(each), servers) for each in present)
    bound = {m.node for each in present for m in each if m.node is not None}
    states = {(0, 0, 0)}
    for name in sorted(bound | {*names}):
        further = set() if name in bound else set(states)
        for used, used_ps, used_workers in states:
            for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
                state = used + 1, used_ps + a, used_workers + b
                within = all(map(int.__le__, state, (servers, more_ps, more_workers)))
                if within and _holds(by_name[name], free[name], present, (ps + a, workers + b)):
                    further.add(state)
        states = further
    return (servers, more_ps, more_workers) in states


def _holds(
    node: Node, free: Resources, members: list[list[Member]], counts: tuple[int, int]
) -> bool:
    asked = Resources()
    for each, count in zip(members, counts, strict=True):
        more = count - sum(member.node == node.name for member in each)
        waiting = [member for member in each if member.node is None]
        if more < 0 or more > len(waiting):
            return False
        if more and (
            node.name in waiting[0].excluded
            or refusal(node, waiting[0].spec.constraints) is not None
        ):
            return False
        asked += waiting[0].spec.resources * more if more else Resources()
    return asked.fits_in(free)


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
