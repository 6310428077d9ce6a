"""Gangs and nodes for the rule of Theorem 1, by hand and at random."""

from dataclasses import replace

from hypothesis import strategies as st

from optimus.jobs import JobKey, NodeConstraints, ReplicaSpec, Role
from optimus.nodes import Node
from optimus.placement.capacity import Capacity
from optimus.placement.gang import Gang, Member, Placement
from optimus.placement.theorem1 import Theorem1
from optimus.resources import Resources
from optimus.snapshot import ReplicaId
from tests.unit.placement.exhaustive_search import (
    overfull,
)

RULE = Theorem1()


def nodes_of(**cpus: int) -> tuple[list[Node], dict[str, Resources]]:
    free = {name: Resources(cpu=cpu) for name, cpu in cpus.items()}
    return [Node(name, amount) for name, amount in free.items()], free


def placed(gang: Gang, nodes: list[Node], free: dict[str, Resources]) -> Placement:
    answer = RULE.place(gang, Capacity(nodes, free))
    assert isinstance(answer, Placement), answer
    assert not overfull(gang, answer, free)
    assert set(answer.nodes) == {ReplicaId(gang.job_uid, m.role, m.index) for m in gang.unbound}
    return answer


requested = st.builds(
    lambda cpu, memory: Resources(cpu=cpu, memory=memory), st.integers(0, 3), st.integers(0, 3)
)

free_amounts = st.builds(
    lambda cpu, memory: Resources(cpu=cpu, memory=memory), st.integers(-1, 9), st.integers(-1, 9)
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Gang, list[Node], dict[str, Resources]]:
    """Small clusters with uneven room, labels, and gangs that may be bound or excluded in part."""
    free = {
        f"n{at}": amount
        for at, amount in enumerate(draw(st.lists(free_amounts, min_size=1, max_size=4)))
    }
    pools = draw(st.lists(st.sampled_from(["a", "b"]), min_size=len(free), max_size=len(free)))
    nodes = [Node(name, free[name], {"pool": pool}) for name, pool in zip(free, pools, strict=True)]
    excluded = frozenset(draw(st.lists(st.sampled_from(sorted(free)), max_size=1)))
    members: list[Member] = []
    for role, most in ((Role.PS, 3), (Role.WORKER, 4)):
        constraints = draw(
            st.sampled_from([NodeConstraints(), NodeConstraints(selector=(("pool", "a"),))])
        )
        spec = ReplicaSpec(draw(requested), constraints)
        bound = draw(
            st.lists(
                st.none() | st.none() | st.none() | st.sampled_from(sorted(free)), max_size=most
            )
        )
        members += [Member(role, at, spec, node, excluded) for at, node in enumerate(bound)]
    return Gang(JobKey("ns", "job"), "uid", tuple(members)), nodes, free


@st.composite
def many_alike(draw: st.DrawFn) -> tuple[Gang, list[Node], dict[str, Resources]]:
    """Larger clusters of a few classes of nodes, and gangs of which a few replicas may be bound."""
    free: dict[str, Resources] = {}
    nodes: list[Node] = []
    for at in range(draw(st.integers(1, 4))):
        whole, pool = Resources(cpu=12, memory=9), draw(st.sampled_from(["a", "a", "b"]))
        left = Resources(cpu=draw(st.integers(0, 12)), memory=draw(st.integers(0, 9)))
        for number in range(draw(st.integers(1, 6))):
            name = f"n{(number * 7 + at * 3) % 10}-{at}-{number}"
            nodes.append(Node(name, whole, {"pool": pool}))
            free[name] = left
    names = sorted(free)
    excluded = frozenset(draw(st.lists(st.sampled_from(names), max_size=2)))
    members: list[Member] = []
    for role, most in ((Role.PS, 6), (Role.WORKER, 7)):
        selector = draw(st.sampled_from([(), (), (("pool", "a"),)]))
        cpu, memory = draw(st.integers(0, 3)), draw(st.integers(0, 2))
        spec = ReplicaSpec(Resources(cpu=cpu, memory=memory), NodeConstraints(selector))
        bound = draw(st.lists(st.sampled_from(names), max_size=2)) if draw(st.booleans()) else []
        count = draw(st.integers(0, most))
        members += [
            Member(role, at, spec, bound[at] if at < len(bound) else None, excluded)
            for at in range(count)
        ]
    return Gang(JobKey("ns", "job"), "uid", tuple(members)), nodes, free


def fixed(role: Role, cpu: int, index: int = 0, node: str | None = None) -> Member:
    return Member(role, index, ReplicaSpec(Resources(cpu=cpu)), node)


def with_fixed(gang: Gang, *members: Member) -> Gang:
    return replace(gang, members=gang.members + members)
