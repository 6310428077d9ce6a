"""Tetris (SIGCOMM 2014), as Optimus compares itself with it (section 6.1): short, small jobs first.

The score of a job is its alignment less its remaining work. Alignment is the dot product of what
one PS and one worker ask for and of what is free, both as shares of capacity. Remaining work is the
remaining time at one PS and one worker (its minimum) times the sum of the shares these take. The
work is scaled by the ratio of the jobs' mean alignment and mean work, as in Tetris, section 3.3.
Jobs are admitted at their minimum by descending score; then, in that order, each grows by one PS
and one worker as long as its forecast, Optimus' own, says that they help; placed by ``pack``.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from optimus.allocation import Allocation, AllocationProblem, PolicyTraits
from optimus.allocation.greedy import Gains, SequentialGrowth, start_at_minimum
from optimus.allocation.problem import Demands


@dataclass(frozen=True, slots=True)
class TetrisPolicy:
    """The highest score first, PSs and workers one to one."""

    name: ClassVar[str] = "tetris"
    traits: ClassVar[PolicyTraits] = PolicyTraits(placed_by="pack")
    """Tetris packs."""

    work_weight: float = 1.0
    """How much the remaining work counts beside the alignment, both scaled to the same mean. Unit:
    none. Tetris' default; 0 packs without regard to time."""

    def allocate(self, problem: AllocationProblem) -> Allocation:
        """Counts for every candidate whose minimum fits."""
        scores: dict[str, float] = {}

        def key(given: AllocationProblem, demands: Demands) -> Gains:
            values = self._scores(given, demands)
            uids = [each.job.uid for each in given.candidates]
            scores.update(zip(uids, values.tolist(), strict=True))
            return -values

        baseline = start_at_minimum(problem, key)
        score = np.array([scores[each.job.uid] for each in baseline.admitted])
        rule = SequentialGrowth(baseline.seconds(), score)
        growth = baseline.grow(rule, baseline.order(-score))
        counts = baseline.counts_at(growth)
        reasons = {
            uid: f"{each}: its score by alignment and work is {scores[uid]:.3g}"
            for uid, each in counts.items()
        }
        return Allocation(counts, {**baseline.reasons, **reasons})

    def _scores(self, problem: AllocationProblem, demands: Demands) -> Gains:
        """Alignment less scaled remaining work, by candidate."""
        if not problem.candidates:
            return np.zeros(0)
        capacity = np.maximum(demands.capacity, 1)
        real = len(demands.capacity)
        free = np.maximum(demands.available[:real], 0) / capacity
        asked = (demands.ps + demands.workers)[:, :real] / capacity
        alignment = asked @ free
        seconds = np.array([each.forecast.at(each.least) for each in problem.candidates])
        # No speed at all is the longest of all jobs; it must not make every other's work vanish
        # beside it.
        finite = np.isfinite(seconds)
        work = np.where(finite, seconds, seconds[finite].max(initial=0.0) * 2) * asked.sum(axis=1)
        scale = alignment.mean() / work.mean() if work.mean() > 0 else 0.0
        return np.asarray(alignment - self.work_weight * scale * work)
