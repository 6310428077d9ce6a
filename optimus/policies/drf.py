"""Dominant resource fairness (NSDI 2011), as Optimus compares itself with it (EuroSys 2018, section
6.1).

PSs and workers grow one to one, work-conserving: again and again the job with the smallest dominant
share of the cluster gets one PS and one worker more, until nothing more fits. Forecasts are not
looked at: a job may well get more than makes it faster.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from optimus.allocation import Allocation, AllocationProblem
from optimus.allocation.baseline import MOST_PER_ROLE, start_at_minimum
from optimus.allocation.greedy import NO_STEP, GrowthState, Steps


@dataclass(frozen=True, slots=True)
class DrfPolicy:
    """Progressive filling by dominant share, PSs and workers one to one."""

    name: ClassVar[str] = "drf"

    most_per_role: int = MOST_PER_ROLE
    """The most PSs, or workers, of one job where its user names no maximum and the room none."""

    def allocate(self, problem: AllocationProblem) -> Allocation:
        """Counts for every candidate whose minimum fits."""
        start = start_at_minimum(problem, most_per_role=self.most_per_role)
        by_uid = sorted(range(len(start.seated)), key=lambda row: start.seated[row].job.uid)
        climb = start.climb(_SmallestShareFirst(), by_uid)
        counts = start.counts_at(climb.ps, climb.workers)
        reasons = {
            uid: f"its fair share by dominant resource is {each}" for uid, each in counts.items()
        }
        return Allocation(counts, {**start.reasons, **reasons})


class _SmallestShareFirst:
    """The smaller the share so far, the larger the gain."""

    def next_steps(self, here: GrowthState) -> Steps:
        """One PS and one worker; one alone where the other is at its bound."""
        more_ps, more_workers = here.pair()
        share = here.climbers.demands.shares(
            here.cost(here.ps, here.workers) + here.climbers.demands.fixed[here.rows]
        )
        going = (more_ps + more_workers > 0) & here.has_room(more_ps, more_workers)
        return Steps(np.where(going, -share, NO_STEP), more_ps, more_workers)
