"""Move jobs whose counts are fixed to faster kinds of nodes.

All others have what they are to have. A job may go to free nodes where it is expected to save more
than its restart; the one that saves most by the objective goes first.
"""

import math
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
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


@dataclass(frozen=True, slots=True, eq=False)
class _Movable:
    """A job whose counts are fixed."""

    job: JobView
    here: str
    """The slowest kind of its workers' nodes."""
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
        return cls(job, here, expected, forecast, spread)

    @property
    def uid(self) -> str:
        """Its job's UID."""
        return self.job.job.uid

    def log_ratio(self, kind: str) -> float:
        """The logarithm of the time on a kind to that where it is."""
        return self.expected[self.here] - self.expected[kind]

    def worth(self, kind: str) -> float:
        """Return what going to a kind saves beyond its price, by the objective."""
        seconds = self.forecast.at(self.job.job.counts)
        then = seconds * math.exp(self.log_ratio(kind)) + self.job.price_seconds
        return self.job.cost(seconds) - self.job.cost(then)

    def why(self, kind: str) -> str:
        """Return why it goes there."""
        times = math.exp(-self.log_ratio(kind))
        why = f"where it is expected to be {times:.1f} times as fast as on {self.here}"
        return f"its workers on nodes of the kind {kind}, {why}"

    def pays(self, kind: str, least: float) -> bool:
        """Return whether it is faster there, and by enough."""
        job, ratio = self.job, (self.log_ratio(kind), self.spread)
        if ratio[0] >= 0:
            return False
        counts, price = job.job.counts, job.price_seconds
        return gain_at_ratio(self.forecast, counts, ratio, price, job.age_seconds) > least


def moves_to_faster_kinds(
    undecided: Undecided, jobs: Iterable[JobView]
) -> Iterator[tuple[str, str, str]]:
    """The moves that are made, each on the plan: UID, kind and reason; no job is moved twice."""
    plan, config = undecided.plan, undecided.config
    if not isinstance(plan.rule, OnFastestKind):
        return
    label, kinds = plan.rule.label, plan.rule.kinds
    found = (_Movable.of(job, plan.rule, plan) for job in jobs)
    wanted = [
        (each, kind)
        for each in found
        if each is not None
        for kind in kinds[each.uid]
        if each.pays(kind, config.hysteresis_fraction)
    ]
    wanted.sort(key=lambda each: (-each[0].worth(each[1]), each[0].uid, each[1]))
    moved, refused = set[str](), set[Hashable]()
    for each, kind in wanted:
        job = each.job.job
        shape = kind, job.ps, job.worker, job.fixed, job.counts
        if each.uid in moved or shape in refused:
            continue
        if plan.move(job.bound_to(Binding(label, kind)), job.counts) is None:
            moved.add(each.uid)
            yield each.uid, kind, each.why(kind)
        else:
            refused.add(shape)
