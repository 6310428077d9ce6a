"""The allocation of Optimus exactly as published (EuroSys 2018, section 4.1, equation 9).

Every job starts at its minimum (1 PS + 1 worker). Then the job of the largest gain gets the task of
its larger term: remaining seconds saved per *amount* (cores, GiB, GPUs) of the resource that
dominates the task. The loop ends when a task does not fit ("some resource in the cluster is used
up") or when no gain is positive. What the text leaves open is a field below. Known to be worse than
module ``optimus``: kept for comparison."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

import numpy as np

from optimus.allocation import Allocation, AllocationProblem, PolicyTraits
from optimus.allocation.greedy import (
    NO_STEP,
    Baseline,
    Gains,
    GrowthState,
    Steps,
    start_at_minimum,
)
from optimus.allocation.problem import RemainingSeconds
from optimus.resources import CPU, MEMORY, Resources

_UNITS = {CPU: 1000.0, MEMORY: float(2**30)}


class StopRule(StrEnum):
    """What the first task that does not fit ends."""

    LOOP = "loop"
    TASK = "task"


class Tie(StrEnum):
    """Which task a job gets whose two terms are equal."""

    PS = "ps"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class OptimusPaperPolicy:
    """Greedy by remaining seconds saved per amount of the dominant resource."""

    name: ClassVar[str] = "optimus-paper"
    traits: ClassVar[PolicyTraits] = PolicyTraits(placed_by="theorem1")

    stop: StopRule = StopRule.LOOP
    """The first task that does not fit ends the whole loop, or only that kind of task of that job.
    "Some resource in the cluster is used up" can be read either way; the authors' program ends."""

    tie: Tie = Tie.PS
    """Of equal terms of equation 9 this one is taken, as in the authors' program. Equal gains of
    two jobs go to the one that arrived first."""

    priority_factor: float = 1.0
    """The gain of a job at its beginning is multiplied by this. Unit: none. The paper tries 0.95
    and has it off, and gives no bound of the beginning: it is a job that is not running yet, of
    which least is known."""

    def allocate(self, problem: AllocationProblem) -> Allocation:
        """Counts for every candidate whose minimum fits."""
        baseline = start_at_minimum(problem)
        jobs = [each.job for each in baseline.admitted]
        by_arrival = sorted(range(len(jobs)), key=lambda row: (jobs[row].created_at, jobs[row].uid))
        amounts = _amounts(baseline, problem.capacity)
        factors = self._factors(baseline)
        rule = _GainPerAmount(baseline.seconds(), *amounts, factors, self.tie, self.stop)
        growth = baseline.grow(rule, by_arrival, stop_at_misfit=self.stop is StopRule.LOOP)
        ending = f"{growth.lacking} was used up" if growth.lacking else "no task saved time"
        reason = f"gain per amount of its dominant resource; ended when {ending}"
        counts = baseline.counts_at(growth)
        return Allocation(counts, {**baseline.reasons, **dict.fromkeys(counts, reason)})

    def _factors(self, baseline: Baseline) -> Gains:
        starts = [not each.running for each in baseline.admitted]
        return np.where(np.array(starts, dtype=np.bool_), self.priority_factor, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class _GainPerAmount:
    """Equation 9: the larger of its two terms."""

    seconds: RemainingSeconds
    ps_amount: Gains
    worker_amount: Gains
    factor: Gains
    tie: Tie
    stop: StopRule

    def next_steps(self, state: GrowthState) -> Steps:
        """Gains are seconds saved per amount."""
        now = self.seconds(state.rows, state.ps, state.workers)
        ps = self._gain(state, now, (1, 0), self.ps_amount)
        worker = self._gain(state, now, (0, 1), self.worker_amount)
        takes_ps = (ps >= worker) if self.tie is Tie.PS else (ps > worker)
        gain = np.where(takes_ps, ps, worker) * self.factor[state.rows]
        gain[~(gain > 0)] = NO_STEP
        return Steps(gain, takes_ps.astype(np.int64), (~takes_ps).astype(np.int64))

    def _gain(self, state: GrowthState, now: Gains, more: tuple[int, int], amount: Gains) -> Gains:
        with np.errstate(invalid="ignore"):
            saved = now - self.seconds(state.rows, state.ps + more[0], state.workers + more[1])
        # What is to end the loop must come up in its turn, though it does not fit.
        # A full quota ends the growth of its namespace alone.
        is_loop = self.stop is StopRule.LOOP
        allowed = state.within_bounds(*more) if is_loop else state.allows(*more)
        allowed &= state.within_quotas(*more)
        good = allowed & ~np.isnan(saved)
        return np.asarray(np.where(good, saved / amount[state.rows], NO_STEP))


def _amounts(baseline: Baseline, capacity: Resources) -> tuple[Gains, Gains]:
    costs = [(each.job.ps.resources, each.job.worker.resources) for each in baseline.admitted]
    known = {cost: amount(cost, capacity) for pair in costs for cost in pair}
    ps, workers = ([known[pair[role]] for pair in costs] for role in (0, 1))
    return np.array(ps, dtype=np.float64), np.array(workers, dtype=np.float64)


def amount(cost: Resources, capacity: Resources) -> float:
    """Return how much of its dominant resource a task takes: cores, GiB, or units of anything else.

    Of equal shares the first by name is the dominant one, CPU before memory, as in the authors'
    program: the paper names no rule, and the choice moves the result.
    """
    shares = {name: Resources({name: cost[name]}).dominant(capacity)[1] for name in cost}
    if not shares:
        return 1.0  # A task that requests nothing, which the paper does not treat.
    name = min(shares, key=lambda each: (-shares[each], each))
    return cost[name] / _UNITS.get(name, 1.0)
