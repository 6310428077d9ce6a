"""Vectorised greedy growth of all jobs by marginal gain; what the greedy policies share.

A policy's rule names each job's next step, from the job's own counts alone, and its gain. Taking
the step of the largest gain, again and again, is then a merge of the jobs' sequences of steps:
1. ``start_at_minimum`` admits the candidates at their minimum, as far as they fit.
2. The steps of all jobs are worked out as arrays. A step of larger gain than its predecessor
   follows it at once, so that each is ordered by the least gain up to it; one sort is the order.
3. The first step that does not fit ends a round; the next goes on with the steps that still fit.
The one-step-at-a-time version is kept in the tests as the oracle.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from optimus.allocation.problem import (
    AllocationProblem,
    Amounts,
    Candidate,
    Counted,
    Demands,
    RemainingSeconds,
    as_columns,
    fits,
    remaining_seconds,
)
from optimus.allocation.quota_demands import QuotaDemands
from optimus.jobs import Counts

Gains = NDArray[np.float64]
Mask = NDArray[np.bool_]

NO_STEP = -np.inf

MAX_PER_ROLE = 1024
"""The most PSs, or workers, of one job where its user names no maximum and what is free none."""

_FIRST_STRIDE = 4
"""Steps of each job that are worked out before they are compared with what is free; then
twice as many."""


@dataclass(frozen=True, slots=True, eq=False)
class GrowingJobs:
    """Jobs at their minimum: arrays of length n. ``rank`` decides ties of gain, the least first."""

    demands: Demands
    ps: Counted
    workers: Counted
    max_ps: Counted
    max_workers: Counted
    may_grow: Mask
    rank: Counted


@dataclass(frozen=True, slots=True, eq=False)
class GrowthState:
    """Some of the jobs while they grow: their rows, counts so far, and what is free in a round."""

    jobs: GrowingJobs
    rows: Counted
    ps: Counted
    workers: Counted
    free: Amounts
    left: Amounts | None = None
    """What the quotas of namespaces leave (``Demands.quotas``); ``None`` without quotas."""
    known: dict[tuple[str, int, int], NDArray[Any]] = field(default_factory=dict)
    """What fits, and shares, worked out in this round for all jobs: the same at every step."""

    def some(self, at: Counted) -> "GrowthState":
        """Some of the rows, by their positions, as a column of shape (positions, 1)."""
        rows, ps, workers = (each[at, None] for each in (self.rows, self.ps, self.workers))
        return GrowthState(self.jobs, rows, ps, workers, self.free, self.left)

    def allows(self, more_ps: int | Counted, more_workers: int | Counted) -> Mask:
        """Return whether so many more (broadcast against the rows) lie within bounds and fit."""
        return self.within_bounds(more_ps, more_workers) & self.fits(more_ps, more_workers)

    def within_bounds(self, more_ps: int | Counted, more_workers: int | Counted) -> Mask:
        """Whether so many more lie within the users' bounds; a role at its bound may stay there."""
        ps, workers = np.asarray(more_ps), np.asarray(more_workers)
        ps_ok = (self.ps + ps <= self.jobs.max_ps[self.rows]) | (ps == 0)
        workers_ok = self.workers + workers <= self.jobs.max_workers[self.rows]
        return np.asarray(ps_ok & (workers_ok | (workers == 0)))

    def fits(self, more_ps: int | Counted, more_workers: int | Counted) -> Mask:
        """Return whether so many more of each job's tasks fit in what is free."""
        if isinstance(more_ps, int) and isinstance(more_workers, int):
            return self._once("fits", more_ps, more_workers)
        return fits(self.cost(more_ps, more_workers), self.free) & self.within_quotas(
            more_ps, more_workers
        )

    def within_quotas(self, more_ps: int | Counted, more_workers: int | Counted) -> Mask:
        """Return whether the namespaces' quotas allow so many more of each job's tasks."""
        return _within_quotas(self.jobs.demands, self.rows, (more_ps, more_workers), self.left)

    def share(self, more_ps: int, more_workers: int) -> NDArray[np.float64]:
        """The dominant share of so many more tasks."""
        return self._once("share", more_ps, more_workers)

    def _once(self, what: str, more_ps: int, more_workers: int) -> NDArray[Any]:
        key = what, more_ps, more_workers
        if key not in self.known:
            demands = self.jobs.demands
            cost = demands.ps * more_ps + demands.workers * more_workers
            if what == "fits":
                every = np.arange(len(cost))
                allowed = _within_quotas(demands, every, (more_ps, more_workers), self.left)
                self.known[key] = fits(cost, self.free) & allowed
            else:
                self.known[key] = demands.shares(cost)
        return self.known[key][self.rows]

    def pair(self) -> tuple[Counted, Counted]:
        """One PS and one worker more, or only one of them where the other is at its bound."""
        return (
            (self.ps < self.jobs.max_ps[self.rows]).astype(np.int64),
            (self.workers < self.jobs.max_workers[self.rows]).astype(np.int64),
        )

    def cost(self, more_ps: int | Counted, more_workers: int | Counted) -> Amounts:
        """Return what so many more tasks ask for, shape (rows, columns)."""
        demands = self.jobs.demands
        ps, workers = np.asarray(more_ps), np.asarray(more_workers)
        return np.asarray(
            demands.ps[self.rows] * ps[..., None] + demands.workers[self.rows] * workers[..., None]
        )


