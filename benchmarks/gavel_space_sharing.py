"""Jobs that share their workers two by two, in the semantics of Gavel's simulator.

For the loop of ``benchmarks.gavel_rounds`` alone: requests of pods cannot say that two jobs run on
one GPU. A pair of jobs of as many workers has shares of its own beside those of each job alone, and
each of the two makes its own steps per second in it (Gavel, OSDI 2020, section 3.1).
"""

import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack, vstack

from optimus.allocation.time_shares import SharesProblem, Values, solved
from optimus.allocation.turns import Notes


@dataclass(frozen=True)
class Pairs:
    """The jobs that may share their workers, two by two: which, of shape (pairs, 2), and the steps
    per second that each then makes on each kind, of shape (pairs, 2, kinds)."""

    jobs: NDArray[np.intp]
    speeds: Values


def max_min_of_pairs(problem: SharesProblem, pairs: Pairs) -> tuple[Values, Notes]:
    """Max-min fairness by one programme, of shape (jobs + pairs, kinds)."""
    jobs, kinds = problem.speeds.shape
    units = jobs + len(pairs.jobs)
    lift = problem.weights * problem.usual / problem.workers[:, 0]
    # One entry for each job of each unit: the job, the unit, and the job's speeds there.
    job = np.concatenate([np.arange(jobs), pairs.jobs.ravel()])
    unit = np.concatenate([np.arange(jobs), np.repeat(np.arange(jobs, units), 2)])
    speeds = np.concatenate([problem.speeds, pairs.speeds.reshape(-1, kinds)])
    rows = np.repeat(job, kinds)
    columns = (unit[:, None] * kinds + np.arange(kinds)).ravel()
    shape = (jobs, units * kinds)
    throughputs = csr_array(((speeds / lift[job, None]).ravel(), (rows, columns)), shape=shape)
    time = csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    workers = problem.workers[np.concatenate([np.arange(jobs), pairs.jobs[:, 0]]), 0]
    taken = csr_array(np.kron(workers, np.eye(kinds)))
    height = csr_array(np.append(-np.ones(jobs), np.zeros(jobs + kinds))[:, None])
    matrix = hstack([vstack([throughputs, time, taken]), height])
    low = np.append(np.zeros(jobs), np.full(jobs + kinds, -np.inf))
    high = np.concatenate([np.full(jobs, np.inf), np.ones(jobs), problem.capacity[:, 0]])
    objective, upper = np.append(np.zeros(shape[1]), 1.0), np.append(np.ones(shape[1]), np.inf)
    found = solved(objective, matrix, (low, high), upper)
    shares = np.array(found.col_value)[:-1].reshape(units, kinds)
    return np.round(np.clip(shares, 0.0, 1.0), 6), [{}] * jobs


class Gandiva:
    """Pairs at random, as the authors' baseline after Gandiva (OSDI 2018) draws them.

    While the jobs ask for more workers than there are, jobs that are not in a pair are drawn two at
    a time; a pair stays until one of its jobs ends, or it is found not to be worth it. Time is
    divided equally among pairs and jobs left over. A note gives the number of the job's pair."""

    def __init__(self, seed: int) -> None:
        self._draws, self._pairs = random.Random(seed), 0

    def __call__(self, problem: SharesProblem, pairs: Pairs) -> tuple[Values, Notes]:
        """Of shape (jobs + pairs, kinds)."""
        jobs, workers = len(problem.speeds), problem.workers[:, 0]
        place = {(first, second): row for row, (first, second) in enumerate(pairs.jobs.tolist())}
        kept = [
            pair for pair in _noted(problem) if _worth(problem, pairs.speeds[place[pair]], pair)
        ]
        units = list(range(jobs))
        if workers.sum() > problem.capacity.sum():
            alone = [job for job in units if not any(job in pair for pair in kept)]
            for _ in range(len(alone)):
                if len(alone) < 2:
                    break
                first, second = sorted(self._draws.sample(alone, 2))
                if workers[first] == workers[second]:
                    alone = [job for job in alone if job not in (first, second)]
                    kept.append((first, second))
            units = [jobs + place[pair] for pair in kept] + alone
        shares = np.zeros((jobs + len(pairs.jobs), len(problem.capacity)))
        for unit in units:
            taken = workers[unit] if unit < jobs else workers[pairs.jobs[unit - jobs, 0]]
            equal = problem.capacity[:, 0] / len(units) / taken
            shares[unit] = equal / max(equal.sum(), 1.0)
        number = {job: self._pairs + row for row, pair in enumerate(kept) for job in pair}
        self._pairs += len(kept)
        return shares, [{"pair": number[job]} if job in number else {} for job in range(jobs)]


def _noted(problem: SharesProblem) -> list[tuple[int, int]]:
    """The pairs of which both jobs are there."""
    numbers = [note.get("pair") for note in problem.notes]
    first = {number: job for job, number in reversed(list(enumerate(numbers)))}
    return [
        (first[number], job)
        for job, number in enumerate(numbers)
        if number is not None and first[number] != job
    ]


def _worth(problem: SharesProblem, speeds: Values, pair: tuple[int, int]) -> bool:
    """Whether the parts of their own speeds that the jobs make, over all kinds, are 1 in sum."""
    return bool((speeds > 0).all() and (speeds / problem.speeds[list(pair)]).sum() >= 1)
