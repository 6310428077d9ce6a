"""On which kind of nodes the workers of a job that is moved are placed first.

What a kind of nodes makes of a job's speed is a factor in the job's speed model, of which only the
quotients mean something. Over the last jobs that were measured on several kinds, log factor = that
of the job + that of the kind + chance. A job goes on the kind on which it is expected to be fastest
and which has capacity, where kinds differ by more than chance.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, Self, runtime_checkable

from optimus.errors import NotReady
from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.classify import JobView
from optimus.jobs import Binding, Counts, Job
from optimus.models.forecast import Speed
from optimus.models.speed.model import SpeedModel
from optimus.placement.capacity import Capacity
from optimus.placement.first_kind import KindOrders
from optimus.placement.gang import (
    Assignment,
    DoesNotFit,
    Gang,
    Placement,
    PlacementRule,
    job_does_not_fit,
)


@runtime_checkable
class SpeedByKind(Protocol):
    """A speed that tells kinds of nodes apart."""

    def on(self, kind: str, /) -> Speed:
        """The speed with all workers on nodes of this kind."""


LogFactors = Mapping[str, float]
"""By kind of nodes, the logarithm of its factor on one job's speed."""

SPREAD: Final = 0.3
"""Standard deviation of a log factor around what is usual for its kind, that of its measurement
included. Default: the prior of a factor in the speed model."""

_OWN_WEIGHT: Final = 0.5
"""The weight of what was measured of a job itself beside what is usual. Default: both have about
the same spread."""

_NONE: Final[LogFactors] = {}


@dataclass(frozen=True, slots=True)
class OnFastestKind:
    """A placement rule that tries a job's kinds of nodes in their order, and then any nodes."""

    rule: PlacementRule
    label: str
    kinds: Mapping[str, Sequence[str]]
    """For each job UID, the fastest first."""
    kept: frozenset[str]
    """The UIDs of jobs that go on none but these."""
    expected: Mapping[str, LogFactors]
    """Of each job on each of its kinds, by UID."""

    def place(self, gang: Gang, capacity: Capacity) -> Placement | DoesNotFit:
        """As the rule: where pods are bound, the others go near them."""
        return self.rule.place(gang, capacity)

    def place_job(self, job: Job, counts: Counts, capacity: Capacity) -> Assignment | DoesNotFit:
        """With all workers on nodes of the first kind that holds them, else anywhere; on one that
        the workers are bound to already."""
        if self.label in dict(job.worker.constraints.selector):
            return self.rule.place_job(job, counts, capacity)
        for kind in self.kinds.get(job.uid, ()):
            bound = job.bound_to(Binding(self.label, kind))
            found = self.rule.place_job(bound, counts, capacity)
            if not isinstance(found, DoesNotFit):
                return found
        if job.uid in self.kept:
            return job_does_not_fit(job, counts)
        return self.rule.place_job(job, counts, capacity)

    @classmethod
    def of(
        cls,
        plan: CapacityPlan,
        label: str,
        factors: Mapping[str, LogFactors],
        usual: "UsualFactors",
        views: Iterable[JobView],
    ) -> Self:
        """By the factors of the last jobs. A job that runs is moved to no slower kind than its
        own, unless it has lost pods or its nodes take no new ones."""
        kinds, kept, expected = dict[str, Sequence[str]](), set[str](), dict[str, LogFactors]()
        for view in views:
            uid = view.job.uid
            expected[uid] = usual.expected(factors.get(uid, _NONE), _own_weight(view))
            order = usual.order(factors.get(uid, _NONE), _own_weight(view))
            now = "" if view.incomplete else plan.kind_of(uid, label, schedulable=True)
            if now in order:
                order = order[: order.index(now) + 1]
                kept.add(uid)
            kinds[uid] = order
        return cls(plan.rule, label, kinds, frozenset(kept), expected)


