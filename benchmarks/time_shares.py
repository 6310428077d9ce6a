"""How long the ideal shares of ``gavel-las`` take, and how that depends on how many jobs are equal.

``python -m benchmarks.time_shares [--repeats N]`` draws jobs as Gavel's trace generator does (26
job types, 1, 2, 4 or 8 workers with probabilities 0.70, 0.10, 0.15 and 0.05) on three kinds of
nodes with a quarter as many workers each as there are jobs, and prints JSON: CPU milliseconds of
this process, median of the repeats, of equal jobs merged, the same with more nodes, and jobs that
all differ; the number of groups; the smallest value, and by how much it differs from that of one
plain programme over all jobs. The named reference, measured in the same run, is ``plain``: that
programme, unmerged and solved once (``linprog``, HiGHS), which does not raise those that it does
not bound."""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import block_array, csr_array, kron

from optimus.allocation.max_min import max_min_shares

Values = NDArray[np.float64]

SIZES = (256, 1024, 2048)
_KINDS, _TYPES = 3, 26
_ROOMY = 2.8
"""As many times the nodes: a part of the jobs is bounded by its own time, each type at a level of
its own."""
_LARGEST_DIFFERENT = 256
"""Jobs that all differ take a programme for each level: far more than once, and not more of it."""


def drawn(jobs: int, *, equal: bool) -> tuple[Values, Values, Values]:
    """Worth, demand and capacity; without ``equal`` each job's throughputs are its own."""
    rng = np.random.default_rng(jobs)
    types = np.stack(
        [np.ones(_TYPES), rng.uniform(0.4, 0.9, _TYPES), rng.uniform(0.1, 0.5, _TYPES)], axis=1
    )
    speeds = types[rng.integers(_TYPES, size=jobs)]
    if not equal:
        speeds = speeds * rng.uniform(0.9, 1.1, speeds.shape)
    workers = rng.choice([1.0, 2.0, 4.0, 8.0], p=[0.70, 0.10, 0.15, 0.05], size=(jobs, 1))
    worth = speeds * workers / speeds.mean(axis=1, keepdims=True)
    return worth, workers, np.full((_KINDS, 1), jobs / 4)


def plain(worth: Values, demand: Values, capacity: Values) -> float:
    """The smallest value, by one programme with a column for each job and kind."""
    jobs, kinds = worth.shape
    each_job: Any = kron(csr_array(np.eye(jobs)), csr_array(np.ones((1, kinds))))
    each_kind: Any = kron(csr_array(demand.T), csr_array(np.eye(kinds)))
    values: Any = each_job.multiply(worth.ravel())
    level: Any = csr_array(np.ones((jobs, 1)))
    matrix: Any = block_array([[-values, level], [each_job, None], [each_kind, None]], format="csr")
    objective = np.zeros(jobs * kinds + 1)
    objective[-1] = -1.0
    bounds = np.concatenate([np.zeros(jobs), np.ones(jobs), capacity.ravel()])
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
    problem = drawn(jobs, equal=True)
    worth, demand, roomy = problem[0], problem[1], problem[2] * _ROOMY
    smallest = float((worth * max_min_shares(*problem)).sum(axis=1).min())
    found = {
        "jobs": jobs,
        "groups": len(np.unique(np.hstack([worth, demand]), axis=0)),
        "merged_ms": milliseconds(lambda: max_min_shares(*problem), repeats),
        "roomy_ms": milliseconds(lambda: max_min_shares(worth, demand, roomy), repeats),
        "plain_ms": milliseconds(lambda: plain(*problem), repeats),
        "smallest_value": smallest,
        "relative_difference_to_plain": smallest / plain(*problem) - 1,
    }
    if jobs <= _LARGEST_DIFFERENT:
        different = drawn(jobs, equal=False)
        found["all_different_ms"] = milliseconds(lambda: max_min_shares(*different), repeats)
    return found


def main() -> None:
    """Measure all sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(json.dumps([measure(jobs, options.repeats) for jobs in SIZES], indent=2))


if __name__ == "__main__":
    main()
