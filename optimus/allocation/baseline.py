"""Where every policy begins: each candidate at its minimum, as far as there is room (Optimus,
section 4.1)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimus.allocation.demand import Amounts, Counted, Demands, fits
from optimus.allocation.greedy import Climb, GrowingJobs, GrowthState, StepRule, climb
from optimus.allocation.problem import AllocationProblem, Candidate
from optimus.allocation.remaining_time import RemainingSeconds, remaining_seconds
from optimus.jobs import Counts

MOST_PER_ROLE = 1024
"""The most PSs, or workers, of one job where its user names no maximum and the room none."""


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """``seated``: the candidates whose minimum fits, in the order of seating, and ``demands`` row
    by row for them.

    ``ps``, ``workers`` are the minima, ``most_ps``, ``most_workers`` the upper bounds, ``may_grow``
    says who has not met its goal; ``room`` is what is left; ``reasons`` say by UID why a candidate
    was not seated."""

    seated: tuple[Candidate, ...]
    demands: Demands
    ps: Counted
    workers: Counted
    most_ps: Counted
    most_workers: Counted
    may_grow: NDArray[np.bool_]
    room: Amounts
    reasons: Mapping[str, str]

    def seconds(self) -> RemainingSeconds:
        """Remaining seconds by row of ``seated``."""
        return remaining_seconds([each.forecast for each in self.seated], self.ps, self.workers)

    def climb(
        self, rule: StepRule, order: Sequence[int] | None = None, *, ends_at_misfit: bool = False
    ) -> Climb:
        """Grow from here by a rule; ``order`` lists the rows in which ties are decided (that of
        seating by default)."""
        room = self.room - self.demands.reserve
        return climb(self._climbers(order), room, rule, ends_at_misfit=ends_at_misfit)

    def here(self, climbed: Climb) -> GrowthState:
        """Where everybody is after a climb, with the room that is left."""
        rows = np.arange(len(self.seated), dtype=np.int64)
        return GrowthState(self._climbers(None), rows, climbed.ps, climbed.workers, climbed.room)

    def _climbers(self, order: Sequence[int] | None) -> GrowingJobs:
        rank = np.arange(len(self.seated), dtype=np.int64)
        if order is not None:
            rank[np.asarray(order, dtype=np.int64)] = np.arange(len(self.seated))
        return GrowingJobs(
            self.demands,
            self.ps,
            self.workers,
            self.most_ps,
            self.most_workers,
            self.may_grow,
            rank,
        )

    def counts_at(self, ps: Counted, workers: Counted) -> dict[str, Counts]:
        """Counts by UID."""
        pairs = zip(self.seated, ps.tolist(), workers.tolist(), strict=True)
        return {each.job.uid: Counts(p, w) for each, p, w in pairs}


Order = Callable[[AllocationProblem, Demands], NDArray[np.float64]]
"""A key by candidate; smaller ones are seated first."""


def start_at_minimum(
    problem: AllocationProblem, key: Order | None = None, most_per_role: int = MOST_PER_ROLE
) -> Start:
    """Seat running jobs first, then by ascending demand or another key, each at its minimum where
    that fits."""
    demands = Demands.of(problem)
    candidates = problem.candidates
    bounds = [each.job.bounds for each in candidates]
    ps = np.array([each.least.ps for each in candidates], dtype=np.int64)
    workers = np.array([each.least.workers for each in candidates], dtype=np.int64)
    needed = demands.at(ps, workers)
    keys = demands.shares(needed) if key is None else key(problem, demands)
    uids = [each.job.uid for each in candidates]
    order = sorted(
        range(len(uids)), key=lambda row: (not candidates[row].running, keys[row], uids[row])
    )
    seats, room, reasons = _seat(problem, demands, needed, order)
    return Start(
        tuple(candidates[row] for row in seats),
        demands.rows(seats),
        ps[seats],
        workers[seats],
        np.array([_most(bounds[row].max_ps, most_per_role) for row in seats], dtype=np.int64),
        np.array([_most(bounds[row].max_workers, most_per_role) for row in seats], dtype=np.int64),
        np.array([candidates[row].may_grow for row in seats], dtype=np.bool_),
        room,
        reasons,
    )


def _most(bound: int | None, most_per_role: int) -> int:
    return most_per_role if bound is None else min(bound, most_per_role)


def _seat(
    problem: AllocationProblem, demands: Demands, needed: Amounts, order: Sequence[int]
) -> tuple[Counted, Amounts, dict[str, str]]:
    """Take room in this order, passing over what does not fit."""
    ordered = needed[np.asarray(order, dtype=np.int64)]
    used = np.cumsum(ordered, axis=0)
    over = (used > np.maximum(demands.room, 0)).any(axis=1)
    # Up to the first that does not fit all of them do, in one go.
    first = int(np.argmax(over)) if over.any() else len(order)
    seats, reasons = list(order[:first]), {}
    room = demands.room - (used[first - 1] if first else 0)
    for row in order[first:]:
        job, demand = problem.candidates[row].job, needed[row]
        if fits(demand, room):
            room = room - demand
            seats.append(row)
        else:
            lacking = demands.lacking(demand, room)
            reasons[job.uid] = (
                f"its minimum of {problem.candidates[row].least} does not fit: too little "
                f"{lacking} is left"
            )
    return np.array(seats, dtype=np.int64), room, reasons
