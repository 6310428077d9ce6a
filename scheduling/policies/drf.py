"""Dominant resource fairness (NSDI 2011), as Optimus compares itself with it (EuroSys 2018, section 6.1).

PSs and workers grow one to one, work-conserving: again and again the job with the smallest dominant share of the
cluster gets one PS and one worker more, until nothing more fits. Forecasts are not looked at.
"""

import heapq
from dataclasses import dataclass
from typing import ClassVar

from scheduling.allocation import Allocation, AllocationProblem, Candidate, start_at_minimum
from scheduling.jobs import Counts
from scheduling.resources import Resources


@dataclass(frozen=True, slots=True)
class DrfPolicy:
    """Progressive filling by dominant share, PSs and workers one to one."""

    name: ClassVar[str] = "drf"

    most_per_role: int = 1024
    """The most PSs, or workers, of one job where its user names no maximum and the room none."""

    def allocate(self, problem: AllocationProblem) -> Allocation:
        """Counts for every candidate whose minimum fits."""
        start = start_at_minimum(problem)
        counts, room = dict(start.counts), start.room
        heap = [_entry(each, counts[each.job.uid], problem.capacity) for each in start.seated if each.may_grow]
        candidates = {each.job.uid: each for each in start.seated}
        heapq.heapify(heap)
        while heap:
            _, uid = heapq.heappop(heap)
            job, now = candidates[uid].job, counts[uid]
            after = job.bounds.clamp(Counts(now.ps + 1, now.workers + 1))
            cost = job.demand(after) - job.demand(now)
            if after != now and max(after) <= self.most_per_role and cost.fits_in(room):
                counts[uid], room = after, room - cost
                heapq.heappush(heap, _entry(candidates[uid], after, problem.capacity))
        reasons = {uid: f"its fair share by dominant resource is {each}" for uid, each in counts.items()}
        return Allocation(counts, {**start.reasons, **reasons})


def _entry(candidate: Candidate, counts: Counts, capacity: Resources) -> tuple[float, str]:
    return candidate.job.demand(counts).dominant(capacity)[1], candidate.job.uid
