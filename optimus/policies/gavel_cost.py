"""The most throughput for the money over kinds of nodes (Gavel, OSDI 2020, section 4.2).

    maximise  (sum of T_mk x_mk / max_k T_mk) / (sum of price_mk x_mk)

by one programme, above floors: the cheapest plan of all would run nothing. Each job gets at least
``floor`` of what max-min fairness gives it, and with a deadline steps left / time left. Of
deadlines that cannot be met together the latest are dropped.

price_mk is what a job's workers take of a kind, by dominant share, times what its nodes cost.
"""

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from optimus.allocation.time_shares import SharesProblem, TimeShares, Values
from optimus.allocation.turns import READING_FORECASTS, TurnsPolicy


@dataclass(frozen=True, slots=True)
class GavelCostPolicy(TurnsPolicy):
    """Maximises throughput per cost."""

    name = "gavel-cost"
    traits = READING_FORECASTS
    fills = False

    floor: float = 0.5
    """The least part of the throughput of max-min fairness that each job gets, at most 1."""

    def shares(self, problem: SharesProblem) -> Values:
        """Ideal parts of the time, of shape (jobs, kinds)."""
        fair = problem.fair
        if not (fair > 0).any():
            return np.zeros_like(problem.speeds)
        lacking = np.maximum(problem.finish_by - problem.at, 1.0)
        due = np.where(np.isfinite(lacking), problem.steps_left / lacking, 0.0)
        due = np.where(due <= problem.best, due, 0.0)  # the others cannot be met, even alone
        # Jobs with deadlines are not merged: of two equal ones only one may be met.
        own = np.where(due > 0, np.arange(len(due)), -1.0)
        programmes = TimeShares(problem, fair, own)
        least = min(self.floor, 1.0) * (1 - 1e-6) * programmes.raise_floors(fair).height * fair
        order = np.argsort(np.where(due > least, problem.finish_by, np.inf), kind="stable")

        def floors(met: int) -> Values:
            """As many deadlines are met, the earliest first."""
            found = least.copy()
            found[order[:met]] = due[order[:met]]
            return found

        def misses(met: int) -> bool:
            return bool(programmes.raise_floors(floors(met) - least, least).height < 1)

        most = int(np.count_nonzero(due > least))
        met = bisect_left(range(1, most + 1), True, key=misses)
        taken = problem.workers[:, None] / np.maximum(problem.capacity, 1e-12)
        cost = taken.max(axis=2) * (problem.prices * problem.nodes)
        return programmes.maximise_ratio(problem.relative, cost, floors(met))
