"""How good the policy ``smd`` is at what it maximises: the sum of utilities (SMD, INFOCOM 2021).

    python -m benchmarks.smd_utility [--problems 50] [--large]

Problems of one decision are drawn in six settings: sync or async, 1 or 5 units of capacity, 50 or
200 jobs. What the paper gives is drawn from its ranges: 50 to 200 epochs, models of 30 to 575 MB,
links of 5 to 20 Gbps, and the utility of hours. The rest is drawn here: weights of 1 to 100,
deadlines of 1 to 15 hours, limits of 2 to 20 tasks of a role, tasks of 1 to 10 cores and 2 to 32
GiB, workers of 0 to 4 GPUs. A unit are 500 cores, 1,500 GiB and 90 GPUs, a twelfth of what 50 jobs
may ask for. Compared are, each problem by itself:

- the counts of each job with an enumeration of its own, written as a loop;
- what is chosen with the bound of the integer programme of all enumerated counts;
- charged their limits: with the jobs by arrival, while their limits fit, at their best counts;
- charged their use: with a greedy choice by utility per dominant share, task by task.
"""

import argparse
import heapq
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, csr_array, vstack

from optimus.allocation import NO_MEMORY, AllocationProblem, Candidate, ClusterProblem
from optimus.allocation.fairness import JobObjective
from optimus.allocation.policy import PoolProblem, grants
from optimus.jobs import CountBounds, Counts, Job, JobKey, ReplicaSpec, TargetLoss
from optimus.models.forecast import Forecast
from optimus.policies.smd import Charge, SmdPolicy
from optimus.resources import CPU, MEMORY, Resources

SETTINGS: Final = tuple(product(("async", "sync"), ((1, 50), (5, 50), (5, 200))))
STEEPNESS: Final = SmdPolicy().steepness
_NAMES: Final = (CPU, MEMORY, "gpu")
_HOUR: Final = 3600.0
_UNIT: Final = Resources({CPU: 500_000, MEMORY: 1500 << 30, "gpu": 90})


@dataclass(frozen=True)
class LayerSpeed:
    """The speed law of SMD with its overlaps in the coefficients; steps per second."""

    is_sync: bool
    compute: float
    backward: float
    transfer: float
    per_worker: float
    per_ps: float

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """At these counts."""
        p, w = np.asarray(ps, float), np.asarray(workers, float)
        compute = self.compute / w if self.is_sync else self.compute
        seconds = compute + self.backward + self.transfer * w / p
        seconds = seconds + self.per_worker * w + self.per_ps * p
        return np.asarray((1 if self.is_sync else w) / seconds)


def drawn(mode: str, jobs: int, draw: np.random.Generator) -> tuple[Candidate, ...]:
    """The jobs of one problem."""
    return tuple(_job(number, mode == "sync", draw) for number in range(jobs))


def _job(number: int, is_sync: bool, draw: np.random.Generator) -> Candidate:
    epochs, gigabits = draw.integers(50, 201), draw.uniform(0.24, 4.6)
    batch, batches = draw.integers(10, 101), draw.integers(1, 101)
    overlap = draw.uniform(0.5, 1.0, 3)
    forward = draw.uniform(0.002, 0.01) * batch * (batches if is_sync else 1)
    speed = LayerSpeed(
        is_sync,
        float(overlap[0] * forward),
        float(overlap[1] * draw.uniform(0.1, 0.5)),
        float(2 * overlap[2] * gigabits / draw.uniform(5, 20)),
        float(draw.uniform(0.005, 0.02)),
        float(draw.uniform(0.005, 0.02)),
    )
    limit = Counts(int(draw.integers(2, 21)), int(draw.integers(2, 21)))
    hours, weight = draw.uniform(1, 15), draw.uniform(1, 100)
    # So long that the time at the limit is between a tenth of the deadline and a half more.
    steps = float(speed.steps_per_second(*limit) * hours * _HOUR * draw.uniform(0.1, 1.5))
    steps *= float(epochs) / 125
    job = Job(
        key=JobKey("team", f"job-{number:03}"),
        uid=f"job-{number:03}",
        kind="TFJob",
        created_at=0.0,
        counts=limit,
        ps=ReplicaSpec(_task(draw, 0)),
        worker=ReplicaSpec(_task(draw, int(draw.integers(0, 5)))),
        bounds=CountBounds(1, limit.ps, 1, limit.workers),
        goal=TargetLoss(0.1),
        finish_by=float(hours * _HOUR),
    )
    return Candidate(job, Forecast(speed, steps), objective=JobObjective(float(weight), 0.0, 1.0))


