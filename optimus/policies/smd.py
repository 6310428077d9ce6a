"""The allocation of SMD (INFOCOM 2021): which jobs run, and at which counts, by their utility.

Each job has a utility that falls with its completion time, and what is chosen has the largest sum.
The inner problem, the counts of one job, is solved by enumeration; the outer one is a knapsack over
all jobs and resources (``allocation.knapsack``). A job is charged what its counts use, and all its
useful counts take part in the knapsack. (As published it is charged its user's limit, and only its
best counts within the limit take part: that admits fewer.)

The utility of job j that ends at the time T is

    u(T) = g_j / (1 + exp(s (T - D_j) / (D_j - A_j)))

with its weight g_j (of its PriorityClass), its arrival A_j, and its deadline D_j:
``finish-by``, else a multiple of its time at the counts with which it was first seen. A thousandth
of the weight is for being fast, which counts for late jobs, too: nothing is left idle. Running jobs
are always chosen: only waiting jobs are refused. One that is due and of which no counts have a
hundredth of its weight left comes before the choice, in order of arrival: nobody waits for ever.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from optimus.allocation import (
    Allocation,
    AllocationProblem,
    Candidate,
    ClusterAllocation,
    ClusterProblem,
    PolicyMemory,
    PolicyTraits,
)
from optimus.allocation.deadline import MOST_EXTRA
from optimus.allocation.greedy import start_at_minimum
from optimus.allocation.knapsack import NOTHING, Amounts, Choices, solve
from optimus.allocation.policy import answer_of
from optimus.allocation.problem import Counted, Demands, Seconds, fits
from optimus.jobs import Counts

_AGED: Final = 0.01
"""A waiting job that is due, and whose best utility is less than this part of its weight, has
aged."""

_FAST: Final = 0.001
"""The part of the weight that is for being fast. Default: too little to move a choice between jobs
that may be in time, enough for the solver's tolerance."""

_LARGEST_POWER: Final = 50.0
"""Beyond it the utility is 0 to 21 digits."""

_LONGEST: Final = 1e9
"""Seconds that a job without any speed is taken to last: memory holds finite numbers."""

_LEAST_PART: Final = 1e-6

_VERSION: Final = 2

_ONE: Final = np.zeros(1, dtype=np.int64)
"""The row of a job alone."""


