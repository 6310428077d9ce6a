"""The most throughput for the money over kinds of nodes (Gavel, OSDI 2020, section 4.2).

    maximise  (sum of T_mk x_mk / max_k T_mk) / (sum of price_mk x_mk)

by one programme, above floors: the cheapest plan of all would run nothing. Each job gets at least
``floor`` of the throughput that max-min fairness gives it, and with a deadline as much as meets it:
steps left / time left. Of deadlines that cannot be met together the latest are dropped.

price_mk is what a job takes of a kind (its workers' dominant share of it) times what all its nodes
cost in an hour by their labels. Nodes that the plan does not use stay empty, to be given back.
"""

from bisect import bisect_left
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from optimus.allocation.policy import PolicyTraits
from optimus.allocation.time_shares import SharesProblem, TimeShares, Values
from optimus.allocation.turns import READING_FORECASTS, TurnsPolicy


@dataclass(frozen=True, slots=True)
class GavelCostPolicy(TurnsPolicy):
    """Maximises throughput per cost."""

    name: ClassVar[str] = "gavel-cost"
    traits: ClassVar[PolicyTraits] = READING_FORECASTS
    fills: ClassVar[bool] = False

    floor: float = 0.5
    """The least part of the throughput of max-min fairness that each job gets, at most 1."""

    def shares(self, problem: SharesProblem) -> Values:
        """Ideal parts of the time, of shape (jobs, kinds)."""
        fair = problem.weights * problem.usual / np.maximum(problem.sizes, 1e-12)
        if not (fair > 0).any():
            return np.zeros_like(problem.speeds)
        lacking = np.maximum(problem.finish_by - problem.at, 1.0)
        due = np.where(np.isfinite(lacking), problem.steps_left / lacking, 0.0)
        due = np.where(due <= problem.best, due, 0.0)  # the others cannot be met, even alone
        # Jobs with deadlines are not merged: of two equal ones only one may be met.
        own = np.where(due > 0, np.arange(len(due)), -1.0)
        programmes = TimeShares(problem, fair, own)
        floors = min(self.floor, 1.0) * (1 - 1e-6) * programmes.raise_floors(fair).height * fair
        floors = np.maximum(floors, due * self._met(programmes, floors, due, problem.finish_by))
        worth = problem.speeds / problem.best[:, None]
        taken = problem.workers[:, None] / np.maximum(problem.capacity, 1e-12)
        cost = taken.max(axis=2) * (problem.prices * problem.nodes)
        return programmes.maximise_ratio(worth, cost, floors)

    @staticmethod
    def _met(programmes: TimeShares, floors: Values, due: Values, finish_by: Values) -> Values:
        """1 for each job whose deadline is kept to: as many as possible, by deadline."""
        order = np.flatnonzero(due > floors)[np.argsort(finish_by[due > floors], kind="stable")]

        def kept(count: int) -> Values:
            mask = np.zeros(len(due))
            mask[order[:count]] = 1.0
            return mask

        def misses(count: int) -> bool:
            lift = np.where(kept(count) > 0, due - floors, 0.0)
            return bool(programmes.raise_floors(lift, floors).height < 1)

        return kept(bisect_left(range(1, len(order) + 1), True, key=misses))
