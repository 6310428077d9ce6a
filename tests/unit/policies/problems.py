"""Allocation problems with speeds of known coefficients."""

import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus.allocation import (
    NO_MEMORY,
    Allocation,
    AllocationProblem,
    Candidate,
    ClusterProblem,
    Policy,
)
from optimus.allocation.policy import PoolProblem, grants
from optimus.jobs import CountBounds, Counts, Job, JobKey, ReplicaSpec, TargetLoss
from optimus.models.forecast import Forecast
from optimus.policies import POLICIES, policy_named
from optimus.resources import MEMORY, NONE, Resources, total

GIB = 2**30
POOL_POLICIES = tuple(name for name in POLICIES if not policy_named(name).traits.reads_kinds)
"""Those that are asked for one pool at a time."""


def allocate(policy: Policy | str, problem: AllocationProblem) -> Allocation:
    """What a policy answers for one pool, with the reasons of all jobs."""
    decides = policy_named(policy) if isinstance(policy, str) else policy
    answer, _ = decides.decide(ClusterProblem(0.0, (PoolProblem(problem),)), NO_MEMORY, 0)
    counts = {uid: each.counts for uid, each in grants(answer).items()}
    return Allocation(counts, {uid: each.reason for uid, each in answer.items()})


@dataclass(frozen=True)
class PaperSpeed:
    """Equation 4: f = 1 / (compute / w + t1 + t2 w / p + t3 w + t4 p)."""

    compute: float
    t1: float
    t2: float
    t3: float
    t4: float

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        p, w = np.asarray(ps, float), np.asarray(workers, float)
        return np.asarray(
            1 / (self.compute / w + self.t1 + self.t2 * w / p + self.t3 * w + self.t4 * p)
        )


SPEED = PaperSpeed(8.0, 0.1, 0.3, 0.01, 0.01)


def candidate(
    uid: str,
    speed: PaperSpeed = SPEED,
    steps: float = 1000.0,
    *,
    ps: Resources | None = None,
    worker: Resources | None = None,
    bounds: CountBounds | None = None,
    may_grow: bool = True,
    running: bool = False,
    created_at: float = 0.0,
) -> Candidate:
    task = Resources(cpu=1000)
    job = Job(
        key=JobKey("team", uid),
        uid=uid,
        kind="TFJob",
        created_at=created_at,
        counts=Counts(1, 1),
        ps=ReplicaSpec(task if ps is None else ps),
        worker=ReplicaSpec(task if worker is None else worker),
        bounds=bounds or CountBounds(),
        goal=TargetLoss(0.1),
    )
    return Candidate(job, Forecast(speed, steps, goal_met=not may_grow), running)


def problem(available: Resources, *candidates: Candidate) -> AllocationProblem:
    return AllocationProblem(available, available, candidates)


def authors_problem(jobs: int, nodes: int, gpus: int = 0) -> AllocationProblem:
    """The inputs of the authors' program, drawn in the same order from the same seed."""
    draw = random.Random(9973 + jobs)
    candidates = []
    for index in range(jobs):
        draw.choice([32, 64, 128, 256])
        compute, arrival, steps = (
            draw.uniform(5, 20),
            round(draw.uniform(0, 1000), 6),
            draw.randint(10, 200),
        )
        speed = PaperSpeed(
            compute,
            draw.uniform(0.1, 0.5),
            draw.uniform(0.2, 0.5),
            draw.uniform(0.005, 0.02),
            draw.uniform(0.005, 0.02),
        )
        ps = Resources(cpu=draw.choice([2, 3, 4]) * 1000, memory=6 * GIB)
        worker = Resources({"cpu": draw.choice([1, 2, 3]) * 1000, MEMORY: 6 * GIB, "gpu": gpus})
        candidates.append(
            candidate(
                f"{index:05}", speed, steps, ps=ps, worker=worker, running=True, created_at=arrival
            )
        )
    return problem(
        Resources({"cpu": 16000 * nodes, MEMORY: 48 * GIB * nodes, "gpu": 2 * nodes}), *candidates
    )


def used(given: AllocationProblem, answer: Allocation) -> Resources:
    demands = (
        each.job.demand(answer.counts[each.job.uid])
        for each in given.candidates
        if each.job.uid in answer.counts
    )
    return total(demands) if answer.counts else NONE


def objective(given: AllocationProblem, answer: Allocation) -> float:
    """The paper's: the sum of all jobs' remaining seconds."""
    return sum(each.forecast.at(answer.counts[each.job.uid]) for each in given.candidates)
