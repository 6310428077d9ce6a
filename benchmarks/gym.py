"""Episodes for learning: jobs in slots, all counts anew in each slot by a policy.

Time goes in slots, as in the simulator of DL2 (TPDS 32(8), 2021): jobs come at the beginning of a
slot and every job that has come gets counts for it, at no cost of restarts. A job that ends within
a slot ends at that part of it. Nodes are looked at in sum.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus.allocation import AllocationProblem, Candidate
from optimus.allocation.fairness import PROPORTIONAL, JobObjective
from optimus.allocation.policy import PoolRule
from optimus.allocation.scorer import MOST
from optimus.jobs import NO_COUNTS, Job
from optimus.models.forecast import Forecast
from optimus.resources import Resources

Values = NDArray[np.float64]
Counted = NDArray[np.int64]
Mask = NDArray[np.bool_]

MOST_SLOTS: Final = 4000
_OBJECTIVE: Final = JobObjective(1.0, PROPORTIONAL)
"""The usual one of the product."""


@dataclass(frozen=True, slots=True, eq=False)
class SlotTrace:
    """Jobs by row: the slot in which they come, their work, and what they do in a slot at each
    counts (shape (jobs, 17, 17))."""

    jobs: tuple[Job, ...]
    capacity: Resources
    arrives: Counted
    work: Values
    speed: Values
    slot_seconds: float = 600.0
    forecast: Values | None = None
    """The speed by which policies decide; ``None``: the true one."""


@dataclass(slots=True, eq=False)
class Slot:
    """An episode at the beginning of a slot."""

    trace: SlotTrace
    left: Values = field(init=False)
    """Work by job."""
    at: int = 0

    def __post_init__(self) -> None:
        self.left = self.trace.work.copy()

    @property
    def present(self) -> Mask:
        """Which jobs have come and have not ended."""
        return (self.trace.arrives <= self.at) & (self.left > 0)

    def train(self, ps: Counted, workers: Counted) -> float:
        """Train for one slot; the sum of the parts of it for which jobs were there."""
        rows, present = np.arange(len(self.left)), self.present
        done = np.where(present, self.trace.speed[rows, ps, workers], 0.0)
        part = np.where(done > 0, np.minimum(self.left / np.maximum(done, 1e-12), 1.0), 1.0)
        self.left = np.where(present, np.maximum(self.left - done, 0.0), self.left)
        self.left[self.left < 1e-9] = 0.0
        self.at += 1
        return float(part[present].sum())


Choose = Callable[[Slot], tuple[Counted, Counted]]
"""The PSs and workers of all jobs; 0 of those that are not there."""


def play(trace: SlotTrace, choose: Choose) -> Values:
    """By slot, the sum of the parts of it for which jobs were there: all of them, divided by the
    number of jobs, are the mean completion time in slots."""
    slot, there = Slot(trace), list[float]()
    while slot.at < MOST_SLOTS and (slot.left > 0).any():
        present = slot.present.any()
        there.append(slot.train(*(choose(slot) if present else _nothing(trace))))
    return np.array(there)


def _nothing(trace: SlotTrace) -> tuple[Counted, Counted]:
    none = np.zeros(len(trace.work), dtype=np.int64)
    return none, none


def by_rule(rule: PoolRule) -> Choose:
    """As a policy decides."""

    def choose(slot: Slot) -> tuple[Counted, Counted]:
        trace, counts = slot.trace, rule.allocate(problem_of(slot)).counts
        both = np.array([counts.get(each.uid, NO_COUNTS) for each in trace.jobs], dtype=np.int64)
        return both[:, 0], both[:, 1]

    return choose


def problem_of(slot: Slot) -> AllocationProblem:
    """What a policy is asked in a slot."""
    trace = slot.trace
    speed = trace.speed if trace.forecast is None else trace.forecast
    candidates = tuple(
        Candidate(
            trace.jobs[row],
            Forecast(_TableSpeed(speed[row] / trace.slot_seconds), float(slot.left[row])),
            objective=_OBJECTIVE,
        )
        for row in np.flatnonzero(slot.present).tolist()
    )
    return AllocationProblem(trace.capacity, trace.capacity, candidates)


@dataclass(frozen=True, slots=True)
class _TableSpeed:
    """Parts of a job per second; implements ``models.forecast.Speed``."""

    table: Values

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> Values:
        p, w = np.broadcast_arrays(np.asarray(ps), np.asarray(workers))
        within = (p <= MOST) & (w <= MOST)
        return np.where(within, self.table[np.minimum(p, MOST), np.minimum(w, MOST)], 0.0)


def mean_slots(trace: SlotTrace, rule: PoolRule) -> float:
    """The mean completion time in slots as a policy decides."""
    return float(play(trace, by_rule(rule)).sum() / len(trace.jobs))


def with_errors(trace: SlotTrace, size: float, draw: np.random.Generator) -> SlotTrace:
    """The same jobs with forecasts of speed that are wrong by this part, up or down, at each
    counts."""
    signs = draw.choice(np.array([-1.0, 1.0]), size=trace.speed.shape)
    return replace(trace, forecast=trace.speed * (1 + size * signs))