def _within_quotas(
    demands: Demands,
    rows: Counted,
    more: tuple[int | Counted, int | Counted],
    left: Amounts | None,
) -> Mask:
    if demands.quotas is None or left is None:
        return np.ones((), dtype=np.bool_)
    return demands.quotas.fits(rows, demands.quotas.cost(rows, *more), left)


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The next step of each row: its gain (``NO_STEP`` where there is none) and what it adds."""

    gain: Gains
    more_ps: Counted
    more_workers: Counted


class StepRule(Protocol):
    """Which step a job takes next."""

    def next_steps(self, state: GrowthState) -> Steps:
        """The best step of each row among those that ``state`` allows."""


@dataclass(frozen=True, slots=True, eq=False)
class Growth:
    """The counts to which the jobs have grown, and what is left free."""

    ps: Counted
    workers: Counted
    free: Amounts
    left: Amounts | None
    """What the quotas leave."""
    lacking: str
    """What there was too little of when the first step did not fit; empty where every step did."""


def grow(
    jobs: GrowingJobs,
    free: Amounts,
    rule: StepRule,
    *,
    left: Amounts | None = None,
    stop_at_misfit: bool = False,
) -> Growth:
    """Take steps until none fits; with ``stop_at_misfit`` until the first that does not fit on the
    nodes. ``left`` is what the quotas leave."""
    ps, workers = jobs.ps.copy(), jobs.workers.copy()
    lacking = ""
    while True:
        steps, taken = _round(jobs, (ps, workers), (free, left), rule)
        rows = steps.row[taken.steps]
        np.add.at(ps, rows, steps.more_ps[taken.steps])
        np.add.at(workers, rows, steps.more_workers[taken.steps])
        free = free - taken.cost
        if jobs.demands.quotas is not None and left is not None:
            left = jobs.demands.quotas.less(rows, steps.taken_of_quotas(jobs)[taken.steps], left)
        if taken.misfit is None:
            return Growth(ps, workers, free, left, lacking)
        misfit = steps.cost(jobs.demands, np.array([taken.misfit]))
        lacks = jobs.demands.lacking(misfit, free)
        lacking = lacking or lacks
        if stop_at_misfit and lacks:
            return Growth(ps, workers, free, left, lacking)


class _Taken(NamedTuple):
    """The steps before the first that does not fit, by index; their cost; and that first one."""

    steps: Counted
    cost: Amounts
    misfit: int | None


_EVERY = slice(None)


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """Steps of all jobs: row, the step's index within its row, and the gain it is ordered by."""

    row: Counted
    at: Counted
    order_gain: Gains
    more_ps: Counted
    more_workers: Counted

    def cost(self, demands: Demands, which: Counted | slice = _EVERY) -> Amounts:
        """Return what these steps ask for together, by column: added up by row first, since there
        are many more steps than rows."""
        rows, jobs = self.row[which], len(demands.ps)
        ps = np.bincount(rows, weights=self.more_ps[which], minlength=jobs)
        workers = np.bincount(rows, weights=self.more_workers[which], minlength=jobs)
        return ps.astype(np.int64) @ demands.ps + workers.astype(np.int64) @ demands.workers

    def costs_in(self, column: int, demands: Demands) -> Counted:
        """Return what each step asks for in one column. All columns at once would be by far the
        largest array here, and are not needed."""
        ps, workers = demands.ps[:, column], demands.workers[:, column]
        return np.asarray(ps[self.row] * self.more_ps + workers[self.row] * self.more_workers)

    def chosen(self, which: Counted) -> "_Steps":
        """These steps alone."""
        return _Steps(*(getattr(self, name)[which] for name in _STEP_FIELDS))

    def taken_of_quotas(self, jobs: GrowingJobs) -> Amounts:
        """Return what each step takes of its namespace's quotas, shape (steps, limits)."""
        quotas = jobs.demands.quotas
        assert quotas is not None
        return quotas.cost(self.row, self.more_ps, self.more_workers)

    def taken_first(self, jobs: GrowingJobs, free: Amounts, left: Amounts | None) -> _Taken:
        """Take the steps in the greedy order: by gain, ties by the jobs' rank."""
        used, most = self.cost(jobs.demands), np.maximum(free, 0)
        fit = bool((used <= most).all())
        if fit and self._first_over_quota(jobs, np.arange(len(self.row)), left) == len(self.row):
            return _Taken(np.arange(len(self.row)), used, None)
        order = self._order(jobs)
        first = self._first_over_quota(jobs, order, left)
        # Sums ascend. Only what there is too little of for all steps can end them.
        for column in np.flatnonzero(used > most).tolist():
            sums = np.cumsum(self.costs_in(column, jobs.demands)[order])
            first = min(first, int(np.searchsorted(sums, most[column], side="right")))
        taken = order[:first]
        return _Taken(taken, self.cost(jobs.demands, taken), int(order[first]))

    def _first_over_quota(self, jobs: GrowingJobs, order: Counted, left: Amounts | None) -> int:
        """Of the steps in this order, the first that is beyond a quota beside those before it."""
        quotas = jobs.demands.quotas
        if quotas is None or left is None:
            return len(order)
        return quotas.first_over(self.row[order], self.taken_of_quotas(jobs)[order], left)

    def _order(self, jobs: GrowingJobs) -> Counted:
        order = np.argsort(-self.order_gain)
        gains = self.order_gain[order]
        # Sorting by all three keys takes four times as long, and most gains differ.
        if (gains[1:] == gains[:-1]).any():
            order = np.lexsort((self.at, jobs.rank[self.row], -self.order_gain))
        return order


