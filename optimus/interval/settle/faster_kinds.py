"""Move jobs whose counts are fixed to faster kinds of nodes.

All others have what they are to have. A job may go where it is expected to save more than its
restart; the one that saves most by the objective goes first:

1. to nodes that are free, and what it leaves is free for the next;
2. else in exchange with a job that loses less, its own restart included, on another kind.
"""

import itertools
import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.classify import Eligibility, JobView
from optimus.interval.node_kinds import SPREAD, LogFactors, OnFastestKind, SpeedByKind
from optimus.interval.settle.undecided import Undecided
from optimus.interval.worth import gain_at_ratio
from optimus.jobs import Binding
from optimus.models.forecast import Forecast
from optimus.models.speed.model import SpeedModel
from optimus.placement.first_kind import has_fixed_counts

Move = tuple[str, str, str]
"""A job that goes to nodes of another kind at its own counts: its UID, the kind and the reason."""


@dataclass(frozen=True, slots=True, eq=False)
class _Movable:
    """A job whose counts are fixed."""

    job: JobView
    kinds: frozenset[str]
    """Those of its workers' nodes."""
    here: str
    """The slowest of them."""
    expected: LogFactors
    forecast: Forecast
    """On nodes of that kind."""
    spread: float
    """Standard deviation of the logarithm of the ratio of its speeds on two kinds."""

    @classmethod
    def of(cls, job: JobView, rule: OnFastestKind, plan: CapacityPlan) -> Self | None:
        """``None`` where it is not to be moved, or nothing is known of the kinds that it is on."""
        of, candidate = job.job, job.candidate
        if candidate is None or job.eligibility is not Eligibility.RESIZABLE:
            return None
        if not has_fixed_counts(of) or job.forced or job.capped or job.cooling:
            return None
        expected = rule.expected[of.uid]
        nodes = plan.nodes_of_workers(of.uid)
        kinds = frozenset(node.labels.get(rule.label, "") for node in nodes)
        if not kinds or not kinds <= expected.keys() or not rule.kinds[of.uid]:
            return None
        here = min(kinds, key=lambda kind: (expected[kind], kind))
        forecast, spread = candidate.forecast, SPREAD
        if isinstance(forecast.speed, SpeedByKind) and not isinstance(forecast.speed, SpeedModel):
            forecast, spread = replace(forecast, speed=forecast.speed.on(here)), 0.0
        return cls(job, kinds, here, expected, forecast, spread)

    @property
    def uid(self) -> str:
        """Its job's UID."""
        return self.job.job.uid

    @property
    def may_be_exchanged(self) -> bool:
        """Whether it may be made slower for another: not where it has a deadline."""
        return self.job.candidate is not None and self.job.candidate.deadline is None

    def log_ratio(self, kind: str) -> float:
        """The logarithm of the time on a kind to that where it is."""
        return self.expected[self.here] - self.expected[kind]

    def worth(self, kind: str) -> float:
        """Return what going to a kind saves beyond its price, by the objective; a loss is below
        0."""
        seconds = self.forecast.at(self.job.job.counts)
        then = seconds * math.exp(self.log_ratio(kind)) + self.job.price_seconds
        return self.job.cost(seconds) - self.job.cost(then)

    def pays(self, kind: str, least: float) -> bool:
        """Return whether it is faster there, and by enough."""
        job, ratio = self.job, (self.log_ratio(kind), self.spread)
        if ratio[0] >= 0:
            return False
        counts, price = job.job.counts, job.price_seconds
        return gain_at_ratio(self.forecast, counts, ratio, price, job.age_seconds) > least


def moves_to_faster_kinds(undecided: Undecided, jobs: Iterable[JobView]) -> Iterator[Move]:
    """The moves that are made, each on the plan; no job is moved twice."""
    plan, config = undecided.plan, undecided.config
    if not isinstance(plan.rule, OnFastestKind):
        return
    found = (_Movable.of(job, plan.rule, plan) for job in jobs)
    movable = {each.uid: each for each in found if each is not None}
    wanted = [
        (each, kind)
        for uid, each in movable.items()
        for kind in plan.rule.kinds[uid]
        if each.pays(kind, config.hysteresis_fraction)
    ]
    wanted.sort(key=lambda each: (-each[0].worth(each[1]), each[0].uid, each[1]))
    moves = _Moves(plan, plan.rule.label, movable)
    while made := next(filter(None, itertools.starmap(moves.make, wanted)), None):
        yield from made
        wanted = [each for each in wanted if each[0].uid in movable]


@dataclass(slots=True)
class _Moves:
    """Makes moves on a plan; who is moved is movable no more."""

    plan: CapacityPlan
    label: str
    movable: dict[str, _Movable]
    refused: dict[Hashable, str] = field(default_factory=dict)
    """What has found no nodes of which kind."""
    searches_left: int = 128
    """Default: for 4,000 jobs they take about a second; the next interval goes on."""

    def make(self, each: _Movable, kind: str) -> Sequence[Move]:
        """Move a job to free nodes, or in exchange with another; empty where neither is possible.

        What was refused is tried again once a job has left nodes of that kind."""
        job = each.job.job
        shape = kind, job.ps, job.worker, job.fixed, job.counts
        if shape not in self.refused:
            if self._goes(each, kind):
                return [self._made(each, kind)]
            self.refused[shape] = kind
        if (each.uid, kind) not in self.refused and self.searches_left > 0:
            self.searches_left -= 1
            other = self._exchanged(each, kind)
            if other is not None:
                by = job.key.seen_from(other[0].job.job.key.namespace)
                return [self._made(*other, f"in exchange with {by}"), self._made(each, kind)]
            self.refused[each.uid, kind] = kind
        return ()

    def _exchanged(self, each: _Movable, kind: str) -> tuple[_Movable, str] | None:
        """The job that leaves nodes of a kind to another, and the kind that it goes to itself."""
        job, worth = each.job.job, each.worth(kind)
        demand = job.demand()
        donors = [
            (other, to)
            for other in self.movable.values()
            if kind in other.kinds and other.may_be_exchanged and other is not each
            if other.job.job.priority <= job.priority and demand.fits_in(other.job.job.demand())
            for to in {each.here, other.here} - {kind}
            if worth + other.worth(to) > 0
        ]
        donors.sort(key=lambda donor: (-donor[0].worth(donor[1]), donor[0].uid, donor[1]))
        # Those first that lose least.
        for other, to in donors[:8]:
            before = self.plan.savepoint(other.uid)
            self.plan.release(other.uid)
            between = self.plan.savepoint(each.uid)
            if self._goes(each, kind):
                if self._goes(other, to):
                    return other, to
                self.plan.undo(each.uid, between)
            self.plan.undo(other.uid, before)
        return None

    def _goes(self, each: _Movable, kind: str) -> bool:
        job = each.job.job
        return self.plan.move(job.bound_to(Binding(self.label, kind)), job.counts) is None

    def _made(self, each: _Movable, kind: str, why: str = "") -> Move:
        del self.movable[each.uid]
        self.refused = {what: on for what, on in self.refused.items() if on not in each.kinds}
        times = math.exp(-each.log_ratio(kind))
        why = why or f"where it is expected to be {times:.1f} times as fast as on {each.here}"
        return each.uid, kind, f"its workers on nodes of the kind {kind}, {why}"