@dataclass(frozen=True, slots=True)
class SmdPolicy:
    """The largest sum of utilities."""

    name: ClassVar[str] = "smd"
    traits: ClassVar[PolicyTraits] = PolicyTraits(
        placed_by="theorem1", weighs_restarts=True, weighs_jobs=True, refuses=True
    )

    deadline_factor: float = 2.0
    """Without ``finish-by`` a job is due after this multiple of its time at its user's counts.
    Unit: none. The paper draws deadlines at random."""

    steepness: float = 4.0
    """How fast the utility falls around the deadline, per part of the time from the arrival to it.
    Unit: none. Default: from 0.98 of the weight at once to 0.5 at the deadline."""

    def decide(
        self, problem: ClusterProblem, memory: PolicyMemory, _: int
    ) -> tuple[ClusterAllocation, PolicyMemory]:
        """Grants to all running jobs whose minimum fits, and to the best of those that wait."""
        known, submitted = memory.of(self.name, _VERSION), dict[str, Any]()
        answer = dict[str, Any]()
        for pool in problem.pools:
            # Of equal choices the solver takes one by their order.
            by_uid = sorted(pool.allocation.candidates, key=lambda each: each.job.uid)
            ordered = replace(pool.allocation, candidates=tuple(by_uid))
            jobs = [self._job(each, known.get(each.job.uid), problem.at) for each in by_uid]
            submitted |= {each.uid: each.remembered for each in jobs}
            answer |= answer_of(ordered, self._allocate(ordered, jobs))
        return answer, PolicyMemory(self.name, _VERSION, submitted)

    def _job(self, candidate: Candidate, remembered: Any, at: float) -> "_Job":
        """The job with its deadline, as remembered or as first seen."""
        job, forecast = candidate.job, candidate.forecast
        if remembered is None:
            left = forecast.at(job.counts)
            whole = min(left / max(1 - forecast.progress_fraction, _LEAST_PART), _LONGEST)
            remembered = job.created_at + self.deadline_factor * whole
        due = remembered if job.finish_by is None else job.finish_by
        span = max(due - job.created_at, 1.0)
        return _Job(candidate, due - at, span, self.steepness, remembered)

    def _allocate(self, problem: AllocationProblem, jobs: Sequence["_Job"]) -> Allocation:
        demands = Demands.of(problem)
        useful = [_useful(demands, row, job) for row, job in enumerate(jobs)]
        arrival = {job.uid: job.candidate.job.created_at for job in jobs}
        comes_first = [
            job.candidate
            for job, options in zip(jobs, useful, strict=True)
            if job.candidate.running or job.has_aged(options.best) or len(options.ps) == 0
        ]
        first = start_at_minimum(
            replace(problem, candidates=tuple(comes_first)),
            lambda given, _: np.array([arrival[each.job.uid] for each in given.candidates]),
        )
        admitted = {each.job.uid for each in first.admitted}
        rows = [row for row, job in enumerate(jobs) if job.uid not in first.reasons]
        required = np.array([jobs[row].uid in admitted for row in rows], dtype=np.bool_)
        options = [useful[row] for row in rows]
        choices = _choices(demands, np.array(rows, dtype=np.int64), options, required)
        chosen = solve(choices).chosen
        counts, reasons = dict[str, Counts](), dict(first.reasons)
        begin = np.searchsorted(choices.item, np.arange(len(rows)))
        for number, row in enumerate(rows):
            job, of = jobs[row], options[number]
            if chosen[number] == NOTHING:
                part = f"{useful[row].best / job.weight:.2f} of its weight"
                reasons[job.uid] = f"its utility, {part} at most, gives way to that of others"
                continue
            option = chosen[number] - begin[number]
            counts[job.uid] = Counts(int(of.ps[option]), int(of.workers[option]))
            part = f"{of.utility[option] / job.weight:.2f} of its weight"
            reasons[job.uid] = f"{counts[job.uid]} have a utility of {part}"
        return Allocation(counts, reasons)


@dataclass(frozen=True, slots=True)
class _Job:
    """A candidate, the seconds until it is due, and those from its arrival until then.

    ``remembered`` is the instant at which it is due without ``finish-by``."""

    candidate: Candidate
    left_seconds: float
    span_seconds: float
    steepness: float
    remembered: float

    @property
    def uid(self) -> str:
        """The job's."""
        return self.candidate.job.uid

    @property
    def weight(self) -> float:
        """The most that its utility can be."""
        objective = self.candidate.objective
        return 1.0 if objective is None else objective.weight

    def utility(self, seconds: Seconds) -> Seconds:
        """Return where it ends in so many seconds."""
        power = self.steepness * (seconds - self.left_seconds) / self.span_seconds
        in_time = 1 / (1 + np.exp(np.minimum(power, _LARGEST_POWER)))
        fast = self.span_seconds / (self.span_seconds + seconds)
        return np.asarray(self.weight * ((1 - _FAST) * in_time + _FAST * fast))

    def has_aged(self, best: float) -> bool:
        """Return whether it has waited so long that its utility is gone."""
        return self.left_seconds <= 0 and best < _AGED * self.weight


@dataclass(frozen=True, slots=True, eq=False)
class _UsefulCounts:
    """Counts of one job, the fewest first, and their utilities."""

    ps: Counted
    workers: Counted
    utility: Amounts

    @property
    def best(self) -> float:
        """The largest utility."""
        return float(self.utility.max(initial=0.0))


