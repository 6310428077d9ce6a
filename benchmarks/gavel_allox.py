"""AlloX (Le and others, EuroSys 2020) in the semantics of Gavel's simulator.

For the loop of ``benchmarks.gavel_rounds`` alone: it is for jobs of one worker each, which a policy
for gangs is not. The mean completion time is least when jobs are assigned to (worker, position from
the end) at least cost: in the last but i-th place on a worker a job delays i + 1 completion times
by its own. Whoever has a worker keeps it until the job ends; of the others, the first on each free
worker gets it, and the rest are assigned anew next time.
"""

import numpy as np
from scipy.optimize import linear_sum_assignment

from optimus.allocation.time_shares import SharesProblem, Values
from optimus.allocation.turns import Notes

_NEVER = 1e-10
"""Steps per second in place of 0."""


def allox(problem: SharesProblem) -> tuple[Values, Notes]:
    """Shares of 0 and 1; a note gives the kind that the job keeps.

    All jobs count (alpha = 1), and all their places, the slowest kind's first: with equal costs the
    order decides."""
    kinds = [note.get("kind") for note in problem.notes]
    waiting = [job for job, kind in enumerate(kinds) if kind is None]
    waiting.sort(key=lambda job: problem.submitted[job])
    held = np.bincount(
        [int(kind) for kind in kinds if kind is not None], minlength=len(problem.capacity)
    )
    free = (problem.capacity[:, 0] - held).astype(int)
    workers = [kind for kind in reversed(range(len(free))) for _ in range(free[kind])]
    seconds = problem.steps_left[waiting, None] / np.maximum(problem.speeds[waiting], _NEVER)
    cost = np.kron(np.arange(1, len(waiting) + 1), seconds[:, workers])
    cost += (problem.at - problem.submitted[waiting])[:, None]
    first: dict[int, tuple[int, int]] = {}
    for row, column in zip(*linear_sum_assignment(cost), strict=True):
        position, worker = divmod(int(column), len(workers))
        first[worker] = max(first.get(worker, (position, waiting[row])), (position, waiting[row]))
    for worker, (_, job) in first.items():
        kinds[job] = float(workers[worker])
    shares = np.zeros(problem.speeds.shape)
    for job, kind in enumerate(kinds):
        if kind is not None:
            shares[job, int(kind)] = 1.0
    return shares, [{} if kind is None else {"kind": kind} for kind in kinds]
