"""Grows jobs with a deadline to the least counts that meet it, the earliest deadline first.

Comes between the minimum of all jobs and growth by marginal gain. A job gets the counts of the
least dominant share that meet its deadline and fit in what is left; then it grows no further. A job
of which no counts do both stays as it is, and grows like the others.
"""

from dataclasses import replace

import numpy as np

from optimus.allocation.deadline import Deadline, counts_from
from optimus.allocation.greedy import Baseline, GrowingJobs
from optimus.allocation.problem import Amounts, Counted, fits
from optimus.jobs import Counts


def meet_deadlines(baseline: Baseline) -> tuple[Baseline, dict[int, Counts]]:
    """The jobs with what their deadlines need, and by row the counts of those that meet them."""
    due = [
        (each.deadline.seconds, each.job.uid, row)
        for row, each in enumerate(baseline.admitted)
        if each.deadline is not None and each.may_grow
    ]
    met: dict[int, Counts] = {}
    for _, _, row in sorted(due):
        counts = _least(baseline, row)
        if counts is not None:
            baseline, met[row] = _grown(baseline, row, counts), counts
    return baseline, met


def _least(baseline: Baseline, row: int) -> Counts | None:
    """Of the counts that meet one job's deadline and fit, those of the least share."""
    candidate, jobs = baseline.admitted[row], baseline.jobs
    deadline = candidate.deadline
    assert deadline is not None
    least = Counts(int(jobs.ps[row]), int(jobs.workers[row]))
    ps, workers = counts_from(least, (int(jobs.max_ps[row]), int(jobs.max_workers[row])))
    more = ps - least.ps, workers - least.workers
    possible = np.flatnonzero(_fitting(baseline, row, *more))
    ps, workers = ps[possible], workers[possible]
    needed = deadline.needed_seconds(candidate.forecast, ps, workers)
    in_time = np.flatnonzero(needed <= deadline.seconds)
    if len(in_time) == 0:
        return None
    ps, workers = ps[in_time], workers[in_time]
    shares = jobs.demands.shares(_cost(jobs, row, ps, workers))
    moved = _is_moved(deadline, ps, workers)
    best = int(np.lexsort((ps, ps + workers, moved, shares))[0])
    return Counts(int(ps[best]), int(workers[best]))


def _is_moved(deadline: Deadline, ps: Counted, workers: Counted) -> Counted:
    """Whether each pair is another than that at which the job runs: of equals it keeps its own."""
    held = deadline.held
    if held is None:
        return np.zeros(len(ps), dtype=np.int64)
    return np.asarray((ps != held.ps) | (workers != held.workers), dtype=np.int64)


def _fitting(baseline: Baseline, row: int, ps: Counted, workers: Counted) -> Counted:
    """Return whether so many more tasks of one job fit on the nodes and within its quotas."""
    jobs, left = baseline.jobs, baseline.left
    found = fits(_cost(jobs, row, ps, workers), baseline.free) | ((ps == 0) & (workers == 0))
    if jobs.demands.quotas is not None and left is not None:
        rows = np.full(len(ps), row)
        found &= jobs.demands.quotas.fits(rows, jobs.demands.quotas.cost(rows, ps, workers), left)
    return np.asarray(found)


def _cost(jobs: GrowingJobs, row: int, ps: Counted, workers: Counted) -> Amounts:
    """Return what so many tasks of one job ask for, shape (counts, columns)."""
    demands = jobs.demands
    return np.asarray(demands.ps[row] * ps[:, None] + demands.workers[row] * workers[:, None])


def _grown(baseline: Baseline, row: int, counts: Counts) -> Baseline:
    """One job at these counts, and no more."""
    jobs, left = baseline.jobs, baseline.left
    more_ps, more_workers = counts.ps - jobs.ps[[row]], counts.workers - jobs.workers[[row]]
    if jobs.demands.quotas is not None and left is not None:
        rows = np.array([row])
        cost = jobs.demands.quotas.cost(rows, more_ps, more_workers)
        left = jobs.demands.quotas.less(rows, cost, left)
    free = baseline.free - _cost(jobs, row, more_ps, more_workers)[0]
    grown = replace(
        jobs,
        ps=_with(jobs.ps, row, counts.ps),
        workers=_with(jobs.workers, row, counts.workers),
        max_ps=_with(jobs.max_ps, row, counts.ps),
        max_workers=_with(jobs.max_workers, row, counts.workers),
    )
    return replace(baseline, jobs=grown, free=free, left=left)


def _with(column: Counted, row: int, value: int) -> Counted:
    changed = column.copy()
    changed[row] = value
    return changed
