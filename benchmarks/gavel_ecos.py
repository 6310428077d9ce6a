"""The authors' solver around Gavel's programmes, in the loop of ``benchmarks.gavel_rounds``.

``pip install cvxpy==1.9.3 ecos==2.0.14; python -m benchmarks.gavel_ecos`` shows that the loop is
exact: with the solver of the reference each figure is that of the reference. Neither package is
needed for anything else, and ECOS is under the GPL, so they are in no list of requirements."""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.gavel_rounds import CLUSTERS, Rule, of_jobs, read_trace, replay
from optimus.allocation.time_shares import SharesProblem, Values

Objective = Callable[[Any, Any, SharesProblem], Any]
"""From cvxpy, the variables of shape (jobs, kinds) and the problem."""


def shares_of(objective: Objective, problem: SharesProblem) -> Values:
    """The optimum that ECOS finds; the order of kinds, by name, matters to it."""
    cvxpy = import_module("cvxpy")
    x = cvxpy.Variable(problem.speeds.shape)
    workers = np.repeat(problem.workers[:, :1], len(problem.kinds), axis=1)
    taken = cvxpy.sum(cvxpy.multiply(workers, x), axis=0)
    rows = [x >= 0, taken <= problem.capacity[::-1, 0], cvxpy.sum(x, axis=1) <= 1]
    cvxpy.Problem(objective(cvxpy, x, problem), rows).solve(solver="ECOS")
    return np.asarray(x.value.clip(0.0, 1.0)[:, ::-1])


def throughput(cvxpy: Any, x: Any, problem: SharesProblem) -> Any:
    """The sum of all throughputs."""
    return cvxpy.Maximize(cvxpy.sum(cvxpy.sum(cvxpy.multiply(problem.speeds[:, ::-1], x), axis=1)))


def max_min(cvxpy: Any, x: Any, problem: SharesProblem) -> Any:
    """The smallest throughput as a part of that with an equal share.

    Multiplied as the authors do: the last bit moves what ECOS finds."""
    speeds, capacity = problem.speeds[:, ::-1], problem.capacity[::-1, 0]
    equal = np.tile(capacity / len(speeds), (len(speeds), 1))
    usual = (speeds * (equal / equal.sum(axis=1).max())).sum(axis=1)
    part = speeds * (1 / problem.weights * (1 / usual))[:, None] * problem.workers
    return cvxpy.Maximize(cvxpy.min(cvxpy.sum(cvxpy.multiply(part, x), axis=1)))


def agnostic_max_min(cvxpy: Any, x: Any, problem: SharesProblem) -> Any:
    """The same without throughputs."""
    return max_min(cvxpy, x, replace(problem, speeds=np.ones(problem.speeds.shape)))


PROGRAMMES: dict[str, tuple[Objective, bool]] = {
    "max_sum_throughput_perf": (throughput, False),
    "max_min_fairness_perf": (max_min, False),
    "max_min_fairness": (agnostic_max_min, True),
}
"""Gavel's name of a policy -> its objective, and whether kinds are shuffled."""


def main() -> None:
    """Print the figures, to be compared with those of tests/data/gavel/reference.csv."""
    for trace, workers in CLUSTERS.items():
        for name, (objective, shuffles) in PROGRAMMES.items():

            def shares(problem: SharesProblem, objective: Objective = objective) -> Values:
                return shares_of(objective, problem)

            found = replay(read_trace(trace), workers, Rule(of_jobs(shares), shuffles=shuffles))
            print(f"{trace}, {name}: {found.hours[0]:.4f} h, {found.hours[1]:.4f} h", flush=True)


if __name__ == "__main__":
    main()
