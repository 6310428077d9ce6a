"""Episodes for learning: jobs in slots, all counts anew in each slot, several episodes at a time.

Time goes in slots, as in the simulator of DL2 (TPDS 32(8), 2021): jobs come at the beginning of a
slot and every job that has come gets counts for it, at no cost of restarts. A job that ends within
a slot ends at that part of it. Nodes are looked at in sum. All episodes of a batch are of one
trace, so that each is the others' baseline.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from optimus.allocation.scorer import MOST, STEPS, Scorer, described
from optimus.jobs import Job

Values = NDArray[np.float64]
Counted = NDArray[np.int64]
Mask = NDArray[np.bool_]

MOST_SLOTS: Final = 400


@dataclass(frozen=True, slots=True, eq=False)
class SlotTrace:
    """Jobs by row: the slot in which they come, their work, what they do in a slot at each counts
    (shape (jobs, 17, 17)), and what a PS and a worker take (shape (jobs, 2, resources)).

    ``jobs`` and ``resources`` are for a teacher that is a policy."""

    arrives: Counted
    work: Values
    speed: Values
    task: Values
    capacity: Values
    slot_seconds: float = 600.0
    jobs: tuple[Job, ...] = ()
    resources: tuple[str, ...] = ()


Choose = Callable[["Slot"], tuple[Counted, Counted]]
"""The PSs and workers of all jobs of a batch; shape (batch, jobs) each."""


@dataclass(slots=True, eq=False)
class Slot:
    """A batch of episodes at the beginning of a slot."""

    trace: SlotTrace
    left: Values
    """Work by episode and job."""
    at: int = 0

    @property
    def present(self) -> Mask:
        """Which jobs have come and have not ended."""
        return (self.trace.arrives <= self.at) & (self.left > 0)

    def free(self, ps: Counted, workers: Counted) -> Values:
        """By episode, shape (batch, resources)."""
        both = np.stack([ps, workers], axis=2).astype(np.float64)
        return np.asarray(self.trace.capacity - np.einsum("bjt,jtr->br", both, self.trace.task))

    def allowed(self, ps: Counted, workers: Counted, free: Values, may: Mask) -> Mask:
        """Which of the three steps of each job lie within bounds and fit, and that one may stop."""
        cost = np.einsum("at,jtr->jar", STEPS.astype(np.float64), self.trace.task)
        fitting = (cost[None] <= free[:, None, None, :] + 1e-9).all(axis=3) & may[:, :, None]
        fitting &= ps[..., None] + STEPS[:, 0] <= MOST
        fitting &= workers[..., None] + STEPS[:, 1] <= MOST
        stop = np.ones((len(ps), 1), dtype=np.bool_)
        return np.hstack([fitting.reshape(len(ps), -1), stop])

    def features(self, ps: Counted, workers: Counted) -> Values:
        """Of each job, by its forecast."""
        rows, left = np.arange(self.left.shape[1]), np.maximum(self.left, 0.0)
        speed, seconds = self.trace.speed, left * self.trace.slot_seconds

        def at(more_ps: int, more_workers: int) -> Values:
            p, w = np.minimum(ps + more_ps, MOST), np.minimum(workers + more_workers, MOST)
            return np.asarray(seconds / np.maximum(speed[rows, p, w], 1e-9))

        after = [at(*step) for step in ((0, 0), *STEPS.tolist())]
        share = np.einsum("bjt,jtr->bjr", np.stack([ps, workers], 2), self.trace.task)
        share = (share / self.trace.capacity).max(axis=2)
        best = seconds / speed.max(axis=(1, 2))
        return described(np.stack(after, axis=-1), best, share, ps, workers)

    def room(self, free: Values) -> Values:
        """The least and the largest part that is free, by episode."""
        part = free / self.trace.capacity
        return np.stack([part.min(axis=1), part.max(axis=1)], axis=1)

    def pass_by(self, ps: Counted, workers: Counted) -> Values:
        """Train for one slot; by episode, the sum of the parts of it that jobs were there."""
        rows, present = np.arange(self.left.shape[1]), self.present
        done = np.where(present, self.trace.speed[rows, ps, workers], 0.0)
        part = np.where(done > 0, np.minimum(self.left / np.maximum(done, 1e-12), 1.0), 1.0)
        self.left = np.where(present, np.maximum(self.left - done, 0.0), self.left)
        self.left[self.left < 1e-9] = 0.0
        self.at += 1
        return np.asarray((part * present).sum(axis=1))


def run(trace: SlotTrace, choose: Choose, batch: int = 1) -> Values:
    """Mean completion time in slots, by episode."""
    slot = Slot(trace, np.repeat(trace.work[None], batch, axis=0))
    total = np.zeros(batch)
    while slot.at < MOST_SLOTS and (slot.left > 0).any():
        total += slot.pass_by(*choose(slot))
    return total / len(trace.work)


@dataclass(frozen=True, slots=True, eq=False)
class Noted:
    """One action of some episodes: the state, the action, the episodes' rows, the slot."""

    features: Values
    room: Values
    present: Mask
    allowed: Mask
    action: Counted
    rows: Counted
    at: int


@dataclass(slots=True, eq=False)
class Sampler:
    """Chooses task by task by the scorer: at random, or always the best; notes what it did."""

    scorer: Scorer
    draw: np.random.Generator | None = None
    noted: list[Noted] = field(default_factory=list)

    def __call__(self, slot: Slot) -> tuple[Counted, Counted]:
        """From one PS and one worker of each job, the oldest first, while they fit."""
        ps, workers = start(slot)
        running = np.ones(len(ps), dtype=np.bool_)
        may = ps > 0
        while running.any():
            free = slot.free(ps, workers)
            allowed = slot.allowed(ps, workers, free, may)
            rows = np.flatnonzero(running)
            features, room = slot.features(ps, workers)[rows], slot.room(free)[rows]
            scored = self.scorer.score(features, room, slot.present[rows], allowed[rows])
            p = scored.probability
            if self.draw is None:
                action = p.argmax(axis=1)
            else:
                action = (p.cumsum(axis=1) < self.draw.random((len(rows), 1))).sum(axis=1)
                action = np.minimum(action, p.shape[1] - 1)
                present = slot.present[rows]
                self.noted.append(
                    Noted(features, room, present, allowed[rows], action, rows, slot.at)
                )
            stops = action == p.shape[1] - 1
            running[rows[stops]] = False
            go, what = rows[~stops], action[~stops]
            job, step = what // 3, STEPS[what % 3]
            ps[go, job] += step[:, 0]
            workers[go, job] += step[:, 1]
        return ps, workers


def start(slot: Slot) -> tuple[Counted, Counted]:
    """One PS and one worker of each job, in order, while they fit."""
    present = slot.present
    ps = np.zeros(present.shape, dtype=np.int64)
    pair = slot.trace.task.sum(axis=1)
    free = np.repeat(slot.trace.capacity[None], len(ps), axis=0)
    for job in np.argsort(slot.trace.arrives, kind="stable"):
        fits = present[:, job] & (pair[job] <= free + 1e-9).all(axis=1)
        ps[fits, job] = 1
        free[fits] -= pair[job]
    return ps, ps.copy()
