"""Fit and settle: what of an allocation is carried out, tried on the nodes.

Waiting jobs come first, then jobs whose user moved the bounds, then those that gain most. A job
that the policy makes smaller is shrunk only when somebody takes the room: for a waiting job always,
for a growing one only where the growth saves more than all restarts and slower jobs cost. What
cannot be placed is trimmed task by task."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.classify import Classified, Eligibility
from optimus.interval.config import IntervalConfig
from optimus.interval.reclaim import Reclaim, Reclaimed
from optimus.interval.trim import most_that_fits, trims
from optimus.jobs import Counts


@dataclass(slots=True)
class Settlement:
    """The decision as it grows: counts and reasons by job UID."""

    layout: CapacityPlan
    rules: IntervalConfig
    allotted: Mapping[str, Counts]
    why: Mapping[str, str]
    counts: dict[str, Counts] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    gifts: Reclaim = field(init=False)

    def __post_init__(self) -> None:
        """Nobody gives anything as long as no givers are found."""
        self.gifts = Reclaim((), self.allotted, self.counts, self.rules.most_tries)

    def find_givers(self, standings: Sequence[Classified]) -> None:
        """Jobs that the policy makes smaller, or at least no faster; those first that lose
        least."""
        giving = [(each, self._price(each)) for each in standings if self._can_give(each)]
        self.gifts.givers = tuple(
            sorted(giving, key=lambda each: (each[0].capped, each[1], each[0].job.uid))
        )

    def _can_give(self, standing: Classified) -> bool:
        uid = standing.job.uid
        allotted = self.allotted.get(uid, standing.job.counts)
        is_open = (
            standing.stance is Eligibility.OPEN
            and not standing.forced
            and standing.why_barred(allotted) is None
        )
        return is_open and allotted != standing.job.counts and self._gives_back(standing, allotted)

    def _gives_back(self, standing: Classified, allotted: Counts) -> bool:
        """Fewer of both give room, also where the job is a little faster with them: too little to
        restart for."""
        now = standing.job.counts
        is_less = allotted.ps <= now.ps and allotted.workers <= now.workers
        return is_less or self._saving(standing, allotted) <= 0

    def decide(self, standing: Classified, counts: Counts, reason: str) -> None:
        """Fix one job's counts; what its standing says comes before the reason."""
        self.counts[standing.job.uid] = counts
        if self.layout.is_bound(standing.job.uid):
            self.gifts.moved(standing, counts)
        self.reasons[standing.job.uid] = "; ".join(
            part for part in (standing.reason, reason) if part
        )

    def seat(self, standing: Classified, options: Sequence[Counts]) -> str | None:
        """Give a job the first of these counts that fits, each asking for less than the one before.

        For the last one others shrink. Says why none fits.
        """
        job = standing.job
        counts = most_that_fits(options, lambda counts: self.layout.fits(job, counts))
        if counts is not None and self.layout.move(job, counts) is None:
            self.decide(standing, counts, _seat_reason(standing, counts))
            return None
        found = self.gifts.find(self.layout, lambda layout: layout.move(job, options[-1]))
        if isinstance(found, str):
            return found
        self._accept(found, f"gives room to {job.key}, which waits for {options[-1]}")
        self.decide(standing, options[-1], _seat_reason(standing, options[-1]))
        return None

    def make_room_to_measure(self, standing: Classified, counts: Counts) -> None:
        """Keep room around a job in which its speed at other counts can be measured; others shrink
        where they can."""
        if self.layout.complete(standing.job, counts) is None:
            self.gifts.all_given = None
            return
        found = self.gifts.find(self.layout, lambda layout: layout.complete(standing.job, counts))
        if isinstance(found, Reclaimed):
            self._accept(found, f"gives room to {standing.job.key}, whose speed is to be measured")
            self.gifts.all_given = None

    def improve(self, standing: Classified) -> None:
        """Carry out what the policy gives a job, as far as it fits and is worth the restart."""
        uid, current = standing.job.uid, standing.job.counts
        wanted = self.allotted.get(uid, current)
        if wanted == current:
            self.decide(standing, current, self.why.get(uid, ""))
            return
        if standing.why_barred(wanted) is not None:
            self._improve_trimmed(
                standing, wanted, "are not tried, since pods of it found no place"
            )
            return
        if not self._worth(standing, wanted):
            self.decide(standing, current, self._not_worth(standing, wanted))
            return
        if self._improve_alone(standing, wanted) or self._improve_by_gifts(standing, wanted):
            return
        self._improve_trimmed(standing, wanted, "do not fit beside what the others keep")

    def _improve_alone(self, standing: Classified, wanted: Counts) -> bool:
        if self.layout.move(standing.job, wanted) is not None:
            return False
        self.decide(standing, wanted, self.why.get(standing.job.uid, ""))
        return True

    def _improve_by_gifts(self, standing: Classified, wanted: Counts) -> bool:
        """Shrink others for this job's growth where all of it together pays."""
        margin = self._net_saving(standing, wanted)
        found = self.gifts.find(
            self.layout, lambda layout: layout.move(standing.job, wanted), margin
        )
        if isinstance(found, str):
            return False
        self._accept(found, f"gives room to {standing.job.key}, which gains more by it")
        self.decide(standing, wanted, self.why.get(standing.job.uid, ""))
        return True

    def _improve_trimmed(self, standing: Classified, wanted: Counts, why_not: str) -> None:
        for counts in trims(standing.seconds, wanted, standing.job.counts):
            if standing.why_barred(counts) is not None:
                continue
            if not self._worth(standing, counts):
                break
            if self.layout.move(standing.job, counts) is None:
                self.decide(standing, counts, f"trimmed from {wanted}, which {why_not}")
                return
        self.decide(
            standing,
            standing.job.counts,
            f"{wanted} {why_not}, and nothing less is worth a restart",
        )

    def _accept(self, given: Reclaimed, reason: str) -> None:
        self.layout.become(given.layout)
        for giver in given.givers:
            self.decide(giver, self.allotted[giver.job.uid], reason)

    def _saving(self, standing: Classified, counts: Counts) -> float:
        now, after = standing.seconds(standing.job.counts), standing.seconds(counts)
        return 0.0 if now is None or after is None or now == after else now - after

    def _net_saving(self, standing: Classified, counts: Counts) -> float:
        """Seconds saved beyond the restart and the hysteresis."""
        now = standing.seconds(standing.job.counts) or 0.0
        saving = self._saving(standing, counts)
        margin = self.rules.rescale_seconds + self.rules.hysteresis_fraction * now
        return saving if saving == math.inf else saving - margin

    def _worth(self, standing: Classified, counts: Counts) -> bool:
        return standing.why_barred(counts) is None and self._net_saving(standing, counts) > 0

    def _price(self, giver: Classified) -> float:
        """Seconds that a giver's shrinking costs; a job at its goal has nothing left to lose."""
        if giver.capped:
            return math.inf
        if giver.candidate is not None and not giver.candidate.may_grow:
            return 0.0
        return self.rules.rescale_seconds - self._saving(giver, self.allotted[giver.job.uid])

    def _not_worth(self, standing: Classified, wanted: Counts) -> str:
        now = standing.seconds(standing.job.counts) or 0.0
        saving = self._saving(standing, wanted)
        if saving <= 0:
            return f"nobody needs what it could give back by going to {wanted}"
        return (
            f"{wanted} would save {saving:.0f} s of {now:.0f} s, not worth a restart of "
            f"{self.rules.rescale_seconds:.0f} s"
        )


def _seat_reason(standing: Classified, counts: Counts) -> str:
    if counts == standing.job.counts:
        return f"room is made for its {counts}"
    return f"there is room for {counts}" + (
        "" if standing.forced else f", not for its {standing.job.counts}"
    )
