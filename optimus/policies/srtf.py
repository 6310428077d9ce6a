"""Shortest remaining time first, a baseline of later papers (DL2, section 6.1).

Jobs in ascending order of their remaining time at their minimum: each is admitted in this order,
running jobs first, and then, in the same order, grows by one PS and one worker as long as its
forecast says that they help.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from optimus.allocation import Allocation, AllocationProblem, PolicyTraits
from optimus.allocation.greedy import SequentialGrowth, start_at_minimum


@dataclass(frozen=True, slots=True)
class SrtfPolicy:
    """The shortest job first, PSs and workers one to one."""

    name: ClassVar[str] = "srtf"
    traits: ClassVar[PolicyTraits] = PolicyTraits(placed_by="pack")
    """The paper names no placement: packed."""

    def allocate(self, problem: AllocationProblem) -> Allocation:
        """Counts for every candidate whose minimum fits."""
        shortest = {each.job.uid: each.forecast.at(each.least) for each in problem.candidates}
        baseline = start_at_minimum(
            problem,
            lambda given, _: np.array([shortest[each.job.uid] for each in given.candidates]),
        )
        order = baseline.order(np.array([shortest[each.job.uid] for each in baseline.admitted]))
        rank = np.empty(len(order))
        rank[np.array(order, dtype=np.int64)] = np.arange(len(order))
        rule = SequentialGrowth(baseline.seconds(), -rank)
        growth = baseline.grow(rule, order)
        counts = baseline.counts_at(growth)
        reasons = {
            uid: f"{each}: it is number {int(place) + 1} of {len(counts)} by remaining time"
            for (uid, each), place in zip(counts.items(), rank.tolist(), strict=True)
        }
        return Allocation(counts, {**baseline.reasons, **reasons})
