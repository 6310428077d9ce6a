"""The oracle of placement: every way to put a job on servers is tried, fewest servers first.

Written without a look at the code under test, from the statement alone (Optimus, section 4.2,
Theorem 1): the fewest servers that hold the job with PSs and workers spread such that their counts
per server differ by at most one. What is free is worked out by `free_resources`. Only for a
handful of nodes: the number of ways is exponential."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeAlias

Amounts: TypeAlias = Mapping[str, int]
"""Resource name to amount: cpu in millicores, memory in bytes, pods."""

EvenSpread: TypeAlias = dict[str, tuple[int, int]]
"""Node to (PSs, workers) on it."""

Observed: TypeAlias = Mapping[str, Mapping[str, int]]
"""Node to how many pods of each role lie there, as bound pods tell; roles in lower case."""


@dataclass(frozen=True)
class Demand:
    """A job's pods: how many PSs and workers and what each asks for; further (fixed) roles: how
    many, and what each."""

    ps: int
    workers: int
    ps_asks: Amounts
    worker_asks: Amounts
    fixed: Mapping[str, tuple[int, Amounts]] = field(default_factory=dict)


def fewest_servers(demand: Demand, free: Mapping[str, Amounts]) -> int | None:
    """Return the smallest number of servers that holds the job evenly; None where no number
    does."""
    for servers in range(1, min(len(free), demand.ps + demand.workers) + 1):
        if any(True for _ in even_spreads(demand, free, servers)):
            return servers
    return None


def even_spreads(demand: Demand, free: Mapping[str, Amounts], servers: int) -> Iterator[EvenSpread]:
    """Yield every even spread over so many servers that leaves the fixed pods a node."""
    for chosen in combinations(sorted(free), servers):
        for ps in _even_counts(demand.ps, chosen):
            for workers in _even_counts(demand.workers, chosen):
                spread = {node: (ps[node], workers[node]) for node in chosen}
                left = _after(demand, free, spread)
                if (
                    left is not None
                    and all(sum(counts) for counts in spread.values())
                    and _fixed_pods_fit(demand, left)
                ):
                    yield spread


def violations(demand: Demand, free: Mapping[str, Amounts], observed: Observed) -> list[str]:
    """Return what is wrong with a placement, one sentence each; nothing where it is as the theorem
    says."""
    found = _miscounted(demand, observed) + _overfull(demand, free, observed)
    holding = {
        node: roles
        for node, roles in observed.items()
        if roles.get("ps", 0) or roles.get("worker", 0)
    }
    fewest = fewest_servers(demand, free)
    if found or fewest is None:
        return found or ["no number of servers holds this job evenly: the case proves nothing"]
    if len(holding) != fewest:
        found.append(f"the job lies on {len(holding)} servers, {fewest} hold it")
    for role in ("ps", "worker"):
        counts = [roles.get(role, 0) for roles in holding.values()]
        if counts and max(counts) - min(counts) > 1:
            found.append(f"{role} pods per server are {counts}: they differ by more than one")
    return found + _apart(demand, free, observed, frozenset(holding))


def _even_counts(total: int, nodes: Sequence[str]) -> Iterator[dict[str, int]]:
    each, more = divmod(total, len(nodes))
    for fuller in combinations(nodes, more):
        yield {node: each + (node in fuller) for node in nodes}


def _after(
    demand: Demand, free: Mapping[str, Amounts], spread: EvenSpread
) -> dict[str, dict[str, int]] | None:
    """Return what is left of every node, or None where one of them would hold too much."""
    left = {node: dict(amounts) for node, amounts in free.items()}
    for node, (ps, workers) in spread.items():
        left[node] = _left_on(demand, free[node], {"ps": ps, "worker": workers})
        if min(left[node].values()) < 0:
            return None
    return left


def _fixed_pods_fit(demand: Demand, left: Mapping[str, Mapping[str, int]]) -> bool:
    """Tell whether every fixed pod finds a place in what is left, on any node."""
    return _all_fit(
        [requests_of for count, requests_of in demand.fixed.values() for _ in range(count)], left
    )


def _all_fit(requests_of: list[Amounts], left: Mapping[str, Mapping[str, int]]) -> bool:
    if not requests_of:
        return True
    first, rest = requests_of[0], requests_of[1:]
    for node, amounts in left.items():
        if _fits(first, amounts):
            taken = {
                resource: amounts.get(resource, 0) - first.get(resource, 0) for resource in amounts
            }
            if _all_fit(rest, {**left, node: taken}):
                return True
    return False


def _apart(
    demand: Demand, free: Mapping[str, Amounts], observed: Observed, servers: frozenset[str]
) -> list[str]:
    """A fixed pod may lie on a server of its own only where none of the job's servers has room left
    for it."""
    found = []
    for role, (_, requests_of) in demand.fixed.items():
        alone = [
            node for node, roles in observed.items() if roles.get(role) and node not in servers
        ]
        roomy = [
            node
            for node in sorted(servers)
            if _fits(requests_of, _left_on(demand, free[node], observed[node]))
        ]
        if alone and roomy:
            found.append(
                f"the {role} lies apart on {', '.join(alone)} though {', '.join(roomy)} has room "
                "for it"
            )
    return found


def _left_on(demand: Demand, free: Amounts, roles: Mapping[str, int]) -> dict[str, int]:
    each = {
        "ps": demand.ps_asks,
        "worker": demand.worker_asks,
        **{r: requests_of for r, (_, requests_of) in demand.fixed.items()},
    }
    left = dict(free)
    for role, count in roles.items():
        for resource, amount in each[role].items():
            left[resource] = left.get(resource, 0) - amount * count
    return left


def _fits(requests_of: Amounts, left: Amounts) -> bool:
    return all(left.get(resource, 0) >= amount for resource, amount in requests_of.items())


def _miscounted(demand: Demand, observed: Observed) -> list[str]:
    found = []
    fixed = [(role, count) for role, (count, _) in demand.fixed.items()]
    for role, wanted in (("ps", demand.ps), ("worker", demand.workers), *fixed):
        there = sum(roles.get(role, 0) for roles in observed.values())
        if there != wanted:
            found.append(f"{there} {role} pods are bound, {wanted} were asked for")
    return found


def _overfull(demand: Demand, free: Mapping[str, Amounts], observed: Observed) -> list[str]:
    unknown = sorted(node for node in observed if node not in free)
    if unknown:
        return [f"pods lie on {', '.join(unknown)}, where none of the job may go"]
    crowded = [
        node
        for node, roles in observed.items()
        if min(_left_on(demand, free[node], roles).values()) < 0
    ]
    return [f"{node} holds more than it has room for" for node in sorted(crowded)]
