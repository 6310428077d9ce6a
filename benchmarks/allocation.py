"""How long one allocation and placement takes, from 100 to 4,000 jobs, and how that grows.

``python -m benchmarks.allocation [--policy NAME] [--tasks KIND] [--largest] [--repeats N]`` draws
the jobs again from their seed and prints JSON: CPU seconds of this process, best of the repeats;
the objective; and the exponent of growth, the slope of log seconds over log jobs (none of the
largest size alone). Tasks are ``plain`` (whole cores, no GPU), ``gpu`` (the same, a GPU a worker)
or ``own`` (each job asks for fractions of its own, a third for GPUs). The named reference, measured
in the same run, is ``heap-and-rows``: the published greedy one step at a time in a heap, by cores
alone, and nothing placed."""

import argparse
import heapq
import json
import math
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from optimus.allocation import Candidate, ClusterProblem, Policy, PolicyMemory, PolicyTraits
from optimus.allocation.policy import ClusterAllocation
from optimus.cli.job_table import TableForecast, read_job_table
from optimus.cli.plan import POOL_POLICIES, Plan, equal_nodes, plan, policy_for_tables
from optimus.nodes import Node
from optimus.resources import Resources

NODE = Resources(cpu=16000, memory=48 << 30, bandwidth=10000, gpu=2)
SIZES = ((100, 400), (250, 1000), (500, 2000), (1000, 4000), (2000, 8000), (4000, 16000))


class Tasks(StrEnum):
    """What tasks ask for."""

    PLAIN = "plain"
    GPU = "gpu"
    OWN = "own"


def rows(jobs: int, tasks: Tasks = Tasks.PLAIN) -> list[str]:
    """The jobs of the authors' benchmark inputs, in the order in which they are drawn."""
    draw, own = random.Random(9973 + jobs), random.Random(jobs)
    found = []
    for number in range(1, jobs + 1):
        batch = float(draw.choice([32, 64, 128, 256]))
        compute, arrival, steps = (
            draw.uniform(5, 20),
            round(draw.uniform(0, 1000), 6),
            draw.randint(10, 200),
        )
        terms = [
            draw.uniform(*bounds)
            for bounds in ((0.1, 0.5), (0.2, 0.5), (0.005, 0.02), (0.005, 0.02))
        ]
        ps, worker = draw.choice([2, 3, 4]), draw.choice([1, 2, 3])
        asked: list[float] = [ps, 6, 0, worker, 6, 0, int(tasks is Tasks.GPU)]
        if tasks is Tasks.OWN:
            asked = [round(amount * own.uniform(0.7, 1.3), 2) for amount in asked]
            asked[-1] = int(own.random() < 1 / 3)
        cells = [number, arrival, steps, batch, compute / batch, *terms, *asked]
        found.append(",".join(map(repr, cells)))
    return found


