"""What one whole interval costs, by its parts:
``python -m benchmarks.interval [--jobs 4000] [--nodes 16000]``.

All jobs run and have new measurements: 20 speeds and 200 losses each, as in
``benchmarks.fits``. Two intervals are planned on what ``plan_interval`` is given on a cluster: the
first finds every job at one PS and one worker, the second where the first one has put it. CPU
seconds of this process: ``fit`` is spent in forecasts, ``allocation`` in the policy, ``placement``
in all else. The reference, in the same run, is ``heap-and-rows`` of ``benchmarks.allocation``: the
published greedy one step at a time, without a fit and without a place."""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.allocation import NODE, drawn, heap_and_rows
from benchmarks.fits import draw_case
from optimus.allocation import ClusterProblem, Policy, PolicyMemory, PolicyTraits
from optimus.allocation.policy import ClusterAllocation
from optimus.cli.plan import equal_nodes
from optimus.errors import NotReady
from optimus.interval import (
    Action,
    IntervalConfig,
    IntervalInput,
    IntervalPlan,
    Strategies,
    plan_interval,
)
from optimus.interval.capacity_plan import CapacityPlan
from optimus.jobs import Job
from optimus.models.forecast import Forecast, ForecastFn, forecast_job
from optimus.nodes import Node
from optimus.placement import PLACEMENT_RULES
from optimus.policies import policy_named
from optimus.progress.types import TrainingProgress
from optimus.snapshot import BoundPod, ClusterSnapshot, ReplicaId

_SAMPLES, _POINTS = 20, 200
_RULE = PLACEMENT_RULES["theorem1"]
_AT = 1e6


@dataclass(slots=True)
class Watch:
    """The CPU seconds that forecasts and allocations took so far."""

    fit_seconds: float = 0.0
    allocation_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _TimedForecast:
    forecast: ForecastFn
    watch: Watch

    def __call__(self, job: Job, progress: TrainingProgress, /) -> Forecast | NotReady:
        begun = time.process_time()
        forecast = self.forecast(job, progress)
        self.watch.fit_seconds += time.process_time() - begun
        return forecast


@dataclass(slots=True)
class _TimedPolicy:
    policy: Policy
    watch: Watch
    name: str = field(init=False)
    traits: PolicyTraits = field(init=False)

    def __post_init__(self) -> None:
        self.name, self.traits = self.policy.name, self.policy.traits

    def decide(
        self, problem: ClusterProblem, memory: PolicyMemory, seed: int
    ) -> tuple[ClusterAllocation, PolicyMemory]:
        begun = time.process_time()
        answer = self.policy.decide(problem, memory, seed)
        self.watch.allocation_seconds += time.process_time() - begun
        return answer


def main() -> None:
    """Time both intervals and write what was found as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=4000)
    parser.add_argument("--nodes", type=int, default=16000)
    options = parser.parse_args()
    reference = _seconds_of_reference(options.jobs, options.nodes)
    jobs, progress = draw_jobs(options.jobs)
    nodes = equal_nodes(options.nodes, NODE)
    given = IntervalInput(snapshot_of(jobs, nodes), progress)
    first, plan = measure("first", given)
    again, _ = measure(
        "again", replace(given, snapshot=snapshot_of(carried_out(jobs, plan), nodes))
    )
    for found in (first, again):
        found["ratio_to_heap-and-rows"] = round(float(found["seconds"]) / reference, 2)
    header = {"jobs": len(jobs), "nodes": len(nodes), "heap-and-rows_seconds": round(reference, 3)}
    print(json.dumps({**header, "intervals": [first, again]}, indent=2, allow_nan=False))


def _seconds_of_reference(jobs: int, nodes: int) -> float:
    candidates = drawn(jobs)
    begun = time.process_time()
    heap_and_rows(candidates, nodes)
    return time.process_time() - begun


def draw_jobs(count: int) -> tuple[list[Job], dict[str, TrainingProgress]]:
    """Running jobs with the amounts of ``benchmarks.allocation``, and their progress by UID."""
    rng = np.random.default_rng(1)
    jobs, progress = [], {}
    for number, candidate in enumerate(drawn(count)):
        job, known = draw_case(number, _SAMPLES, _POINTS, rng)
        jobs.append(replace(job, ps=candidate.job.ps, worker=candidate.job.worker))
        progress[job.uid] = known
    return jobs, progress


def snapshot_of(jobs: Sequence[Job], nodes: Sequence[Node]) -> ClusterSnapshot:
    """All pods of the jobs bound, where the rule places them on empty nodes."""
    plan = CapacityPlan.of(ClusterSnapshot(_AT, (), tuple(nodes), ()), _RULE)
    for job in jobs:
        refusal = plan.assign(job, job.counts)
        assert refusal is None, refusal
    held = (each for job in jobs for each in plan.held[job.uid])
    pods = (BoundPod(_uid(each.replica), each.node, each.resources, each.replica) for each in held)
    return ClusterSnapshot.of(_AT, jobs, nodes, pods)


def _uid(replica: ReplicaId) -> str:
    return f"{replica.job_uid}/{replica.role}-{replica.index}"


def carried_out(jobs: Sequence[Job], plan: IntervalPlan) -> list[Job]:
    """The jobs at the counts decided, large ones first: what is large is placed first."""
    counts = {each.uid: each.counts for each in plan.decisions}
    there = [replace(job, counts=counts[job.uid]) for job in jobs]
    return sorted(there, key=lambda job: -sum(job.counts))


def measure(name: str, given: IntervalInput) -> tuple[dict[str, float | str], IntervalPlan]:
    """One interval: CPU seconds by part, and what was decided."""
    watch = Watch()
    strategies = Strategies(
        _TimedPolicy(policy_named("optimus"), watch), _RULE, _TimedForecast(forecast_job, watch)
    )
    begun = time.process_time()
    plan = plan_interval(name, given, strategies, IntervalConfig())
    seconds = time.process_time() - begun
    return {
        "interval": name,
        "seconds": round(seconds, 3),
        "fit_seconds": round(watch.fit_seconds, 3),
        "allocation_seconds": round(watch.allocation_seconds, 3),
        "placement_seconds": round(seconds - watch.fit_seconds - watch.allocation_seconds, 3),
        "tasks": sum(sum(each.counts) for each in plan.decisions),
        "changed": sum(each.action is not Action.KEEP for each in plan.decisions),
    }, plan


if __name__ == "__main__":
    main()
