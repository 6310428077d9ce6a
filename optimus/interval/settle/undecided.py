"""An interval before it is decided, and the question that its policy is asked."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from optimus.allocation import AllocationProblem, ClusterProblem, Policy, PolicyMemory
from optimus.allocation.policy import (
    ClusterAllocation,
    Holding,
    JobAccount,
    KindCapacity,
    PoolProblem,
    Service,
)
from optimus.errors import NotReady
from optimus.interval.capacity_plan import CapacityPlan, schedulable_capacity
from optimus.interval.classify import Eligibility, IntervalConfig, JobView
from optimus.interval.inputs import IntervalInput
from optimus.interval.node_kinds import SpeedByKind
from optimus.interval.share import Pool
from optimus.models.forecast import Forecast
from optimus.nodes import Node


@dataclass(frozen=True, slots=True)
class Undecided:
    """An interval before it is decided: what is known of every job, by UID, and the capacity."""

    inputs: IntervalInput
    policy: Policy
    config: IntervalConfig
    views: Sequence[JobView]
    plan: CapacityPlan

    @property
    def at(self) -> float:
        """The instant of the snapshot."""
        return self.inputs.snapshot.at

    def ask(
        self, problems: Iterable[tuple[Pool, AllocationProblem]]
    ) -> tuple[ClusterAllocation, PolicyMemory]:
        """The policy's answer for all pools, and its memory."""
        pools = tuple(
            PoolProblem(problem, kinds_of(pool.nodes, self.inputs.kind_label))
            for pool, problem in problems
        )
        problem = ClusterProblem(self.at, pools, self._accounts(), self.inputs.round_seconds)
        return self.policy.decide(problem, self.inputs.memory, self.inputs.seed)

    def kind_of(self, uid: str) -> str:
        """The kind of the nodes of a job's workers; "" where they have none, or are of several."""
        return self.plan.kind_of(uid, self.inputs.kind_label)

    def _accounts(self) -> Mapping[str, JobAccount]:
        names = tuple[str, ...]()
        if self.policy.traits.reads_kinds:
            names = tuple(each.kind for each in kinds_of(self.plan.nodes, self.inputs.kind_label))
        return {view.job.uid: self._account(view, names) for view in self.views}

    def _account(self, view: JobView, kinds: Sequence[str]) -> JobAccount:
        job, fairness = view.job, self.config.fairness
        return JobAccount(
            weight=1.0 if fairness is None else fairness.of_class(job),
            received=self.inputs.received.get(job.uid, Service()),
            holds=Holding(job.counts, self.kind_of(job.uid)) if view.running else None,
            progress=view.progress,
            forecasts=_by_kind(view.forecast, kinds),
        )


def charge_fixed(jobs: Sequence[JobView], plan: CapacityPlan) -> None:
    """Jobs in a rescale take the capacity of their target; suspended jobs release theirs."""
    for each in jobs:
        if each.rescaling:
            # A target that does not fit now keeps the room that its pods hold: the rescale decides
            # by itself. Its pods will be made, and charged, in any case.
            plan.move(each.job, each.counts)
            plan.quotas.charge(each.job.uid, each.counts)
        elif each.eligibility in {Eligibility.SUSPENDED, Eligibility.TO_SUSPEND}:
            plan.release(each.job.uid)


def kinds_of(nodes: Iterable[Node], label: str) -> tuple[KindCapacity, ...]:
    """The kinds of nodes, by name."""
    by_kind = dict[str, list[Node]]()
    for node in nodes:
        by_kind.setdefault(node.labels.get(label, ""), []).append(node)
    return tuple(_of_kind(kind, alike) for kind, alike in sorted(by_kind.items()))


def _of_kind(kind: str, nodes: Sequence[Node]) -> KindCapacity:
    sizes = Counter(each.allocatable for each in nodes if not each.cordoned)
    return KindCapacity(kind, len(nodes), schedulable_capacity(nodes), _price(nodes), sizes)


def _price(nodes: Sequence[Node]) -> float:
    """The mean of the prices that are labelled."""
    prices = [each.price for each in nodes if each.price is not None]
    return sum(prices) / len(prices) if prices else 1.0


def _by_kind(forecast: Forecast | NotReady, kinds: Sequence[str]) -> Mapping[str, Forecast]:
    """The forecast on each kind, where there are several and the speed tells them apart."""
    if isinstance(forecast, NotReady) or len(kinds) < 2:
        return {}
    speed = forecast.speed
    if not isinstance(speed, SpeedByKind):
        return {}
    return {kind: replace(forecast, speed=speed.on(kind)) for kind in kinds}