def _task(draw: np.random.Generator, gpus: int) -> Resources:
    cores, gib = int(draw.integers(1, 11)), int(draw.integers(2, 33))
    return Resources({CPU: 1000 * cores, MEMORY: gib << 30, "gpu": gpus})


def utility(of: Candidate, seconds: float) -> float:
    """As the paper defines it."""
    assert of.objective is not None and of.job.finish_by is not None
    due = of.job.finish_by
    return float(of.objective.weight / (1 + np.exp(min(STEEPNESS * (seconds - due) / due, 50))))


@dataclass(frozen=True)
class Option:
    """Counts of one job, what they take, and their utility."""

    counts: Counts
    cost: NDArray[np.float64]
    utility: float


def enumerated(of: Candidate) -> list[Option]:
    """All counts of a job within its bounds, by a loop."""
    bounds, found = of.job.bounds, []
    assert bounds.max_ps is not None and bounds.max_workers is not None
    for ps, workers in product(range(1, bounds.max_ps + 1), range(1, bounds.max_workers + 1)):
        demand = of.job.demand(Counts(ps, workers))
        cost = np.array([demand[name] for name in _NAMES], dtype=float)
        seconds = float(of.forecast.remaining_seconds(ps, workers))
        found.append(Option(Counts(ps, workers), cost, utility(of, seconds)))
    return found


def not_dominated(options: Sequence[Option]) -> list[Option]:
    """Without those that need no less than others of no smaller utility."""
    kept: list[Option] = []
    for each in sorted(options, key=lambda one: (-one.utility, sum(one.counts))):
        if not any((other.cost <= each.cost).all() for other in kept):
            kept.append(each)
    return kept


def bound(
    every: Sequence[Sequence[Option]], capacity: NDArray[np.float64], reached: float
) -> float:
    """No choice of one of each job's options, or none, is worth more: by the linear programme, or,
    where less than 99 % of that is reached, by the integer programme."""
    flat = [(row, each) for row, options in enumerate(every) for each in options]
    value = np.array([each.utility for _, each in flat])
    rows = np.array([row for row, _ in flat])
    one = csr_array(
        coo_array((np.ones(len(flat)), (rows, np.arange(len(flat)))), (len(every), len(flat)))
    )
    cost = csr_array((np.array([each.cost for _, each in flat]) / capacity).T)
    most = np.ones(len(every) + len(capacity))
    constraints = LinearConstraint(vstack([one, cost], format="csr"), -np.inf, most)
    linear = milp(-value, bounds=Bounds(0, 1), constraints=constraints)
    if reached >= -0.99 * linear.fun:
        return -float(linear.fun)
    found = milp(
        -value,
        integrality=np.ones(len(flat), dtype=np.int64),
        bounds=Bounds(0, 1),
        constraints=constraints,
        options={"mip_rel_gap": 1e-3, "time_limit": 60},
    )
    return -float(found.mip_dual_bound)


def greedy(every: Sequence[Sequence[Option]], capacity: NDArray[np.float64]) -> float:
    """The baseline on use: again and again the task, or start, of most utility per dominant
    share."""
    options = [{each.counts: each for each in of_job} for of_job in every]
    nothing = Option(Counts(0, 0), np.zeros(len(capacity)), 0.0)
    now, free = [nothing] * len(every), capacity.copy()
    heap: list[tuple[float, int, Counts]] = []

    def push(row: int) -> None:
        at = now[row].counts
        nearest = [Counts(at.ps + 1, at.workers), Counts(at.ps, at.workers + 1)]
        for counts in [Counts(1, 1)] if at == Counts(0, 0) else nearest:
            step = options[row].get(counts)
            if step is not None and step.utility > now[row].utility:
                share = float(((step.cost - now[row].cost) / capacity).max())
                heapq.heappush(heap, (-(step.utility - now[row].utility) / share, row, counts))

    for row in range(len(every)):
        push(row)
    while heap:
        _, row, counts = heapq.heappop(heap)
        step, at = options[row][counts], now[row].counts
        is_next = counts.ps + counts.workers == at.ps + at.workers + 1 or at == Counts(0, 0)
        if not is_next or counts.ps < at.ps or counts.workers < at.workers:
            continue
        if (step.cost - now[row].cost <= free).all():
            free = free - (step.cost - now[row].cost)
            now[row] = step
            push(row)
    return sum(each.utility for each in now)


