"""The obvious slow way to place PSs and workers: try every assignment. The fast one is judged by
it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from optimus.jobs import JobKey, NodeConstraints, ReplicaSpec, Role
from optimus.nodes import Node, refusal
from optimus.placement.gang import Gang, Member, Placement
from optimus.resources import NONE, Resources, total

Spread = dict[str, tuple[int, int]]


def gang_of(
    ps: int,
    workers: int,
    ps_cpu: int = 1,
    worker_cpu: int = 1,
    **constraints: NodeConstraints,
) -> Gang:
    specs = {
        Role.PS: ReplicaSpec(Resources(cpu=ps_cpu), constraints.get("ps_on", NodeConstraints())),
        Role.WORKER: ReplicaSpec(
            Resources(cpu=worker_cpu), constraints.get("workers_on", NodeConstraints())
        ),
    }
    members = [Member(Role.PS, i, specs[Role.PS]) for i in range(ps)]
    members += [Member(Role.WORKER, i, specs[Role.WORKER]) for i in range(workers)]
    return Gang(JobKey("ns", "job"), "uid", tuple(members))


def spreads(gang: Gang, nodes: Sequence[Node], free: Mapping[str, Resources]) -> Iterator[Spread]:
    """Every way to spread the gang's PSs and workers over the nodes; bound ones stay where they
    are."""
    ps = [member for member in gang.members if member.role is Role.PS]
    workers = [member for member in gang.members if member.role is Role.WORKER]
    options = [list(_options(node, ps, workers, free[node.name])) for node in nodes]
    for choice in product(*options):
        if sum(p for p, _ in choice) == len(ps) and sum(w for _, w in choice) == len(workers):
            yield {
                node.name: counts
                for node, counts in zip(nodes, choice, strict=True)
                if counts != (0, 0)
            }


def _options(
    node: Node, ps: list[Member], workers: list[Member], free: Resources
) -> Iterator[tuple[int, int]]:
    bound_ps = sum(member.node == node.name for member in ps)
    bound_workers = sum(member.node == node.name for member in workers)
    for p, w in product(range(bound_ps, len(ps) + 1), range(bound_workers, len(workers) + 1)):
        new_ps, new_workers = p - bound_ps, w - bound_workers
        if new_ps and not _admitted(node, ps[0]):
            continue
        if new_workers and not _admitted(node, workers[0]):
            continue
        asked = (ps[0].spec.resources * new_ps if ps else NONE) + (
            workers[0].spec.resources * new_workers if workers else NONE
        )
        if asked.fits_in(free):
            yield p, w


def _admitted(node: Node, member: Member) -> bool:
    return node.name not in member.excluded and refusal(node, member.spec.constraints) is None


def is_even(spread: Spread) -> bool:
    ps, workers = [p for p, _ in spread.values()], [w for _, w in spread.values()]
    return max(ps) - min(ps) <= 1 and max(workers) - min(workers) <= 1


def transfer_time(spread: Spread) -> float:
    p, w = sum(p for p, _ in spread.values()), sum(w for _, w in spread.values())
    terms = [(w - here[1]) / max(p, 1) for here in spread.values() if here[0]]
    terms += [(p - here[0]) / max(p, 1) for here in spread.values() if here[1]]
    return max(terms, default=0.0)


def spread_of(gang: Gang, placement: Placement) -> Spread:
    """Counts by node of a placement, bound replicas included."""
    counts: Spread = {}
    where = [(member.role, member.node) for member in gang.members if member.node is not None]
    where += [(replica.role, node) for replica, node in placement.nodes.items()]
    for role, node in where:
        p, w = counts.get(node, (0, 0))
        counts[node] = (p + (role is Role.PS), w + (role is Role.WORKER))
    return counts


def overfull(gang: Gang, placement: Placement, free: Mapping[str, Resources]) -> list[str]:
    """Nodes that the placement asks for more than is free."""
    specs = {(member.role, member.index): member.spec.resources for member in gang.members}
    asked = {
        node: total(specs[r.role, r.index] for r, n in placement.nodes.items() if n == node)
        for node in set(placement.nodes.values())
    }
    return [node for node, amount in asked.items() if not amount.fits_in(free[node])]


def fewest_servers(found: Sequence[Spread]) -> int | None:
    """The fewest servers of an even spread."""
    return min((len(spread) for spread in found if is_even(spread)), default=None)
