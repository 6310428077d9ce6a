"""The allocation of DL2 (TPDS 32(8), 2021): a scorer that was trained chooses task by task.

Every candidate starts at its minimum, as with ``optimus``. Then the task with the highest score is
given, among those that lie within bounds, capacity and quotas, until stopping has the highest
score. What was learned holds where it was learned: elsewhere, and where the result is worse by
forecast, another policy decides, and the reasons say so.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from optimus.allocation import Allocation, AllocationProblem, PolicyTraits
from optimus.allocation.greedy import Baseline, Growth, GrowthState, start_at_minimum
from optimus.allocation.policy import PoolRule
from optimus.allocation.problem import Demands, RemainingSeconds, as_columns
from optimus.allocation.scorer import ACTIONS, MOST, STEPS, Learned, Mask, Values, described
from optimus.jobs import Counts

_MOST_WORSE: Final = 1.05
"""The geometric mean of the remaining times may be so many times that of the other policy."""

_LEAST_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Dl2Policy:
    """What was learned, and the policy that decides where it does not hold."""

    name: ClassVar[str] = "dl2"
    traits: ClassVar[PolicyTraits] = PolicyTraits(
        placed_by="theorem1", weighs_restarts=True, weighs_jobs=True
    )

    learned: Learned
    otherwise: PoolRule

    def allocate(self, problem: AllocationProblem) -> Allocation:
        """Counts for every candidate whose minimum fits, whatever the candidates' order."""
        usual = self.otherwise.allocate(problem)
        found = _why_other(problem, self.learned) or _grown(problem, self.learned, usual)
        if isinstance(found, Allocation):
            return found
        said = f"{self.otherwise.name} decides, since {found}"
        uids = [each.job.uid for each in problem.candidates]
        return Allocation(
            usual.counts, {uid: f"{said}: {usual.reasons.get(uid, '')}" for uid in uids}
        )


def _why_other(problem: AllocationProblem, learned: Learned) -> str:
    """What there is that was not there in training; empty where there is nothing."""
    jobs = problem.candidates
    if not jobs:
        return "there are no jobs"
    if len(jobs) > learned.jobs:
        return f"there are more than the {learned.jobs} jobs of the training"
    if any(each.deadline is not None for each in jobs):
        return "a job has a deadline"
    if len(problem.shares) > 1:
        return "several namespaces share the nodes"
    if len({each.objective for each in jobs}) > 1:
        return "its jobs differ in weight or fairness"
    return ""


def _grown(problem: AllocationProblem, learned: Learned, usual: Allocation) -> Allocation | str:
    """The counts by what was learned; a sentence where these are not to be taken."""
    baseline = start_at_minimum(problem)
    if not baseline.admitted:
        return "no job fits"
    seconds = baseline.seconds()
    growth = _Growing(baseline, seconds, learned).grow()
    if isinstance(growth, str):
        return growth
    worse = _ratio(baseline, growth, seconds, usual)
    if worse > _MOST_WORSE:
        return f"by forecast jobs would take {worse - 1:.0%} longer by what was learned"
    counts, mark = baseline.counts_at(growth), learned.mark
    said = {uid: f"{each} by what was learned ({mark})" for uid, each in counts.items()}
    return Allocation(counts, {**baseline.reasons, **said})


def _ratio(
    baseline: Baseline, growth: Growth, seconds: RemainingSeconds, usual: Allocation
) -> float:
    """The geometric mean of the remaining times, divided by that at the usual counts."""
    rows = np.arange(len(baseline.admitted))
    theirs = [
        usual.counts.get(each.job.uid, Counts(int(ps), int(workers)))
        for each, ps, workers in zip(
            baseline.admitted, baseline.jobs.ps, baseline.jobs.workers, strict=True
        )
    ]
    both = (seconds(rows, growth.ps, growth.workers), seconds(rows, *as_columns(theirs)))
    mine, other = (np.log(np.maximum(each, _LEAST_SECONDS)) for each in both)
    return float(np.exp((mine - other).mean()))


