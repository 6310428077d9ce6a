"""How long the ideal shares of ``gavel-las`` take, and how that depends on how many jobs are equal.

``python -m benchmarks.time_shares [--repeats N]`` draws jobs as Gavel's trace generator does (26
job types, 1, 2, 4 or 8 workers with probabilities 0.70, 0.10, 0.15 and 0.05) on three kinds of
nodes with a quarter as many workers each as there are jobs, and prints JSON: CPU milliseconds of
this process, median of the repeats, of equal jobs merged, the same with more nodes, and jobs that
all differ, by water filling and by one programme; the number of groups; the smallest value, and by
how much it differs from that of one plain programme over all jobs. The named reference, measured in
the same run, is ``plain``: that programme, unmerged and solved once (scipy's ``linprog``, HiGHS),
which does not raise those that it does not bound."""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import block_array, csr_array, kron

from benchmarks.gavel_rounds import max_min
from optimus.allocation.time_shares import SharesProblem, Values
from optimus.policies.gavel_las import GavelLasPolicy

SIZES = (256, 1024, 2048)
_KINDS, _TYPES = 3, 26
_ROOMY = 2.8
"""As many times the nodes: a part of the jobs is bounded by its own time, each type at a level of
its own."""


def drawn(jobs: int, *, equal: bool) -> SharesProblem:
    """Without ``equal`` each job's throughputs are its own."""
    rng = np.random.default_rng(jobs)
    types = np.stack(
        [np.ones(_TYPES), rng.uniform(0.4, 0.9, _TYPES), rng.uniform(0.1, 0.5, _TYPES)], axis=1
    )
    speeds = types[rng.integers(_TYPES, size=jobs)]
    if not equal:
        speeds = speeds * rng.uniform(0.9, 1.1, speeds.shape)
    workers = rng.choice([1.0, 2.0, 4.0, 8.0], p=[0.70, 0.10, 0.15, 0.05], size=(jobs, 1))
    return SharesProblem(
        at=0.0,
        speeds=speeds,
        workers=workers,
        others=np.zeros_like(workers),
        capacity=np.full((_KINDS, 1), jobs / 4),
        nodes=np.full(_KINDS, jobs / 4),
        prices=np.ones(_KINDS),
        weights=np.ones(jobs),
        namespaces=("team",) * jobs,
        steps_left=np.ones(jobs),
        submitted=np.zeros(jobs),
        finish_by=np.full(jobs, np.inf),
        notes=({},) * jobs,
    )


def worth(problem: SharesProblem) -> Values:
    """What all the time on each kind is worth to each job."""
    return np.asarray(problem.speeds * (problem.sizes / problem.usual)[:, None])


def plain(problem: SharesProblem) -> float:
    """The smallest value, by one programme with a column for each job and kind."""
    jobs, kinds = problem.speeds.shape
    each_job: Any = kron(csr_array(np.eye(jobs)), csr_array(np.ones((1, kinds))))
    each_kind: Any = kron(csr_array(problem.workers.T), csr_array(np.eye(kinds)))
    values: Any = each_job.multiply(worth(problem).ravel())
    level: Any = csr_array(np.ones((jobs, 1)))
    matrix: Any = block_array([[-values, level], [each_job, None], [each_kind, None]], format="csr")
    objective = np.zeros(jobs * kinds + 1)
    objective[-1] = -1.0
    bounds = np.concatenate([np.zeros(jobs), np.ones(jobs), problem.capacity.ravel()])
    found = linprog(objective, A_ub=matrix, b_ub=bounds, method="highs")
    return -float(found.fun or 0.0)


def milliseconds(run: Callable[[], object], repeats: int) -> float:
    """CPU time of one run, median."""
    taken = []
    for _ in range(repeats):
        begin = time.process_time()
        run()
        taken.append(time.process_time() - begin)
    return statistics.median(taken) * 1000


def measure(jobs: int, repeats: int) -> dict[str, float]:
    """One number of jobs."""
    levels = GavelLasPolicy()
    problem, different = drawn(jobs, equal=True), drawn(jobs, equal=False)
    roomy = replace(problem, capacity=problem.capacity * _ROOMY)
    smallest = float((worth(problem) * levels.shares(problem)).sum(axis=1).min())
    return {
        "jobs": jobs,
        "groups": len(np.unique(np.hstack([problem.speeds, problem.workers]), axis=0)),
        "merged_ms": milliseconds(lambda: levels.shares(problem), repeats),
        "roomy_ms": milliseconds(lambda: levels.shares(roomy), repeats),
        "all_different_ms": milliseconds(lambda: levels.shares(different), repeats),
        "all_different_one_programme_ms": milliseconds(lambda: max_min(different), repeats),
        "plain_ms": milliseconds(lambda: plain(problem), repeats),
        "smallest_value": smallest,
        "relative_difference_to_plain": smallest / plain(problem) - 1,
    }


def main() -> None:
    """Measure all sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(json.dumps([measure(jobs, options.repeats) for jobs in SIZES], indent=2))


if __name__ == "__main__":
    main()