def by_arrival(
    jobs: Sequence[Candidate], every: Sequence[Sequence[Option]], capacity: NDArray[np.float64]
) -> float:
    """The baseline on limits: an Optimus that reserves what its jobs may use at most; each that
    fits, in order of arrival, has the best counts within its limit."""
    free, total = capacity.copy(), 0.0
    for job, options in zip(jobs, every, strict=True):
        limit = _limit(job)
        if (limit <= free).all():
            free, total = free - limit, total + max(each.utility for each in options)
    return total


def _limit(job: Candidate) -> NDArray[np.float64]:
    demand = job.job.demand(job.job.counts)
    return np.array([demand[name] for name in _NAMES], dtype=float)


def chosen(jobs: Sequence[Candidate], capacity: Resources, charge: Charge) -> Mapping[str, Counts]:
    """What the policy grants."""
    problem = PoolProblem(AllocationProblem(capacity, capacity, tuple(jobs)))
    answer, _ = SmdPolicy(charge=charge).decide(ClusterProblem(0.0, (problem,)), NO_MEMORY, 0)
    return {uid: each.counts for uid, each in grants(answer).items()}


def worth(jobs: Sequence[Candidate], counts: Mapping[str, Counts]) -> float:
    """The sum of utilities."""
    return sum(
        utility(each, each.forecast.at(counts[each.job.uid]))
        for each in jobs
        if each.job.uid in counts
    )


def measure(mode: str, units: int, jobs: int, seed: int) -> dict[str, float]:
    """One problem."""
    candidates = drawn(mode, jobs, np.random.default_rng([seed, units, jobs, mode == "sync"]))
    room = _UNIT * units
    capacity = np.array([room[name] for name in _NAMES], dtype=float)
    every = [enumerated(each) for each in candidates]
    best = [max(options, key=lambda each: each.utility) for options in every]
    limits = [
        [Option(each.counts, _limit(job), each.utility)]
        for job, each in zip(candidates, best, strict=True)
    ]
    by_limit = chosen(candidates, room, Charge.LIMIT)
    begin = time.process_time()
    by_use = chosen(candidates, room, Charge.USE)
    seconds = time.process_time() - begin
    inner = [
        best[row].utility - utility(each, each.forecast.at(by_limit[each.job.uid]))
        for row, each in enumerate(candidates)
        if each.job.uid in by_limit
    ]
    by_use_greedily = greedy(every, capacity)
    of_limit, of_use = worth(candidates, by_limit), worth(candidates, by_use)
    return {
        "inner, most lost": max(inner, default=0.0),
        "limits / bound": of_limit / bound(limits, capacity, of_limit),
        "use / bound": of_use / bound(list(map(not_dominated, every)), capacity, of_use),
        "limits / by arrival": of_limit / by_arrival(candidates, every, capacity),
        "use / greedy": of_use / by_use_greedily,
        "use / limits": of_use / of_limit,
        "limits / greedy on use": of_limit / by_use_greedily,
        "CPU s": seconds,
    }


def rows(problems: int) -> Iterator[dict[str, object]]:
    """Of each setting the mean and the worst."""
    for mode, (units, jobs) in SETTINGS:
        found = [measure(mode, units, jobs, seed) for seed in range(problems)]
        names = found[0].keys()
        mean = {name: float(np.mean([each[name] for each in found])) for name in names}
        least = {name: float(min(each[name] for each in found)) for name in names}
        most = {name: float(max(each[name] for each in found)) for name in names}
        yield {
            "setting": f"{mode}, {units} units, {jobs} jobs",
            "mean": mean,
            "least": least,
            "most": most,
        }


def large(jobs: int = 1000) -> dict[str, float]:
    """CPU seconds of one decision about many jobs."""
    candidates = drawn("sync", jobs, np.random.default_rng(1))
    begin = time.process_time()
    chosen(candidates, _UNIT * 25, Charge.USE)
    return {"jobs": jobs, "CPU s": time.process_time() - begin}


def main() -> None:
    """Print one line of JSON for each setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=50)
    parser.add_argument("--large", action="store_true", help="1,000 jobs alone")
    options = parser.parse_args()
    if options.large:
        print(json.dumps(large()))
        return
    for each in rows(options.problems):
        print(json.dumps(each), flush=True)


if __name__ == "__main__":
    main()