def drawn(jobs: int, tasks: Tasks = Tasks.PLAIN) -> tuple[Candidate, ...]:
    """These jobs as ``optimus plan`` reads them."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "jobs.csv"
        file.write_text("\n".join(rows(jobs, tasks)))
        return read_job_table(file, NODE)


def heap_and_rows(candidates: Sequence[Candidate], nodes: int) -> int:
    """The reference: how many tasks the published rule hands out, by cores alone."""
    free = NODE["cpu"] * nodes
    heap: list[tuple[float, int, int, int, int]] = []
    costs = [
        (each.job.ps.resources["cpu"], each.job.worker.resources["cpu"]) for each in candidates
    ]

    def push(row: int, ps: int, workers: int) -> None:
        forecast = candidates[row].forecast
        assert isinstance(forecast, TableForecast)
        now = forecast.at((ps, workers))  # type: ignore[arg-type]  # a plain pair is quicker to make
        gains = (
            (now - forecast.at((ps + 1, workers))) / costs[row][0],  # type: ignore[arg-type]  # as above
            (now - forecast.at((ps, workers + 1))) / costs[row][1],  # type: ignore[arg-type]  # as above
        )
        column = int(gains[1] > gains[0])
        heapq.heappush(heap, (-gains[column], row, ps, workers, column))

    for row in range(len(candidates)):
        free -= sum(costs[row])
        push(row, 1, 1)
    tasks = 2 * len(candidates)
    while heap:
        gain, row, ps, workers, column = heapq.heappop(heap)
        if gain >= 0 or costs[row][column] > free:
            break
        free -= costs[row][column]
        tasks += 1
        push(row, ps + (column == 0), workers + (column == 1))
    return tasks


@dataclass(slots=True)
class TimedPolicy:
    """A policy, and the CPU seconds that it took so far."""

    policy: Policy
    seconds: float = 0.0
    name: str = field(init=False)
    traits: PolicyTraits = field(init=False)

    def __post_init__(self) -> None:
        self.name, self.traits = self.policy.name, self.policy.traits

    def decide(
        self, problem: ClusterProblem, memory: PolicyMemory, seed: int
    ) -> tuple[ClusterAllocation, PolicyMemory]:
        """As the policy does."""
        begin = time.process_time()
        answer = self.policy.decide(problem, memory, seed)
        self.seconds += time.process_time() - begin
        return answer


@dataclass(frozen=True, slots=True)
class _Measured:
    plan: Plan
    allocation_seconds: float
    placement_seconds: float

    @property
    def seconds(self) -> float:
        return self.allocation_seconds + self.placement_seconds


def _planned(candidates: Sequence[Candidate], cluster: Sequence[Node], policy: Policy) -> _Measured:
    timed, begin = TimedPolicy(policy), time.process_time()
    found = plan(candidates, cluster, timed, policy.traits.placed_by)
    seconds = time.process_time() - begin
    return _Measured(found, timed.seconds, seconds - timed.seconds)


def measure(jobs: int, nodes: int, options: argparse.Namespace) -> dict[str, float]:
    """One size: the best of the repeats."""
    candidates, cluster, policy = (
        drawn(jobs, options.tasks),
        equal_nodes(nodes, NODE),
        policy_for_tables(options.policy),
    )
    begin = time.process_time()
    heap_and_rows(candidates, nodes)
    reference = time.process_time() - begin
    found = (_planned(candidates, cluster, policy) for _ in range(options.repeats))
    best = min(found, key=lambda each: each.seconds)
    return {
        "jobs": jobs,
        "nodes": nodes,
        "tasks": best.plan.tasks,
        "whole_jobs": len(best.plan.counts),
        "objective": best.plan.objective,
        "allocation_seconds": best.allocation_seconds,
        "placement_seconds": best.placement_seconds,
        "heap-and-rows_seconds": reference,
        "ratio_to_heap-and-rows": best.seconds / reference,
    }


def main() -> None:
    """Measure all sizes and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", choices=POOL_POLICIES, default="optimus")
    parser.add_argument("--tasks", type=Tasks, choices=list(Tasks), default=Tasks.PLAIN)
    parser.add_argument("--largest", action="store_true", help="the largest size alone")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    found = [measure(*size, options) for size in (SIZES[-1:] if options.largest else SIZES)]
    header = {"policy": options.policy, "tasks": options.tasks, "growth_exponent": _slope(found)}
    print(json.dumps({**header, "sizes": found}, indent=2))


def _slope(found: Sequence[dict[str, float]]) -> float | None:
    if len(found) < 2:
        return None
    points = [
        (math.log(each["jobs"]), math.log(each["allocation_seconds"] + each["placement_seconds"]))
        for each in found
    ]
    x_mean, y_mean = (sum(column) / len(points) for column in zip(*points, strict=True))
    return float(
        sum((x - x_mean) * (y - y_mean) for x, y in points)
        / sum((x - x_mean) ** 2 for x, _ in points)
    )


if __name__ == "__main__":
    main()
