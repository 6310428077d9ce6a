"""Shortest remaining time first, a baseline of the papers that compare themselves with Optimus
(DL2, section 6.1).

Jobs in ascending order of the remaining time that they would have at their minimum: each is seated
there in this order, and then, in the same order, grows by one PS and one worker as long as its
forecast says that they help. A running job keeps its seat.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from optimus.allocation import Allocation, AllocationProblem
from optimus.allocation.baseline import MOST_PER_ROLE, start_at_minimum
from optimus.allocation.sequential import InTurn


@dataclass(frozen=True, slots=True)
class SrtfPolicy:
    """The shortest job first, PSs and workers one to one."""

    name: ClassVar[str] = "srtf"

    stops_without_gain: bool = True
    """A job stops growing where one PS and one worker more make it no faster; otherwise only the
    room stops it."""

    most_per_role: int = MOST_PER_ROLE
    """The most PSs, or workers, of one job where its user names no maximum and the room none."""

    def allocate(self, problem: AllocationProblem) -> Allocation:
        """Counts for every candidate whose minimum fits."""
        shortest = {each.job.uid: each.forecast.at(each.least) for each in problem.candidates}
        start = start_at_minimum(
            problem,
            lambda given, _: np.array([shortest[each.job.uid] for each in given.candidates]),
            self.most_per_role,
        )
        remaining = np.array([shortest[each.job.uid] for each in start.seated])
        by_remaining = sorted(
            range(len(start.seated)), key=lambda row: (remaining[row], start.seated[row].job.uid)
        )
        rank = np.empty(len(start.seated))
        rank[np.array(by_remaining, dtype=np.int64)] = np.arange(len(start.seated))
        climb = start.climb(InTurn(start.seconds(), -rank, self.stops_without_gain), by_remaining)
        counts = start.counts_at(climb.ps, climb.workers)
        reasons = {
            uid: f"{each}: it is number {int(place) + 1} of {len(counts)} by remaining time"
            for (uid, each), place in zip(counts.items(), rank.tolist(), strict=True)
        }
        return Allocation(counts, {**start.reasons, **reasons})