_STEP_FIELDS = tuple(each.name for each in fields(_Steps))


def _round(
    jobs: GrowingJobs,
    counts: tuple[Counted, Counted],
    room: tuple[Amounts, Amounts | None],
    rule: StepRule,
) -> tuple[_Steps, _Taken]:
    """The jobs' steps from here as far as they matter, and which of them are taken; ``room`` is
    what is free, and what the quotas leave."""
    demands, (free, left) = jobs.demands, room
    from_ps, from_workers = counts
    ps, workers = from_ps.copy(), from_workers.copy()
    least = np.full(len(ps), np.inf)
    rows = np.flatnonzero(jobs.may_grow)
    known: dict[tuple[str, int, int], NDArray[Any]] = {}
    parts: list[_Steps] = []
    at, stride = 0, _FIRST_STRIDE
    while True:
        for _ in range(stride):
            state = GrowthState(jobs, rows, ps[rows], workers[rows], free, left, known)
            rows, part = _step(state, rule, least, at)
            parts.append(part)
            ps[rows] += part.more_ps
            workers[rows] += part.more_workers
            at += 1
            if len(rows) == 0:
                break
        steps = _join(parts)
        taken = steps.taken_first(jobs, free, left)
        # Steps that come after the first that does not fit do not matter in this round.
        gain = NO_STEP if taken.misfit is None else steps.order_gain[taken.misfit]
        parts = [steps.chosen(np.flatnonzero(steps.order_gain >= gain))]
        rows = rows[least[rows] >= gain]
        # Nor do those of a job whose own steps take more than all that is free already.
        more_ps, more_workers = (ps - from_ps)[rows, None], (workers - from_workers)[rows, None]
        fit = fits(demands.ps[rows] * more_ps + demands.workers[rows] * more_workers, free)
        rows = rows[fit & _within_quotas(demands, rows, (more_ps[:, 0], more_workers[:, 0]), left)]
        if len(rows) == 0:
            return steps, taken
        stride *= 2