def _useful(demands: Demands, row: int, job: _Job) -> _UsefulCounts:
    """All counts that fit and that are faster than any that need no more of any resource."""
    candidate, of_row = job.candidate, demands.rows(np.array([row]))
    least, bounds = candidate.least, candidate.job.bounds
    if candidate.may_grow:
        most = _most(of_row, least, (bounds.max_ps, bounds.max_workers))
    else:
        most = least
    ps = np.arange(least.ps, most.ps + 1)
    workers = np.arange(least.workers, most.workers + 1)
    seconds = candidate.forecast.remaining_seconds(ps[:, None], workers[None, :])
    down, right = np.nonzero(_is_faster_than_fewer(seconds))
    ps, workers, seconds = ps[down], workers[right], seconds[down, right]
    cost, own_cost = _charges(of_row, _ONE, ps, workers)
    fitting = fits(cost, of_row.available)
    if of_row.quotas is not None:
        fitting &= (own_cost <= of_row.quotas.available[of_row.quotas.row[0]]).all(axis=1)
    both = np.hstack([cost, own_cost])[fitting]
    ps, workers, seconds = ps[fitting], workers[fitting], seconds[fitting]
    kept = ~_is_beaten(both, seconds)
    ps, workers = ps[kept], workers[kept]
    return _UsefulCounts(ps, workers, job.utility(seconds[kept]))


def _most(demands: Demands, least: Counts, bounds: tuple[int | None, int | None]) -> Counts:
    """The most PSs, and workers, of one job that fit beside the least of the other role."""
    free = demands.available - demands.at(*(np.array([each]) for each in least))[0]
    most = []
    for task, begin, bound in zip((demands.ps[0], demands.workers[0]), least, bounds, strict=True):
        asked = task > 0
        more = min(int((free[asked] // task[asked]).min(initial=MOST_EXTRA)), MOST_EXTRA)
        limit = begin + more if bound is None else min(begin + more, bound)
        most.append(max(begin, limit))
    return Counts(*most)


def _is_faster_than_fewer(seconds: Seconds) -> NDArray[np.bool_]:
    """Whether the job is faster there than with fewer PSs, fewer workers or fewer of both."""
    least = np.minimum.accumulate(np.minimum.accumulate(seconds, axis=0), axis=1)
    before = np.full((seconds.shape[0] + 1, seconds.shape[1] + 1), np.inf)
    before[1:, 1:] = least
    faster = seconds < np.minimum(before[:-1, 1:], before[1:, :-1])
    faster[0, 0] = True
    return np.asarray(faster)


def _is_beaten(cost: Counted, seconds: Seconds) -> NDArray[np.bool_]:
    """Whether others need no more of anything and are as fast; of equals the first is kept."""
    cheaper = (cost[None, :, :] <= cost[:, None, :]).all(axis=2)
    others = cheaper & (seconds[None, :] <= seconds[:, None])
    equal = others & others.T
    return np.asarray((others & ~(equal & np.triu(np.ones_like(equal)))).any(axis=1))


def _charges(
    demands: Demands, rows: Counted, ps: Counted, workers: Counted
) -> tuple[Counted, Counted]:
    """Return what the jobs of these rows take of the nodes, and of their namespaces' quotas."""
    tasks = demands.ps[rows] * ps[:, None] + demands.workers[rows] * workers[:, None]
    quotas = demands.quotas
    if quotas is None:
        return tasks + demands.fixed[rows], np.zeros((len(ps), 0), dtype=np.int64)
    return tasks + demands.fixed[rows], quotas.cost(rows, ps, workers) + quotas.fixed[rows]


def _choices(
    demands: Demands, rows: Counted, options: Sequence[_UsefulCounts], required: NDArray[np.bool_]
) -> Choices:
    """The knapsack of all jobs of these rows; what jobs need that are required is always there."""
    item = np.repeat(np.arange(len(rows)), [len(each.ps) for each in options])

    def column(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(each, name) for each in options] or [np.zeros(0)])

    counts = column("ps").astype(np.int64), column("workers").astype(np.int64)
    cost, own_cost = _charges(demands, rows[item], *counts)
    first = np.searchsorted(item, np.flatnonzero(required))
    quotas = demands.quotas
    return Choices(
        item,
        column("utility"),
        cost.astype(np.float64),
        np.maximum(demands.available, cost[first].sum(axis=0)).astype(np.float64),
        required,
        np.zeros(len(rows), dtype=np.int64) if quotas is None else quotas.row[rows],
        own_cost.astype(np.float64),
        np.zeros((1, 0)) if quotas is None else quotas.available.astype(np.float64),
    )
