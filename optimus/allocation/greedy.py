"""All jobs' ways up from their minimum, at once: what the greedy policies have in common.

A rule says of each job which step comes next, by its own counts alone, and with which gain. Handing
out the step of the largest gain, again and again, is then a merge of the jobs' sequences: a step
comes right after its predecessor if its gain is larger, so that each counts with the least gain up
to it, and sorting by that is the order of handing out. The first step for which no room is left
ends a round; the next one goes on from there with the steps that still fit. The one-step-at-a-time
version of this is kept in the tests as its oracle."""

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from optimus.allocation.demand import Amounts, Counted, Demands, fits

Gains = NDArray[np.float64]

NO_STEP = -np.inf

_FIRST_STRIDE = 4
"""So many steps of each job are worked out before it is asked how far the room reaches, then twice
as many."""


@dataclass(frozen=True, slots=True, eq=False)
class GrowingJobs:
    """Jobs at their minimum: arrays of length n. ``rank`` decides ties of gain, the least first."""

    demands: Demands
    ps: Counted
    workers: Counted
    most_ps: Counted
    most_workers: Counted
    may_grow: NDArray[np.bool_]
    rank: Counted


@dataclass(frozen=True, slots=True, eq=False)
class GrowthState:
    """Some of the jobs on their way up: rows of the climbers and their counts so far, and the room
    of this round."""

    climbers: GrowingJobs
    rows: Counted
    ps: Counted
    workers: Counted
    room: Amounts
    known: dict[tuple[str, int, int], NDArray[Any]] = field(default_factory=dict)
    """What has been worked out in this round for all climbers: it is the same at every step."""

    def allows(self, more_ps: int | Counted, more_workers: int | Counted) -> NDArray[np.bool_]:
        """Whether so many more (broadcast against the rows) lie within bounds and room."""
        return self.within_bounds(more_ps, more_workers) & self.has_room(more_ps, more_workers)

    def within_bounds(
        self, more_ps: int | Counted, more_workers: int | Counted
    ) -> NDArray[np.bool_]:
        """Whether so many more lie within the users' bounds; no role grows past its bound, though
        it may be there."""
        ps_ok = (self.ps + more_ps <= self.climbers.most_ps[self.rows]) | (np.asarray(more_ps) == 0)
        return np.asarray(
            ps_ok
            & (
                (self.workers + more_workers <= self.climbers.most_workers[self.rows])
                | (np.asarray(more_workers) == 0)
            )
        )

    def has_room(self, more_ps: int | Counted, more_workers: int | Counted) -> NDArray[np.bool_]:
        """Whether the room holds so many more of each job's tasks."""
        if isinstance(more_ps, int) and isinstance(more_workers, int):
            return self._once("room", more_ps, more_workers)
        return fits(self.cost(more_ps, more_workers), self.room)

    def share(self, more_ps: int, more_workers: int) -> NDArray[np.float64]:
        """The dominant share of so many more tasks."""
        return self._once("share", more_ps, more_workers)

    def _once(self, what: str, more_ps: int, more_workers: int) -> NDArray[Any]:
        key = what, more_ps, more_workers
        if key not in self.known:
            demands = self.climbers.demands
            cost = demands.ps * more_ps + demands.workers * more_workers
            self.known[key] = fits(cost, self.room) if what == "room" else demands.shares(cost)
        return self.known[key][self.rows]

    def pair(self) -> tuple[Counted, Counted]:
        """One PS and one worker more, or only one of them where the other is at its bound."""
        return (
            (self.ps < self.climbers.most_ps[self.rows]).astype(np.int64),
            (self.workers < self.climbers.most_workers[self.rows]).astype(np.int64),
        )

    def cost(self, more_ps: int | Counted, more_workers: int | Counted) -> Amounts:
        """What so many more tasks ask for, shape (rows, columns)."""
        demands = self.climbers.demands
        ps, workers = np.asarray(more_ps), np.asarray(more_workers)
        return np.asarray(
            demands.ps[self.rows] * ps[..., None] + demands.workers[self.rows] * workers[..., None]
        )


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """The next step of each row: its gain (``NO_STEP`` where there is none) and what it adds."""

    gain: Gains
    more_ps: Counted
    more_workers: Counted