def _step(state: GrowthState, rule: StepRule, least: Gains, at: int) -> tuple[Counted, _Steps]:
    """The next step of each row; returns the rows that take one."""
    steps = rule.next_steps(state)
    going = np.flatnonzero(steps.gain > NO_STEP)
    rows = state.rows[going]
    least[rows] = np.minimum(least[rows], steps.gain[going])
    numbers = np.full(len(rows), at, dtype=np.int64)
    ps, workers = steps.more_ps[going], steps.more_workers[going]
    return rows, _Steps(rows, numbers, least[rows], ps, workers)


def _join(parts: list[_Steps]) -> _Steps:
    columns = ([getattr(part, name) for part in parts] for name in _STEP_FIELDS)
    return _Steps(*(np.concatenate(column) for column in columns))


@dataclass(frozen=True, slots=True, eq=False)
class Baseline:
    """The candidates whose minimum fits, in the order of admission, and row by row their ``jobs``.

    ``free`` is what is left; ``reasons`` say by UID why a candidate was not admitted."""

    admitted: tuple[Candidate, ...]
    jobs: GrowingJobs
    free: Amounts
    left: Amounts | None
    """What the quotas leave."""
    reasons: Mapping[str, str]

    def seconds(self) -> RemainingSeconds:
        """Remaining seconds by row of ``admitted``."""
        forecasts = [each.forecast for each in self.admitted]
        return remaining_seconds(forecasts, self.jobs.ps, self.jobs.workers)

    def order(self, key: Gains | None = None) -> list[int]:
        """The rows by ascending key, then by UID."""
        keys = np.zeros(len(self.admitted)) if key is None else key
        uids = [each.job.uid for each in self.admitted]
        return sorted(range(len(uids)), key=lambda row: (keys[row], uids[row]))

    def grow(
        self, rule: StepRule, order: Sequence[int] | None = None, *, stop_at_misfit: bool = False
    ) -> Growth:
        """Grow from here by a rule; ``order`` lists the rows in which ties are decided."""
        jobs = self.jobs
        if order is not None:
            rank = np.empty(len(self.admitted), dtype=np.int64)
            rank[np.asarray(order, dtype=np.int64)] = np.arange(len(self.admitted))
            jobs = replace(jobs, rank=rank)
        return grow(jobs, self.free, rule, left=self.left, stop_at_misfit=stop_at_misfit)

    def state(self, growth: Growth) -> GrowthState:
        """All jobs as they have grown, with what is left free."""
        rows = np.arange(len(self.admitted), dtype=np.int64)
        return GrowthState(self.jobs, rows, growth.ps, growth.workers, growth.free, growth.left)

    def counts_at(self, growth: Growth) -> dict[str, Counts]:
        """Counts by UID."""
        pairs = zip(self.admitted, growth.ps.tolist(), growth.workers.tolist(), strict=True)
        return {each.job.uid: Counts(p, w) for each, p, w in pairs}


Order = Callable[[AllocationProblem, Demands], NDArray[np.float64]]
"""A key by candidate; smaller ones are admitted first."""


def start_at_minimum(problem: AllocationProblem, key: Order | None = None) -> Baseline:
    """Admit candidates at their minimum: running jobs first, then by descending priority, then by
    demand or another key."""
    demands, candidates = Demands.of(problem), problem.candidates
    ps, workers = as_columns([each.least for each in candidates])
    needed = demands.at(ps, workers)
    keys = demands.shares(needed) if key is None else key(problem, demands)
    waiting = np.array([not each.running for each in candidates], dtype=np.bool_)
    by_uid = _ranks([each.job.uid for each in candidates])
    lowest_last = np.array([-each.job.priority for each in candidates], dtype=np.int64)
    order = np.lexsort((by_uid, keys, lowest_last, waiting))
    rows, (free, left), reasons = _admit(problem, demands, needed, order)
    admitted = [candidates[row] for row in rows.tolist()]
    bounds = [each.job.bounds for each in admitted]
    jobs = GrowingJobs(
        demands.rows(rows),
        ps[rows],
        workers[rows],
        _largest([each.max_ps for each in bounds]),
        _largest([each.max_workers for each in bounds]),
        np.array([each.may_grow for each in admitted], dtype=np.bool_),
        np.arange(len(admitted), dtype=np.int64),
    )
    return Baseline(tuple(admitted), jobs, free, left, reasons)