@dataclass(frozen=True, slots=True)
class UsualFactors:
    """The log factor that is usual for each kind, and how many jobs were measured there."""

    logs: LogFactors
    jobs: Mapping[str, int]

    @classmethod
    def of(cls, jobs: Sequence[LogFactors]) -> Self:
        """Fitted to jobs that were measured on several kinds."""
        logs = {kind: 0.0 for each in jobs for kind in each}
        counts = {kind: sum(kind in each for each in jobs) for kind in logs}
        for _ in range(20):
            own = [_of_job(each, logs) for each in jobs]
            for kind, count in counts.items():
                pairs = zip(jobs, own, strict=True)
                total = sum(each[kind] - base for each, base in pairs if kind in each)
                # A kind counts for as fast as the others with the weight of half a job.
                logs[kind] = total / (count + 0.5)
        return cls(logs, counts)

    def order(self, own: LogFactors, weight: float = _OWN_WEIGHT) -> tuple[str, ...]:
        """The kinds for a job with these factors, the fastest first; none where the first and the
        last differ by no more than twice what chance explains."""
        expected = self.expected(own, weight)
        kinds = sorted(expected, key=lambda kind: (-expected[kind], kind))
        if len(kinds) < 2:
            return ()
        first, last = kinds[0], kinds[-1]
        chance = SPREAD * math.sqrt(1 / self.jobs[first] + 1 / self.jobs[last])
        return tuple(kinds) if expected[first] - expected[last] > 2 * chance else ()

    def expected(self, own: LogFactors, weight: float) -> LogFactors:
        """The log factors that are expected of a job with these, at their weight beside what is
        usual."""
        base = _of_job(own, self.logs) if own else 0.0
        return {
            kind: usual + weight * (own.get(kind, usual + base) - base - usual)
            for kind, usual in self.logs.items()
        }

    def orders(
        self,
        label: str,
        before: KindOrders,
        factors: Mapping[str, LogFactors],
        views: Iterable[JobView],
    ) -> KindOrders:
        """The orders for jobs that have not run yet: the usual one, and those of the last
        workloads whose jobs have shown another one themselves."""
        usual, workloads = self.order(_NONE), dict(before.workloads)
        for job in (view.job for view in views):
            own = factors.get(job.uid)
            if own and job.workload:
                key = job.key.namespace, job.workload
                workloads.pop(key, None)
                workloads[key] = self.order(own)
        kept = {
            key: kinds
            for key, kinds in workloads.items()
            if kinds != usual and self.logs.keys() >= {*kinds}
        }
        return KindOrders(label, usual, dict([*kept.items()][-32:]))


def _own_weight(view: JobView) -> float:
    """All where speeds on all kinds are known and not measured."""
    forecast = view.forecast
    is_measured = isinstance(forecast, NotReady) or isinstance(forecast.speed, SpeedModel)
    return _OWN_WEIGHT if is_measured else 1.0


def _of_job(own: LogFactors, usual: LogFactors) -> float:
    """Return what a job's log factors have in common."""
    return sum(log - usual[kind] for kind, log in own.items()) / len(own)


def measured_factors(
    before: Mapping[str, LogFactors], views: Iterable[JobView], kinds: Collection[str]
) -> Mapping[str, LogFactors]:
    """The factors of the last jobs that were measured on several of these kinds, by UID."""
    now = {view.job.uid: own for view in views if len(own := _factors(view, kinds)) > 1}
    left = {uid: each for uid, each in before.items() if uid not in now and set(each) <= set(kinds)}
    return dict([*left.items(), *now.items()][-64:])


def _factors(view: JobView, kinds: Collection[str]) -> LogFactors:
    forecast = view.forecast
    if isinstance(forecast, NotReady) or not isinstance(forecast.speed, SpeedByKind):
        return _NONE
    known: Mapping[str, float]
    if isinstance(forecast.speed, SpeedModel):
        known = forecast.speed.nodes.factors  # of kinds that were measured
    else:
        counts = view.job.counts
        known = {
            kind: float(forecast.speed.on(kind).steps_per_second(counts.ps, counts.workers))
            for kind in kinds
        }
    return {
        kind: round(math.log(known[kind]), 2)
        for kind in sorted(known)
        if kind in kinds and known[kind] > 0
    }