class StepRule(Protocol):
    """Which step a job takes next."""

    def next_steps(self, here: GrowthState) -> Steps:
        """The best step of each row among those that ``here`` allows."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Climb:
    """Where the jobs have got to. ``last_ps``, ``last_workers`` are what each job's last step
    added."""

    ps: Counted
    workers: Counted
    last_ps: Counted
    last_workers: Counted
    room: Amounts
    lacking: str
    """What there was too little of when the first step did not fit; empty where every step did."""


def climb(
    climbers: GrowingJobs, room: Amounts, rule: StepRule, *, ends_at_misfit: bool = False
) -> Climb:
    """Hand out steps until none is left that fits; with ``ends_at_misfit`` until the first that
    does not fit."""
    ps, workers = climbers.ps.copy(), climbers.workers.copy()
    last_ps, last_workers = np.zeros_like(ps), np.zeros_like(ps)
    lacking = ""
    while True:
        trails, taken, cost = _round(climbers, ps, workers, room, rule)
        rows = trails.row[taken]
        np.add.at(ps, rows, trails.more_ps[taken])
        np.add.at(workers, rows, trails.more_workers[taken])
        last = np.argsort(trails.at[taken], kind="stable")
        last_ps[rows[last]], last_workers[rows[last]] = (
            trails.more_ps[taken][last],
            trails.more_workers[taken][last],
        )
        room = room - cost
        if len(taken) == len(trails.row):
            return Climb(ps, workers, last_ps, last_workers, room, lacking)
        if not lacking:
            misfit = trails.cost[trails.order(climbers)[len(taken)]]
            lacking = climbers.demands.lacking(misfit, room)
        if ends_at_misfit:
            return Climb(ps, workers, last_ps, last_workers, room, lacking)


@dataclass(frozen=True, slots=True, eq=False)
class _Trails:
    """Steps of all jobs: to which row each belongs, the how manieth of the row it is, and what it
    counts with."""

    row: Counted
    at: Counted
    counts_with: Gains
    more_ps: Counted
    more_workers: Counted
    cost: Amounts

    def order(self, climbers: GrowingJobs) -> Counted:
        """The order of handing out."""
        return np.lexsort((self.at, climbers.rank[self.row], -self.counts_with))

    def handed_out(self, climbers: GrowingJobs, room: Amounts) -> tuple[Counted, Amounts, float]:
        """The steps before the first that does not fit, what they cost, and with which gain that
        one counts."""
        used = self.cost.sum(axis=0)
        if (used <= np.maximum(room, 0)).all():
            return np.arange(len(self.row)), used, NO_STEP
        order = self.order(climbers)
        used = np.cumsum(self.cost[order], axis=0)
        over = (used > np.maximum(room, 0)).any(axis=1)
        first = int(np.argmax(over)) if over.any() else len(order)
        gain = float(self.counts_with[order[first]]) if first < len(order) else NO_STEP
        return order[:first], used[first - 1] if first else np.zeros_like(room), gain


def _round(
    climbers: GrowingJobs, ps: Counted, workers: Counted, room: Amounts, rule: StepRule
) -> tuple[_Trails, Counted, Amounts]:
    """The jobs' sequences from here as far as they matter; which of their steps are handed out, and
    their cost."""
    demands = climbers.demands
    from_ps, from_workers = ps, workers
    ps, workers = ps.copy(), workers.copy()
    least = np.full(len(ps), np.inf)
    rows = np.flatnonzero(climbers.may_grow)
    known: dict[tuple[str, int, int], NDArray[Any]] = {}
    parts: list[_Trails] = []
    at, stride = 0, _FIRST_STRIDE
    while True:
        for _ in range(stride):
            rows, part = _step(
                GrowthState(climbers, rows, ps[rows], workers[rows], room, known), rule, least, at
            )
            parts.append(part)
            ps[rows] += part.more_ps
            workers[rows] += part.more_workers
            at += 1
            if len(rows) == 0:
                break
        trails = _join(parts)
        parts = [trails]
        taken, cost, gain = trails.handed_out(climbers, room)
        # A job whose steps already count with less than the first that does not fit has none that
        # matters any more.
        rows = rows[least[rows] >= gain]
        # Nor has one whose own steps take more than all the room already.
        more_ps, more_workers = (ps - from_ps)[rows, None], (workers - from_workers)[rows, None]
        rows = rows[fits(demands.ps[rows] * more_ps + demands.workers[rows] * more_workers, room)]
        if len(rows) == 0:
            return trails, taken, cost
        stride *= 2


def _step(here: GrowthState, rule: StepRule, least: Gains, at: int) -> tuple[Counted, _Trails]:
    """The next step of each row; returns the rows that take one."""
    steps = rule.next_steps(here)
    going = np.flatnonzero(steps.gain > NO_STEP)
    rows = here.rows[going]
    least[rows] = np.minimum(least[rows], steps.gain[going])
    numbers = np.full(len(rows), at, dtype=np.int64)
    ps, workers = steps.more_ps[going], steps.more_workers[going]
    demands = here.climbers.demands
    cost = demands.ps[rows] * ps[:, None] + demands.workers[rows] * workers[:, None]
    return rows, _Trails(rows, numbers, least[rows], ps, workers, cost)


def _join(parts: list[_Trails]) -> _Trails:
    return _Trails(
        np.concatenate([part.row for part in parts]),
        np.concatenate([part.at for part in parts]),
        np.concatenate([part.counts_with for part in parts]),
        np.concatenate([part.more_ps for part in parts]),
        np.concatenate([part.more_workers for part in parts]),
        np.concatenate([part.cost for part in parts]),
    )