def _ranks(uids: Sequence[str]) -> Counted:
    """The position of each UID among all of them in order."""
    ranks = np.empty(len(uids), dtype=np.int64)
    ranks[sorted(range(len(uids)), key=uids.__getitem__)] = np.arange(len(uids))
    return ranks


def _largest(bounds: Sequence[int | None]) -> Counted:
    limits = [MAX_PER_ROLE if each is None else min(each, MAX_PER_ROLE) for each in bounds]
    return np.array(limits, dtype=np.int64)


def _admit(
    problem: AllocationProblem, demands: Demands, needed: Amounts, order: Counted
) -> tuple[Counted, tuple[Amounts, Amounts | None], dict[str, str]]:
    """Admit in this order, passing over what does not fit; the rows, what is left (of the nodes and
    of the quotas), the reasons."""
    used = np.cumsum(needed[order], axis=0)
    over = (used > np.maximum(demands.available, 0)).any(axis=1)
    # Up to the first that does not fit all of them do, in one go.
    first = int(np.argmax(over)) if over.any() else len(order)
    quotas = AdmissionByQuota.of(demands, [each.least for each in problem.candidates])
    if quotas is not None:
        first = quotas.admit_first(order[:first])
    admitted, reasons = order[:first].tolist(), dict[str, str]()
    free = demands.available - (used[first - 1] if first else 0)
    for row in order[first:].tolist():
        job, demand = problem.candidates[row].job, needed[row]
        least = problem.candidates[row].least
        beyond = None if quotas is None else quotas.why_not(row, least)
        if beyond is None and fits(demand, free):
            free = free - demand
            admitted.append(row)
            if quotas is not None:
                quotas.admit(row)
        else:
            lacking = f"too little {demands.lacking(demand, free)} is left"
            reasons[job.uid] = f"its minimum of {least} does not fit: {beyond or lacking}"
    left = None if quotas is None else quotas.left
    return np.array(admitted, dtype=np.int64), (free, left), reasons


@dataclass(slots=True, eq=False)
class AdmissionByQuota:
    """What the candidates take of the quotas at the counts wanted, and what is left of these."""

    quotas: QuotaDemands
    cost: Amounts
    left: Amounts

    @classmethod
    def of(cls, demands: Demands, wanted: Sequence[Counts]) -> "AdmissionByQuota | None":
        """Nobody is admitted yet; ``None`` without quotas."""
        quotas = demands.quotas
        if quotas is None:
            return None
        ps, workers = as_columns(wanted)
        return cls(
            quotas,
            quotas.cost(np.arange(len(wanted)), ps, workers) + quotas.fixed,
            quotas.available,
        )

    def admit_first(self, order: Counted) -> int:
        """Admit in this order up to the first that is beyond a quota; how many these are."""
        first = self.quotas.first_over(order, self.cost[order], self.left)
        self.left = self.quotas.less(order[:first], self.cost[order[:first]], self.left)
        return first

    def admit(self, row: int) -> None:
        """Admit one more."""
        self.left = self.quotas.less(np.array([row]), self.cost[[row]], self.left)

    def why_not(self, row: int, wanted: Counts) -> str | None:
        """Return why a quota does not let a candidate have these counts."""
        return self.quotas.why_not(row, self.cost[row], self.left, wanted)


@dataclass(frozen=True, slots=True, eq=False)
class SequentialGrowth:
    """Step rule: all steps of a job come before those of one with a lower score, shape (jobs,).

    A job stops growing where a step makes it no faster."""

    seconds: RemainingSeconds
    score: Gains

    def next_steps(self, state: GrowthState) -> Steps:
        """One PS and one worker; one alone where the other is at its bound."""
        more_ps, more_workers = state.pair()
        going = (more_ps + more_workers > 0) & state.fits(more_ps, more_workers)
        after = self.seconds(state.rows, state.ps + more_ps, state.workers + more_workers)
        going &= after < self.seconds(state.rows, state.ps, state.workers)
        return Steps(np.where(going, self.score[state.rows], NO_STEP), more_ps, more_workers)
