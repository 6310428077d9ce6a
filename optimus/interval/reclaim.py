"""Reclaims capacity for a job by shrinking others; a bounded greedy search.

Donors shrink one after the other, those first that lose least, until the job fits.
1. Whether it fits with all of them shrunk is asked first, of one capacity plan that is kept for the
   whole interval: most of what cannot be had is refused there, at the price of one attempt.
2. Then they shrink on a single trial.
3. Attempts are bounded. On a full cluster with thousands of waiting jobs the search would otherwise
   take minutes, and all other decisions wait for it; who is left over waits for the next interval.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.classify import Classified
from optimus.jobs import Counts

Place = Callable[[CapacityPlan], str | None]
"""Takes the room that is wanted of a capacity plan, or says why there is none, changing nothing."""


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """A capacity plan in which these donors have shrunk and what is wanted has its place."""

    plan: CapacityPlan
    donors: tuple[Classified, ...]


@dataclass(slots=True)
class Reclaim:
    """``donors`` in the order in which they shrink, each with its cost; ``decided`` ones do not."""

    donors: tuple[tuple[Classified, float], ...]
    allocated: Mapping[str, Counts]
    decided: Mapping[str, Counts]
    attempts_left: int
    all_shrunk: CapacityPlan | None = None
    """The plan in which every donor has shrunk, while it is known."""
    shrunk: set[str] = field(default_factory=set)
    """Who has shrunk in it."""

    def find(self, plan: CapacityPlan, place: Place, max_cost: float = math.inf) -> Reclaimed | str:
        """Room for what is wanted, for less than this cost; or why there is none."""
        if self.attempts_left <= 0:
            return "the room that others could give is looked through in the next interval"
        if self.all_shrunk is None:
            self.all_shrunk = plan.copy()
            self.shrunk = {
                donor.job.uid for donor, _ in self.donors if self._shrink(self.all_shrunk, donor)
            }
        refusal = self._attempt(place, self.all_shrunk.copy())
        if refusal is not None:
            return refusal
        trial, donors = plan.copy(), list[Classified]()
        for donor, cost in self.donors:
            if max_cost - cost <= 0 or self.attempts_left <= 0:
                break
            if not self._shrink(trial, donor):
                continue
            max_cost -= cost
            donors.append(donor)
            refusal = self._attempt(place, trial)
            if refusal is None:
                return Reclaimed(trial, tuple(donors))
        return refusal or "no other job can shrink"

    def moved(self, job: Classified, counts: Counts) -> None:
        """Follow the decision on a job that has a place now."""
        uid, known = job.job.uid, self.all_shrunk
        stays = counts == job.job.counts and uid not in self.shrunk
        if known is None or (stays and known.is_placed(uid)):
            return
        if known.move(job.job, counts) is not None:
            self.all_shrunk = None

    def _shrink(self, plan: CapacityPlan, donor: Classified) -> bool:
        uid = donor.job.uid
        if uid in self.decided:
            return False
        self.attempts_left -= 1
        return plan.move(donor.job, self.allocated[uid]) is None

    def _attempt(self, place: Place, plan: CapacityPlan) -> str | None:
        self.attempts_left -= 1
        return place(plan)
