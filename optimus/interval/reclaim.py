"""Room that other jobs can give, found with a bounded number of tries.

Givers shrink one after the other, those first that lose least, until what is wanted fits. 1.
Whether it fits with all of them shrunk is asked first, of one layout that is kept for the whole
interval: most of what cannot be had is refused there. 2. Then they shrink on a single trial. 3.
Every try counts, and when an interval has made its share it gives no more: whoever is left waits
for the next one, with the cluster decided for all others."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.classify import Classified
from optimus.jobs import Counts

Place = Callable[[CapacityPlan], str | None]
"""Takes the room that is wanted of a layout, or says why there is none and changes nothing."""


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """A layout in which these givers have shrunk and what is wanted has its place."""

    layout: CapacityPlan
    givers: tuple[Classified, ...]


@dataclass(slots=True)
class Reclaim:
    """``givers`` come in the order in which they give, each at its price; whoever is ``decided``
    gives no more."""

    givers: tuple[tuple[Classified, float], ...]
    allotted: Mapping[str, Counts]
    decided: Mapping[str, Counts]
    tries_left: int
    all_given: CapacityPlan | None = None
    shrunk: set[str] = field(default_factory=set)
    """Who has shrunk in ``all_given``."""

    def find(
        self, layout: CapacityPlan, place: Place, most_price: float = math.inf
    ) -> Reclaimed | str:
        """Room for what is wanted, for less than this price; or why there is none."""
        if self.tries_left <= 0:
            return "the room that others could give is looked through in the next interval"
        refusal = self._refusal_with_all(layout, place)
        if refusal is not None:
            return refusal
        trial, given = layout.copy(), list[Classified]()
        refusal = "nobody gives room"
        for giver, price in self.givers:
            most_price -= price
            if most_price <= 0 or self.tries_left <= 0:
                break
            if not self._shrink(trial, giver):
                most_price += price
                continue
            given.append(giver)
            refusal = self._tried(place, trial)
            if refusal is None:
                return Reclaimed(trial, tuple(given))
        return refusal or ""

    def moved(self, standing: Classified, counts: Counts) -> None:
        """Take note of where a job is that has a place now."""
        uid, known = standing.job.uid, self.all_given
        if known is None or (
            counts == standing.job.counts and known.is_bound(uid) and uid not in self.shrunk
        ):
            return
        if known.move(standing.job, counts) is not None:
            self.all_given = None

    def _refusal_with_all(self, layout: CapacityPlan, place: Place) -> str | None:
        if self.all_given is None:
            self.all_given = layout.copy()
            self.shrunk = {
                giver.job.uid for giver, _ in self.givers if self._shrink(self.all_given, giver)
            }
        return self._tried(place, self.all_given.copy())

    def _shrink(self, layout: CapacityPlan, giver: Classified) -> bool:
        uid = giver.job.uid
        if uid in self.decided:
            return False
        self.tries_left -= 1
        return layout.move(giver.job, self.allotted[uid]) is None

    def _tried(self, place: Place, layout: CapacityPlan) -> str | None:
        self.tries_left -= 1
        return place(layout)