@dataclass(frozen=True, slots=True, eq=False)
class _Growing:
    """Jobs at their minimum that get one task after the other."""

    baseline: Baseline
    seconds: RemainingSeconds
    learned: Learned

    def grow(self) -> Growth | str:
        """Until stopping is best; a sentence where the state is outside the range of training."""
        jobs, demands = self.baseline.jobs, self.baseline.jobs.demands
        rows = np.arange(len(jobs.ps))
        ps, workers, left = jobs.ps.copy(), jobs.workers.copy(), self.baseline.left
        free, best = self.baseline.free - demands.reserve, self._best()
        while True:
            state = GrowthState(jobs, rows, ps, workers, free, left)
            features = self._features(state, best)
            outside = self.learned.why_outside(features)
            if outside:
                return f"{outside} of a job lies outside the range of the training"
            action = self._best_action(state, features)
            if action == ACTIONS * len(rows):
                return Growth(ps, workers, free, left, "")
            row, (more_ps, more_workers) = action // ACTIONS, STEPS[action % ACTIONS].tolist()
            free = free - demands.ps[row] * more_ps - demands.workers[row] * more_workers
            one = np.array([row])
            if demands.quotas is not None and left is not None:
                taken = demands.quotas.cost(one, np.array([more_ps]), np.array([more_workers]))
                left = demands.quotas.less(one, taken, left)
            ps[row] += more_ps
            workers[row] += more_workers

    def _best(self) -> Values:
        """The least remaining seconds of each job at up to 16 of each role."""
        rows, counts = np.arange(len(self.baseline.jobs.ps)), np.arange(1, MOST + 1)
        least_ps, least_workers = self.baseline.jobs.ps, self.baseline.jobs.workers
        ps = np.maximum(least_ps[:, None, None], counts[None, :, None])
        workers = np.maximum(least_workers[:, None, None], counts[None, None, :])
        grid = self.seconds(rows[:, None, None], ps, workers)
        return np.asarray(grid.min(axis=(1, 2)))

    def _features(self, state: GrowthState, best: Values) -> Values:
        rows, demands = state.rows, self.baseline.jobs.demands
        after = [self.seconds(rows, state.ps, state.workers)]
        for more_ps, more_workers in STEPS.tolist():
            ps = np.maximum(np.minimum(state.ps + more_ps, MOST), state.ps)
            workers = np.maximum(np.minimum(state.workers + more_workers, MOST), state.workers)
            after.append(self.seconds(rows, ps, workers))
        cost = demands.ps * state.ps[:, None] + demands.workers * state.workers[:, None]
        share = demands.shares(cost)
        return described(np.stack(after, axis=-1), best, share, state.ps, state.workers)

    def _best_action(self, state: GrowthState, features: Values) -> int:
        jobs = self.baseline.jobs
        allowed = np.stack([state.allows(*step) for step in STEPS.tolist()], axis=1)
        allowed &= jobs.may_grow[:, None]
        allowed &= state.ps[:, None] + STEPS[:, 0] <= MOST
        allowed &= state.workers[:, None] + STEPS[:, 1] <= MOST
        mask: Mask = np.append(allowed.ravel(), True)
        present = np.ones((1, len(features)), dtype=np.bool_)
        room = _room(jobs.demands, state)
        scored = self.learned.scorer.score(features[None], room[None], present, mask[None])
        return int(scored.probability[0].argmax())


def _room(demands: Demands, state: GrowthState) -> Values:
    """The least and the largest part that is free, of the resources that jobs ask for."""
    real = len(demands.capacity)
    asked = (demands.ps[:, :real] > 0).any(axis=0) | (demands.workers[:, :real] > 0).any(axis=0)
    asked &= demands.capacity > 0
    part = np.maximum(state.free[:real][asked], 0) / demands.capacity[asked]
    return np.array([part.min(initial=1.0), part.max(initial=0.0)])
