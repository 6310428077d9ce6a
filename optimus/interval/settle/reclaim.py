"""Reclaims capacity for a job by shrinking others."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from optimus.interval.capacity_plan import CapacityPlan, QuotaRefusal
from optimus.interval.classify import JobView
from optimus.jobs import Counts

Donor = tuple[JobView, float]
"""A job that may shrink, and what that costs it."""


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """A capacity plan in which these donors have shrunk and the job is placed."""

    plan: CapacityPlan
    donors: tuple[tuple[JobView, Counts], ...]


Place = Callable[[CapacityPlan], str | None]
"""Places a job on a capacity plan, or returns why it does not fit and changes nothing."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that others may lose for a job, by the objective: together less than ``max_cost``.

    ``waits``: the job waits for no more than its own counts, for which loans are returned within
    cooldowns and profiling runs, too."""

    max_cost: float = math.inf
    waits: bool = False


WAITS: Final = Limits(waits=True)


@dataclass(slots=True)
class Reclaim:
    """Reclaims capacity for a job by shrinking others; a bounded greedy search.

    ``donors`` shrink in this order, each at its cost, until the job fits; ``decided`` jobs do not.
    1. Test first whether the job fits with all donors shrunk, on one capacity plan that is kept for
       the whole interval: most jobs that cannot fit are refused there after one attempt.
    2. Then shrink donor by donor on one copy of the plan. What is enough in sum may be too little
       on each node: for a job that waits, ``lenders`` then return to their own counts.
    3. Attempts are bounded: on a full cluster with thousands of waiting jobs the search would take
       minutes, and delay all other decisions. The remaining jobs wait for the next interval.
    """

    donors: tuple[Donor, ...]
    allocated: Mapping[str, Counts]
    decided: Mapping[str, Counts]
    attempts_left: int
    lenders: tuple[tuple[JobView, Counts], ...] = ()
    all_shrunk: CapacityPlan | None = None
    """The plan in which every donor has shrunk; ``None`` where it must be computed again."""
    shrunk: set[str] = field(default_factory=set)
    """UIDs of the donors that have shrunk in it."""

    def find(self, plan: CapacityPlan, place: Place, limits: Limits) -> Reclaimed | str:
        """Shrink donors within these limits until ``place`` succeeds; or why it does not."""
        if self.attempts_left <= 0:
            return "too many attempts to shrink other jobs; tried again in the next interval"
        if self.all_shrunk is None:
            self.all_shrunk = plan.copy()
            allocated = ((each, self.allocated[each.job.uid]) for each, _ in self.donors)
            self.shrunk = {
                donor.job.uid
                for donor, counts in (*allocated, *self.lenders)
                if self._shrink(self.all_shrunk, donor, counts)
            }
        self.attempts_left -= 1
        refusal = place(self.all_shrunk.copy())
        if refusal is not None:
            return refusal
        trial, shrunk = plan.copy(), dict[str, tuple[JobView, Counts]]()
        # Without a quota it is the nodes that refuse.
        if plan.quotas.quotas:
            refusal = place(trial)
            if refusal is None:
                return Reclaimed(trial, ())
        left, max_cost = list(self.donors), limits.max_cost
        while (found := _next(left, refusal)) is not None and self.attempts_left > 0:
            donor, cost = found[0], _cost(*found, limits)
            counts = self.allocated[donor.job.uid]
            if cost is None or max_cost - cost <= 0 or not self._shrink(trial, donor, counts):
                continue
            max_cost -= cost
            shrunk[donor.job.uid] = donor, counts
            self.attempts_left -= 1
            refusal = place(trial)
            if refusal is None:
                return Reclaimed(trial, tuple(shrunk.values()))
        if limits.waits and self._return_loans(trial, place, shrunk):
            return Reclaimed(trial, tuple(shrunk.values()))
        return refusal or "no other job can shrink"

    def _return_loans(
        self, trial: CapacityPlan, place: Place, shrunk: dict[str, tuple[JobView, Counts]]
    ) -> bool:
        """Return loans whole until ``place`` succeeds; whether it does."""
        for lender, own in self.lenders:
            if self.attempts_left > 0 and self._shrink(trial, lender, own):
                shrunk[lender.job.uid] = lender, own
                self.attempts_left -= 1
                if place(trial) is None:
                    return True
        return False

    def moved(self, job: JobView, counts: Counts) -> None:
        """Repeat the decision on a placed job in ``all_shrunk``."""
        uid, known = job.job.uid, self.all_shrunk
        stays = counts == job.job.counts and uid not in self.shrunk
        if known is None or (stays and known.is_placed(uid)):
            return
        if known.move(job.job, counts) is not None:
            self.all_shrunk = None

    def _shrink(self, plan: CapacityPlan, donor: JobView, counts: Counts) -> bool:
        if donor.job.uid in self.decided:
            return False
        self.attempts_left -= 1
        return plan.move(donor.job, counts) is None


def _next(left: list[Donor], refusal: str | None) -> Donor | None:
    """Take the next donor; while a quota refuses, of its namespace alone, which can help."""
    namespace = refusal.namespace if isinstance(refusal, QuotaRefusal) else None
    for number, each in enumerate(left):
        if namespace is None or each[0].job.key.namespace == namespace:
            return left.pop(number)
    return None


def _cost(donor: JobView, cost: float, limits: Limits) -> float | None:
    """Return what a donor's shrinking counts as; ``None`` where it does not shrink for this one."""
    if limits.waits and donor.lends:
        return 0.0
    return None if donor.cooling else cost


def is_donor(job: JobView, wanted: Counts) -> bool:
    """Return whether a job gives to others what it would change to."""
    now = job.job.counts
    if job.forced or wanted == now:
        return False
    # A job with fewer tasks releases capacity even where it is a little faster with them: by itself
    # that is not worth its restart.
    is_less = wanted.ps <= now.ps and wanted.workers <= now.workers
    if job.rescues_deadline(wanted):
        return False
    return (is_less or job.saving(wanted) <= 0) and job.why_excluded(wanted) is None


def may_return(job: JobView, own: Counts) -> bool:
    """Return whether a job can return all that it has borrowed, and no deadline needs that."""
    is_late = job.keeps_deadline(job.job.counts) and not job.keeps_deadline(own)
    return job.lends and not is_late and job.why_excluded(own) is None


def cost_of_shrinking(donor: JobView, wanted: Counts) -> float:
    """Seconds that shrinking costs the donor; 0 for a job that has met its goal, and the price of
    the rescale for one that meets its deadline with what it keeps."""
    if donor.capped:
        return math.inf
    if donor.candidate is not None and not donor.candidate.may_grow:
        return 0.0
    if donor.keeps_deadline(wanted):
        # In time all the same.
        return -donor.worth(donor.job.counts, donor.price_seconds)
    return -donor.worth(wanted, donor.price_seconds)
