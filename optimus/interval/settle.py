"""Fit and settle: what of an allocation is carried out, tried on the nodes.

Waiting jobs come first, then jobs whose user moved the bounds, then those that gain most. A shrink
waits until somebody takes the room: a restart for room that stays idle is a loss. For a waiting job
others always shrink, for a growing one only where the growth saves more than all restarts and
slower jobs cost. What does not fit is trimmed task by task, since room comes in pieces: the policy
knows the sum of it, only a try on the nodes tells what they hold."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.classify import Classified, Eligibility, IntervalConfig
from optimus.interval.reclaim import Reclaim, Reclaimed
from optimus.jobs import Counts


@dataclass(slots=True)
class Settlement:
    """The decisions so far: counts and reasons by job UID, tried on ``plan``."""

    plan: CapacityPlan
    config: IntervalConfig
    allocated: Mapping[str, Counts]
    policy_reasons: Mapping[str, str]
    counts: dict[str, Counts] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    reclaim: Reclaim = field(init=False)

    def __post_init__(self) -> None:
        """No job is a donor until ``find_donors``."""
        self.reclaim = Reclaim((), self.allocated, self.counts, self.config.max_attempts)

    def find_donors(self, jobs: Iterable[Classified]) -> None:
        """Jobs that the policy makes smaller, or no faster; those first that lose least."""
        jobs = [each for each in jobs if each.eligibility is Eligibility.RESIZABLE]
        for each in jobs:
            uid, current = each.job.uid, each.job.counts
            if each.candidate is not None:
                each.candidate.forecast.prefetch(current, self.allocated.get(uid, current))
        found = [(each, self._cost_of_shrinking(each)) for each in jobs if self._is_donor(each)]
        found.sort(key=lambda donor: (donor[0].capped, donor[1], donor[0].job.uid))
        self.reclaim.donors = tuple(found)

    def _is_donor(self, job: Classified) -> bool:
        now, wanted = job.job.counts, self.allocated.get(job.job.uid, job.job.counts)
        if job.forced or wanted == now:
            return False
        # Fewer of both give room also where the job is a little faster with them: too little to
        # restart for.
        is_less = wanted.ps <= now.ps and wanted.workers <= now.workers
        return (is_less or self._saving(job, wanted) <= 0) and job.why_excluded(wanted) is None

    def _cost_of_shrinking(self, donor: Classified) -> float:
        """Seconds that it costs the donor; a job at its goal has nothing left to lose."""
        if donor.capped:
            return math.inf
        if donor.candidate is not None and not donor.candidate.may_grow:
            return 0.0
        return self.config.rescale_seconds - self._saving(donor, self.allocated[donor.job.uid])

    def decide(self, job: Classified, counts: Counts, reason: str) -> None:
        """Fix one job's counts; what its classification says comes before the reason."""
        uid = job.job.uid
        self.counts[uid] = counts
        if self.plan.is_placed(uid):
            self.reclaim.moved(job, counts)
        self.reasons[uid] = "; ".join(part for part in (job.reason, reason) if part)

    def place(self, job: Classified) -> None:
        """Room for a job that waits, or has to change its counts; for its minimum others shrink."""
        allocated, minimum = self.allocated.get(job.job.uid), job.minimum
        wanted = [minimum]
        if allocated is not None and allocated != minimum:
            wanted = [allocated, *trims(job.seconds, allocated, minimum), minimum]
        options = [each for each in wanted if job.why_excluded(each) is None]
        if job.forced and not options:
            options = wanted  # its back-off is over: what its user's bounds ask for is tried again
        refusal = self._place_first(job, options) if options else job.why_excluded(minimum)
        if refusal is not None:
            why = None if allocated else self.policy_reasons.get(job.job.uid)
            self.decide(job, job.job.counts, why or refusal)

    def _place_first(self, job: Classified, options: Sequence[Counts]) -> str | None:
        """Place the first of these counts that fits, each asking for less than the one before."""
        counts = first_that_fits(options, lambda counts: self.plan.fits(job.job, counts))
        if counts is not None and self.plan.move(job.job, counts) is None:
            self.decide(job, counts, placed_reason(job, counts))
            return None
        minimum = options[-1]
        found = self.reclaim.find(self.plan, lambda plan: plan.move(job.job, minimum))
        if isinstance(found, str):
            return found
        self._accept(found, f"gives room to {job.job.key}, which waits for {minimum}")
        self.decide(job, minimum, placed_reason(job, minimum))
        return None

    def make_room_to_measure(self, job: Classified, counts: Counts) -> None:
        """Keep room around a job to measure its speed at other counts; others shrink for it."""
        if self.plan.complete(job.job, counts) is None:
            self.reclaim.all_shrunk = None
            return
        found = self.reclaim.find(self.plan, lambda plan: plan.complete(job.job, counts))
        if isinstance(found, Reclaimed):
            self._accept(found, f"gives room to {job.job.key}, whose speed is to be measured")
            self.reclaim.all_shrunk = None

    def resize(self, job: Classified) -> None:
        """Carry out a running job's allocation, as far as it fits and is worth the restart."""
        uid, current = job.job.uid, job.job.counts
        wanted = self.allocated.get(uid, current)
        policy_reason = self.policy_reasons.get(uid, "")
        if wanted == current:
            self.decide(job, current, policy_reason)
        elif job.why_excluded(wanted) is not None:
            self._resize_trimmed(job, wanted, "are not tried, since pods of it found no place")
        elif not self._is_worth_it(job, wanted):
            self.decide(job, current, self._why_not_worth_it(job, wanted))
        elif self.plan.move(job.job, wanted) is None or self._reclaim_for_growth(job, wanted):
            self.decide(job, wanted, policy_reason)
        else:
            self._resize_trimmed(job, wanted, "do not fit beside what the others keep")

    def _reclaim_for_growth(self, job: Classified, wanted: Counts) -> bool:
        """Shrink others for this job's growth where all of it together pays."""
        place, max_cost = (lambda plan: plan.move(job.job, wanted)), self._net_saving(job, wanted)
        found = self.reclaim.find(self.plan, place, max_cost)
        if isinstance(found, str):
            return False
        self._accept(found, f"gives room to {job.job.key}, which gains more by it")
        return True

    def _resize_trimmed(self, job: Classified, wanted: Counts, why_not: str) -> None:
        for counts in trims(job.seconds, wanted, job.job.counts):
            if job.why_excluded(counts) is not None:
                continue
            if not self._is_worth_it(job, counts):
                break
            if self.plan.move(job.job, counts) is None:
                self.decide(job, counts, f"trimmed from {wanted}, which {why_not}")
                return
        reason = f"{wanted} {why_not}, and nothing less is worth a restart"
        self.decide(job, job.job.counts, reason)

    def _accept(self, found: Reclaimed, reason: str) -> None:
        self.plan.adopt(found.plan)
        for donor in found.donors:
            self.decide(donor, self.allocated[donor.job.uid], reason)

    def _saving(self, job: Classified, counts: Counts) -> float:
        now, after = job.seconds(job.job.counts), job.seconds(counts)
        return 0.0 if now is None or after is None or now == after else now - after

    def _net_saving(self, job: Classified, counts: Counts) -> float:
        """Seconds saved beyond the restart and the hysteresis.

        Without the hysteresis two jobs of like gain would take each other's room in turn, on the
        noise of their forecasts, and pay a restart each time."""
        saving, now = self._saving(job, counts), job.seconds(job.job.counts) or 0.0
        if saving == math.inf:
            return saving
        return saving - self.config.rescale_seconds - self.config.hysteresis_fraction * now

    def _is_worth_it(self, job: Classified, counts: Counts) -> bool:
        return self._net_saving(job, counts) > 0 and job.why_excluded(counts) is None

    def _why_not_worth_it(self, job: Classified, wanted: Counts) -> str:
        saving, now = self._saving(job, wanted), job.seconds(job.job.counts) or 0.0
        if saving <= 0:
            return f"no other job needs the room that {wanted} would free"
        return (
            f"{wanted} would save {saving:.0f} s of {now:.0f} s, not worth a restart of "
            f"{self.config.rescale_seconds:.0f} s"
        )


