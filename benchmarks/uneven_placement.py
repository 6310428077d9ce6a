"""How often Theorem 1's rule misses the best placement, on unequal nodes and on equal ones.

``python -m benchmarks.uneven_placement [--cases 500]`` draws small clusters from a seed
and compares each plan with the best of all plans, found by trying every one: first the transfer
time (Optimus, section 4.2), then the number of servers. A plan is *dominated* where another has
less of one and not more of the other. Prints JSON."""

import argparse
import json
import random
from collections.abc import Sequence
from enum import Enum
from itertools import product
from typing import NamedTuple

from optimus.jobs import Counts, Job, JobKey, ReplicaSpec
from optimus.nodes import Node
from optimus.placement.capacity import Capacity
from optimus.placement.gang import Assignment
from optimus.placement.theorem1 import Theorem1
from optimus.resources import Resources


class Case(NamedTuple):
    """One small cluster and one job; amounts are (CPU, memory)."""

    free: Sequence[tuple[int, int]]
    ps: int
    workers: int
    ps_asks: tuple[int, int]
    worker_asks: tuple[int, int]


class Quality(NamedTuple):
    """What a plan is judged by: transfer time in units of S/(pB), then servers."""

    time: int
    servers: int

    def is_dominated_by(self, other: "Quality") -> bool:
        """Whether the other has less of one and not more of the other."""
        return other != self and other.time <= self.time and other.servers <= self.servers


class Kind(Enum):
    """What small clusters are like."""

    ONE_SIZE = "one_size"
    """Replicas of one size on nodes of unequal size."""
    TWO_RESOURCES = "two_resources"
    """Two resources, of which nodes have unequal amounts."""
    EQUAL = "equal"
    """The same on equal nodes."""


def draw(rng: random.Random, kind: Kind) -> Case:
    """A cluster of 3 to 6 nodes and a job of up to 11 replicas; but for equal nodes, those with
    anything free are not all equal."""
    while True:
        nodes = rng.randint(3, 6)
        if kind is Kind.ONE_SIZE:
            free = [(room := rng.randint(0, 8), room) for _ in range(nodes)]
            asks = (1, 1), (1, 1)
        else:
            free = [(rng.randint(0, 12), rng.randint(0, 12)) for _ in range(nodes)]
            asks = (rng.randint(1, 3), rng.randint(0, 3)), (rng.randint(1, 3), rng.randint(0, 3))
        if kind is Kind.EQUAL:
            free = free[:1] * nodes
        case = Case(free, rng.randint(1, 4), rng.randint(1, 7), *asks)
        if (
            kind is Kind.EQUAL
            or len({room for room in free if _holds(room, asks[0]) or _holds(room, asks[1])}) > 1
        ):
            return case


def _holds(free: tuple[int, int], asked: tuple[int, int]) -> bool:
    return all(amount <= left for amount, left in zip(asked, free, strict=True))


def best(case: Case) -> Quality | None:
    """The best plan of all; ``None`` where the job does not fit.

    A state is what has been placed, the fewest workers beside any PS, the fewest PSs beside any
    worker, and the servers.
    """
    p, w = case.ps, case.workers
    states = {(0, 0, w, p, 0)}
    for free in case.free:
        options = [
            (x, y)
            for x, y in product(range(p + 1), range(w + 1))
            if all(
                x * a + y * b <= left
                for a, b, left in zip(case.ps_asks, case.worker_asks, free, strict=True)
            )
        ]
        states = {
            (
                ps + x,
                workers + y,
                min(beside_ps, y) if x else beside_ps,
                min(beside_worker, x) if y else beside_worker,
                servers + bool(x or y),
            )
            for ps, workers, beside_ps, beside_worker, servers in states
            for x, y in options
            if ps + x <= p and workers + y <= w
        }
    found = [
        Quality(max(w - beside_ps, p - beside_worker), servers)
        for ps, workers, beside_ps, beside_worker, servers in states
        if (ps, workers) == (p, w)
    ]
    return min(found, default=None)


def planned(case: Case) -> Quality | None:
    """What the rule finds."""
    free = {f"n{at}": Resources(cpu=c, memory=m) for at, (c, m) in enumerate(case.free)}
    capacity = Capacity([Node(name, amount) for name, amount in free.items()], free)
    ps, worker = (Resources(cpu=c, memory=m) for c, m in (case.ps_asks, case.worker_asks))
    found = Theorem1().place_job(job_of(ps, worker), Counts(case.ps, case.workers), capacity)
    return quality(found) if isinstance(found, Assignment) else None


def quality(found: Assignment) -> Quality:
    """Transfer time and servers of a plan."""
    p, w = found.counts
    missing = [w - server.workers for server in found.servers if server.ps]
    missing += [p - server.ps for server in found.servers if server.workers]
    return Quality(max(missing), len(found.servers))


def job_of(ps: Resources, worker: Resources) -> Job:
    """A job whose PSs and workers ask for so much each."""
    return Job(
        key=JobKey("ns", "job"),
        uid="uid",
        kind="TFJob",
        created_at=0.0,
        counts=Counts(1, 1),
        ps=ReplicaSpec(ps),
        worker=ReplicaSpec(worker),
    )


def fractions(cases: int, kind: Kind) -> dict[str, float]:
    """Of the jobs that fit on small clusters, the part whose plan is not the best."""
    rng = random.Random(20)
    fit = worse = dominated = refused = 0
    while fit < cases:
        case = draw(rng, kind)
        found, wanted = planned(case), best(case)
        if wanted is None:
            continue
        fit += 1
        refused += found is None
        worse += found != wanted
        dominated += found is not None and found.is_dominated_by(wanted)
    return {
        "jobs_that_fit": fit,
        "refused": refused,
        "not_the_best_percent": round(100 * worse / fit, 1),
        "dominated_by_the_best_percent": round(100 * dominated / fit, 1),
    }


def main() -> None:
    """Print the fractions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=500)
    options = parser.parse_args()
    found = {kind.value: fractions(options.cases, kind) for kind in Kind}
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
