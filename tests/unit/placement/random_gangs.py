"""Gangs and nodes for the rule of Theorem 1, by hand and at random."""

import random
from dataclasses import replace

from optimus.jobs import JobKey, NodeConstraints, ReplicaSpec, Role
from optimus.nodes import Node
from optimus.placement.capacity import Capacity
from optimus.placement.gang import Gang, Member, Placement
from optimus.placement.theorem1 import Theorem1
from optimus.resources import Resources
from optimus.snapshot import ReplicaId
from tests.unit.placement.exhaustive_search import overfull

Case = tuple[Gang, list[Node], dict[str, Resources]]

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


def requested(rng: random.Random) -> Resources:
    """What one replica asks for."""
    return Resources(cpu=rng.randint(0, 3), memory=rng.randint(0, 3))


def cases(rng: random.Random) -> Case:
    """Small clusters with uneven room, labels, and gangs that may be bound or excluded in part."""
    most_free = rng.choice((4, 9))
    free = {
        f"n{at}": Resources(cpu=rng.randint(-1, most_free), memory=rng.randint(-1, most_free))
        for at in range(rng.choice((1, 2, 3, 4, 4)))
    }
    names = list(free)
    nodes = [Node(name, free[name], {"pool": rng.choice("ab")}) for name in names]
    excluded = frozenset(rng.sample(names, rng.randint(0, 1)))
    members: list[Member] = []
    for role, most in ((Role.PS, 3), (Role.WORKER, 4)):
        constraints = rng.choice([NodeConstraints(), NodeConstraints(selector=(("pool", "a"),))])
        spec = ReplicaSpec(requested(rng), constraints)
        for at in range(rng.randint(0, most)):
            bound_to = rng.choice([None, None, None, rng.choice(names)])
            members.append(Member(role, at, spec, bound_to, excluded))
    return Gang(JobKey("ns", "job"), "uid", tuple(members)), nodes, free


def cases_and_requests(rng: random.Random) -> tuple[Case, Resources]:
    """A case, and what one more replica asks for."""
    return cases(rng), requested(rng)


def many_alike(rng: random.Random) -> Case:
    """Larger clusters of a few classes of nodes, and gangs of which a few replicas may be bound."""
    free: dict[str, Resources] = {}
    nodes: list[Node] = []
    for at in range(rng.randint(1, 4)):
        whole, pool = Resources(cpu=12, memory=9), rng.choice("aab")
        left = Resources(cpu=rng.randint(0, 12), memory=rng.randint(0, 9))
        for number in range(rng.randint(1, 6)):
            name = f"n{(number * 7 + at * 3) % 10}-{at}-{number}"
            nodes.append(Node(name, whole, {"pool": pool}))
            free[name] = left
    names = sorted(free)
    excluded = frozenset(rng.choices(names, k=rng.randint(0, 2)))
    members: list[Member] = []
    for role, most in ((Role.PS, 6), (Role.WORKER, 7)):
        selector = rng.choice([(), (), (("pool", "a"),)])
        asked = Resources(cpu=rng.randint(0, 3), memory=rng.randint(0, 2))
        spec = ReplicaSpec(asked, NodeConstraints(selector))
        bound = rng.choices(names, k=rng.randint(0, 2)) if rng.random() < 0.5 else []
        count = rng.randint(0, most)
        members += [
            Member(role, at, spec, bound[at] if at < len(bound) else None, excluded)
            for at in range(count)
        ]
    return Gang(JobKey("ns", "job"), "uid", tuple(members)), nodes, free


def fixed(role: Role, cpu: int, index: int = 0, node: str | None = None) -> Member:
    return Member(role, index, ReplicaSpec(Resources(cpu=cpu)), node)


def with_fixed(gang: Gang, *members: Member) -> Gang:
    return replace(gang, members=gang.members + members)