def most_to_gain_first(
    jobs: Iterable[Classified], allocated: Mapping[str, Counts]
) -> list[Classified]:
    """Running jobs in the order in which they take room: forced ones, then by seconds saved."""

    def saved(job: Classified) -> float:
        after = allocated.get(job.job.uid, job.job.counts)
        if after == job.job.counts:
            return 0.0
        now_seconds, after_seconds = job.seconds(job.job.counts), job.seconds(after)
        if now_seconds is None or after_seconds is None or now_seconds == after_seconds:
            return 0.0
        return now_seconds - after_seconds

    resizable = [each for each in jobs if each.eligibility is Eligibility.RESIZABLE]
    return sorted(resizable, key=lambda each: (not each.forced, -saved(each), each.job.uid))


def placed_reason(job: Classified, counts: Counts) -> str:
    """Why a waiting job gets these counts."""
    if counts == job.job.counts:
        return f"room is made for its {counts}"
    return f"there is room for {counts}" + ("" if job.forced else f", not for its {job.job.counts}")


def trims(
    seconds: Callable[[Counts], float | None], wanted: Counts, goal: Counts
) -> Iterator[Counts]:
    """The counts between wanted and goal, one task at a time, the least useful first."""
    counts = wanted
    while counts != goal:
        nearer = []
        if counts.ps != goal.ps:
            nearer.append(Counts(counts.ps + (1 if goal.ps > counts.ps else -1), counts.workers))
        if counts.workers != goal.workers:
            step = 1 if goal.workers > counts.workers else -1
            nearer.append(Counts(counts.ps, counts.workers + step))
        counts = min(nearer, key=lambda each: (seconds(each), each))
        if counts != goal:
            yield counts


def first_that_fits(options: Sequence[Counts], fits: Callable[[Counts], bool]) -> Counts | None:
    """Bisects for the first option that fits; each asks for less than the one before."""
    first = bisect_left(options, True, key=fits)
    return options[first] if first < len(options) else None
