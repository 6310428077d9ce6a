"""Dominant resource fairness (NSDI 2011), as Optimus compares itself with it (section 6.1).

PSs and workers grow one to one, work-conserving: again and again the job with the smallest dominant
share of the cluster gets one PS and one worker more, until nothing more fits. Forecasts are not
used: a job may get more tasks than make it faster.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from optimus.allocation import Allocation, AllocationProblem, PolicyTraits
from optimus.allocation.greedy import NO_STEP, GrowthState, Steps, start_at_minimum


@dataclass(frozen=True, slots=True)
class DrfPolicy:
    """Progressive filling by dominant share, PSs and workers one to one."""

    name: ClassVar[str] = "drf"
    traits: ClassVar[PolicyTraits] = PolicyTraits(placed_by="spread", reads_forecasts=False)
    """Placed by the default of Kubernetes, which spreads (Optimus, section 6.1)."""

    def allocate(self, problem: AllocationProblem) -> Allocation:
        """Counts for every candidate whose minimum fits."""
        baseline = start_at_minimum(problem)
        growth = baseline.grow(_SmallestShareFirst(), baseline.order())
        counts = baseline.counts_at(growth)
        reasons = {
            uid: f"its fair share by dominant resource is {each}" for uid, each in counts.items()
        }
        return Allocation(counts, {**baseline.reasons, **reasons})


class _SmallestShareFirst:
    """The smaller the share so far, the larger the gain."""

    def next_steps(self, state: GrowthState) -> Steps:
        """One PS and one worker; one alone where the other is at its bound."""
        more_ps, more_workers = state.pair()
        share = state.jobs.demands.shares(
            state.cost(state.ps, state.workers) + state.jobs.demands.fixed[state.rows]
        )
        going = (more_ps + more_workers > 0) & state.fits(more_ps, more_workers)
        return Steps(np.where(going, -share, NO_STEP), more_ps, more_workers)
