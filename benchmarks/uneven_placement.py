"""How often Theorem 1's rule misses the best placement, on unequal nodes and on equal ones.

``python -m benchmarks.uneven_placement [--cases 500] [--large]`` draws small clusters from a seed
and compares each plan with the best of all plans, found by trying every one: first the transfer
time (Optimus, section 4.2), then the number of servers. A plan is *dominated* where another has
less of one and not more of the other. ``--large`` prints CPU milliseconds on 5,000 unequal nodes,
the median of 9 gangs, and what these gangs' plans are like. Prints JSON."""

import argparse
import json
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import product
from typing import NamedTuple

from optimus.jobs import Counts, Job, JobKey, ReplicaSpec
from optimus.nodes import Node
from optimus.placement.capacity import Capacity
from optimus.placement.gang import Assignment
from optimus.placement.theorem1 import Theorem1
from optimus.resources import Resources

LARGE = ((1, 5), (4, 8), (16, 24), (30, 90), (100, 400))


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


def large(nodes: int = 5000) -> Iterator[dict[str, object]]:
    """One row for each size of gang."""
    rng = random.Random(5)
    whole = Resources(cpu=16_000, memory=64 << 30)
    names = [f"n{at:05}" for at in range(nodes)]
    for p, w in LARGE:
        seconds, plans = [], []
        for _ in range(9):
            left = {
                name: Resources(cpu=rng.randrange(16_000), memory=rng.randrange(64 << 30))
                for name in names
            }
            capacity = Capacity([Node(name, whole) for name in names], left)
            job = job_of(Resources(cpu=2000, memory=4 << 30), Resources(cpu=2000, memory=6 << 30))
            began = time.process_time()
            found = Theorem1().place_job(job, Counts(p, w), capacity)
            seconds.append(time.process_time() - began)
            assert isinstance(found, Assignment), found
            plans.append(quality(found))
        yield {
            "ps": p,
            "workers": w,
            "cpu_ms": round(1000 * statistics.median(seconds), 2),
            "transfer_time": statistics.mean(each.time for each in plans),
            "servers": statistics.mean(each.servers for each in plans),
        }


def main() -> None:
    """Print the fractions of small clusters, and with ``--large`` the times on large ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    found: dict[str, object] = {kind.value: fractions(options.cases, kind) for kind in Kind}
    if options.large:
        found["large"] = list(large())
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
