"""The quotas of an allocation problem as arrays: one row of limits for each namespace.

Every job belongs to one row. Rows have as many columns as the namespace with most limits, so that a
step is compared with a few numbers, however many namespaces have quotas.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from optimus.quotas import Quota
from optimus.resources import LARGEST_TASK, LARGEST_TOTAL, bounded

Amounts = NDArray[np.int64]
Counted = NDArray[np.int64]

_UNLIMITED = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class QuotaDemands:
    """What one PS, one worker and the fixed roles of each job take, shape (jobs, limits).

    ``row`` is each job's row of ``available``, shape (rows, limits); row 0 limits nothing.
    ``limits`` are the quota and the resource behind each column, by row."""

    row: Counted
    ps: Amounts
    workers: Amounts
    fixed: Amounts
    available: Amounts
    limits: tuple[tuple[tuple[Quota, str], ...], ...]

    @classmethod
    def of(cls, uids: Sequence[str], quotas: Sequence[Quota]) -> Self | None:
        """The jobs with these UIDs, in this order; ``None`` where no quota concerns any of them."""
        present = {*uids}
        quotas = [each for each in quotas if not present.isdisjoint(each.charges)]
        if not quotas:
            return None
        limits: dict[str, list[tuple[Quota, str]]] = {}
        for quota in quotas:
            found = limits.setdefault(quota.namespace, [])
            found += [(quota, name) for name in quota.limited]
        rows = {namespace: number + 1 for number, namespace in enumerate(limits)}
        width = max(len(each) for each in limits.values())
        available = np.full((len(rows) + 1, width), _UNLIMITED, dtype=np.int64)
        for namespace, columns in limits.items():
            amounts = [bounded(quota.room[name], LARGEST_TOTAL) for quota, name in columns]
            available[rows[namespace], : len(columns)] = amounts
        row = np.zeros(len(uids), dtype=np.int64)
        taken = np.zeros((3, len(uids), width), dtype=np.int64)
        number = {uid: each for each, uid in enumerate(uids)}
        for namespace, columns in limits.items():
            for column, (quota, name) in enumerate(columns):
                for uid in quota.charges.keys() & present:
                    charge, job = quota.charges[uid], number[uid]
                    row[job] = rows[namespace]
                    parts = (charge.ps, charge.worker, charge.fixed)
                    taken[:, job, column] = [bounded(part[name], LARGEST_TASK) for part in parts]
        kept = ((), *(tuple(each) for each in limits.values()))
        return cls(row, taken[0], taken[1], taken[2], available, kept)

    def rows(self, jobs: Counted) -> Self:
        """The same of some of the jobs."""
        parts = (self.row, self.ps, self.workers, self.fixed)
        row, ps, workers, fixed = (each[jobs] for each in parts)
        return replace(self, row=row, ps=ps, workers=workers, fixed=fixed)

    def cost(self, jobs: Counted, ps: int | Counted, workers: int | Counted) -> Amounts:
        """Return what so many tasks of these jobs take, without fixed roles."""
        each_ps, each_worker = np.asarray(ps)[..., None], np.asarray(workers)[..., None]
        return np.asarray(self.ps[jobs] * each_ps + self.workers[jobs] * each_worker)

    def fits(self, jobs: Counted, cost: Amounts, left: Amounts) -> NDArray[np.bool_]:
        """Return whether each cost fits in what is left to its job's namespace."""
        return np.asarray((cost <= np.maximum(left, 0)[self.row[jobs]]).all(axis=-1))

    def first_over(self, jobs: Counted, cost: Amounts, left: Amounts) -> int:
        """The number of the first of these steps, in order, that does not fit beside those before
        it; their number where all fit."""
        row = self.row[jobs]
        order = np.argsort(row, kind="stable")
        sums, in_order = np.cumsum(cost[order], axis=0), row[order]
        begins = np.flatnonzero(np.diff(in_order, prepend=-1))
        before = np.zeros((len(begins), cost.shape[1]), dtype=np.int64)
        before[1:] = sums[begins[1:] - 1]
        own = sums - np.repeat(before, np.diff(begins, append=len(order)), axis=0)
        over = (own > np.maximum(left, 0)[in_order]).any(axis=1)
        return int(order[over].min(initial=len(order)))

    def less(self, jobs: Counted, cost: Amounts, left: Amounts) -> Amounts:
        """Return what is left once these steps are taken."""
        after = left.copy()
        np.subtract.at(after, self.row[jobs], cost)
        return after

    def why_not(self, job: int, cost: NDArray[Any], left: Amounts, what: object) -> str | None:
        """A sentence on why one job may not have ``what``; ``None`` where it fits."""
        row = int(self.row[job])
        for column, (quota, name) in enumerate(self.limits[row]):
            asked, has = int(cost[column]), int(left[row, column])
            if 0 < asked > has:
                return quota.sentence(name, asked, has, what)
        return None
