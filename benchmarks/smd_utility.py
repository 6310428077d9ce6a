"""How good the policy ``smd`` is at what it maximises: the sum of utilities (SMD, INFOCOM 2021).

    python -m benchmarks.smd_utility [--problems 50]

Problems of one decision are drawn in six settings: sync or async, 1 or 5 units of capacity, 50 or
200 jobs. What the paper gives is drawn from its ranges: 50 to 200 epochs, models of 30 to 575 MB,
links of 5 to 20 Gbps, and the utility of hours. The rest is drawn here: weights of 1 to 100,
deadlines of 1 to 15 hours, limits of 2 to 20 tasks of a role, tasks of 1 to 10 cores and 2 to 32
GiB, workers of 0 to 4 GPUs. A unit are 500 cores, 1,500 GiB and 90 GPUs, a twelfth of what 50 jobs
may ask for. Compared are, each problem by itself:

- the counts of each job with all that lie within its bounds;
- what is chosen with the bound of the integer programme of all enumerated counts;
- with a greedy choice by utility per dominant share, task by task.
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
from optimus.policies.smd import SmdPolicy
from optimus.resources import CPU, MEMORY, Resources

Amounts = NDArray[np.float64]

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
    return Candidate(job, Forecast(speed, steps), objective=JobObjective(float(weight), 0.0))


def _task(draw: np.random.Generator, gpus: int) -> Resources:
    cores, gib = int(draw.integers(1, 11)), int(draw.integers(2, 33))
    return Resources({CPU: 1000 * cores, MEMORY: gib << 30, "gpu": gpus})


def utility(of: Candidate, seconds: ArrayLike) -> Amounts:
    """As the paper defines it."""
    assert of.objective is not None
    assert of.job.finish_by is not None
    power = STEEPNESS * (np.asarray(seconds) - of.job.finish_by) / of.job.finish_by
    return np.asarray(of.objective.weight / (1 + np.exp(np.minimum(power, 50))))


@dataclass(frozen=True)
class Options:
    """Counts of one job, shape (options, 2), what they take by resource, and their utilities."""

    counts: NDArray[np.int64]
    cost: Amounts
    utility: Amounts

    @property
    def best(self) -> float:
        """The largest utility."""
        return float(self.utility.max())


def enumerated(of: Candidate) -> Options:
    """All counts of a job within its bounds."""
    bounds, job = of.job.bounds, of.job
    assert bounds.max_ps is not None
    assert bounds.max_workers is not None
    counts = 1 + np.array(list(np.ndindex(bounds.max_ps, bounds.max_workers)))
    task = np.array([[each.resources[name] for name in _NAMES] for each in (job.ps, job.worker)])
    seconds = of.forecast.remaining_seconds(counts[:, 0], counts[:, 1])
    return Options(counts, (counts @ task).astype(float), utility(of, seconds))


def not_dominated(options: Options) -> Options:
    """Without those that need no less than others of a larger utility."""
    cheaper = (options.cost[None] <= options.cost[:, None]).all(axis=2)
    kept = ~(cheaper & (options.utility[None] > options.utility[:, None])).any(axis=1)
    return Options(options.counts[kept], options.cost[kept], options.utility[kept])


def bound(every: Sequence[Options], capacity: Amounts, reached: float) -> float:
    """No choice of one of each job's options, or none, is worth more: by the linear programme, or,
    where less than 99 % of that is reached, by the integer programme."""
    value = np.concatenate([each.utility for each in every])
    rows = np.repeat(np.arange(len(every)), [len(each.utility) for each in every])
    one = csr_array(
        coo_array((np.ones(len(rows)), (rows, np.arange(len(rows)))), (len(every), len(rows)))
    )
    cost = csr_array((np.concatenate([each.cost for each in every]) / capacity).T)
    most = np.ones(len(every) + len(capacity))
    constraints = LinearConstraint(vstack([one, cost], format="csr"), -np.inf, most)
    linear = milp(-value, bounds=Bounds(0, 1), constraints=constraints)
    most_worth = -float(linear.fun or 0.0)
    if reached >= 0.99 * most_worth:
        return most_worth
    found = milp(
        -value,
        integrality=np.ones(len(value), dtype=np.int64),
        bounds=Bounds(0, 1),
        constraints=constraints,
        options={"mip_rel_gap": 1e-3, "time_limit": 60},
    )
    return -float(found.mip_dual_bound or 0.0)


def greedy(every: Sequence[Options], capacity: Amounts) -> float:
    """The baseline on use: again and again the task, or start, of most utility per dominant
    share."""
    tables = [{(p, w): at for at, (p, w) in enumerate(each.counts.tolist())} for each in every]
    now, free = [(0, 0)] * len(every), capacity.copy()
    cost, value = np.zeros((len(every), len(capacity))), np.zeros(len(every))
    heap: list[tuple[float, int, tuple[int, int], tuple[int, int]]] = []

    def push(row: int) -> None:
        ps, workers = now[row]
        for counts in [(ps + 1, workers), (ps, workers + 1)] if ps else [(1, 1)]:
            at = tables[row].get(counts)
            if at is not None and every[row].utility[at] > value[row]:
                share = float(((every[row].cost[at] - cost[row]) / capacity).max())
                gain = float(every[row].utility[at] - value[row])
                heapq.heappush(heap, (-gain / share, row, counts, now[row]))

    for row in range(len(every)):
        push(row)
    while heap:
        _, row, counts, before = heapq.heappop(heap)
        at = tables[row][counts]
        more = every[row].cost[at] - cost[row]
        if before == now[row] and (more <= free).all():
            free, now[row] = free - more, counts
            cost[row], value[row] = every[row].cost[at], every[row].utility[at]
            push(row)
    return float(value.sum())


def chosen(jobs: Sequence[Candidate], capacity: Resources) -> Mapping[str, Counts]:
    """What the policy grants."""
    problem = PoolProblem(AllocationProblem(capacity, capacity, tuple(jobs)))
    answer, _ = SmdPolicy().decide(ClusterProblem(0.0, (problem,)), NO_MEMORY, 0)
    return {uid: each.counts for uid, each in grants(answer).items()}


def worth(jobs: Sequence[Candidate], counts: Mapping[str, Counts]) -> float:
    """The sum of utilities."""
    return sum(
        float(utility(each, each.forecast.at(counts[each.job.uid])))
        for each in jobs
        if each.job.uid in counts
    )


def measure(mode: str, units: int, jobs: int, seed: int) -> dict[str, float]:
    """One problem."""
    candidates = drawn(mode, jobs, np.random.default_rng([seed, units, jobs, mode == "sync"]))
    room = _UNIT * units
    capacity = np.array([room[name] for name in _NAMES], dtype=float)
    every = [enumerated(each) for each in candidates]
    begin = time.process_time()
    found = worth(candidates, chosen(candidates, room))
    seconds = time.process_time() - begin
    return {
        "choice / bound": found / bound(list(map(not_dominated, every)), capacity, found),
        "choice / greedy": found / greedy(every, capacity),
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


def main() -> None:
    """Print one line of JSON for each setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=50)
    options = parser.parse_args()
    for each in rows(options.problems):
        print(json.dumps(each), flush=True)


if __name__ == "__main__":
    main()
