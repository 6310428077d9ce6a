"""The input of an interval, the strategies that decide it, and its plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from optimus.allocation import NO_MEMORY, JobHistory, Policy, PolicyMemory
from optimus.allocation.policy import ClusterAllocation, Service
from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.classify import Decision
from optimus.interval.node_kinds import LogFactors
from optimus.interval.worth import FOR_EVER, Loan
from optimus.jobs import Job
from optimus.models.expectation import expect_job
from optimus.models.forecast import ExpectFn, ForecastFn, forecast_job
from optimus.nodes import NODE_KIND_LABEL
from optimus.placement.first_kind import NO_ORDERS, KindOrders
from optimus.placement.gang import PlacementRule
from optimus.progress.types import TrainingProgress
from optimus.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class IntervalInput:
    """The input of an interval; progress and history by job UID, none without an entry.

    ``memory`` is what the policy kept of the interval before, ``seed`` decides what it draws."""

    snapshot: ClusterSnapshot
    progress: Mapping[str, TrainingProgress] = field(default_factory=lambda: MappingProxyType({}))
    history: Mapping[str, JobHistory] = field(default_factory=lambda: MappingProxyType({}))
    memory: PolicyMemory = NO_MEMORY
    seed: int = 0
    received: Mapping[str, Service] = field(default_factory=lambda: MappingProxyType({}))
    """What each job has received, by UID; what a job without an entry received is not recorded."""

    kind_label: str = NODE_KIND_LABEL
    """The nodes' label that tells their kind."""

    may_pause: bool = False
    """True where a running job can be paused. Without, a job that would be paused keeps its
    nodes."""

    round_seconds: float = 600.0
    """From one decision to the next of a policy by which jobs take turns."""

    arrived: tuple[Job, ...] = ()
    """The last jobs that arrived, in their order, each as it was when it was seen first."""

    kind_factors: Mapping[str, LogFactors] = field(default_factory=lambda: MappingProxyType({}))
    """What kinds of nodes made of the speed of the last jobs, by UID."""

    kind_orders: KindOrders = NO_ORDERS
    """What followed from these at the interval before."""

    interval_seconds: float = 600.0
    """Seconds from an interval to the next, if nothing brings it forward."""


@dataclass(frozen=True, slots=True)
class Strategies:
    """The interchangeable parts of a decision.

    ``expected_forecast`` is what is to be expected of a job that has no other forecast; a job of
    which nothing is changed gets its recommendation by it.
    """

    policy: Policy
    placement: PlacementRule
    forecast: ForecastFn = forecast_job
    expected_forecast: ExpectFn = expect_job


@dataclass(frozen=True, slots=True)
class IntervalPlan:
    """All decisions of one interval, those that free capacity before those that use it.

    ``at`` is the snapshot's instant; ``capacity_plan`` shows where the jobs were placed on trial.
    ``memory`` goes into the next interval; it is stored before anything is carried out.
    """

    interval_id: str
    at: float
    decisions: tuple[Decision, ...]
    capacity_plan: CapacityPlan = field(repr=False, compare=False)
    memory: PolicyMemory = NO_MEMORY
    answer: ClusterAllocation = field(
        default_factory=lambda: MappingProxyType({}), repr=False, compare=False
    )
    """The policy's, before it was fitted and settled."""

    loan: Loan = FOR_EVER
    """How long what jobs got beyond their own counts is likely to stay with them."""
    kind_factors: Mapping[str, LogFactors] = field(
        default_factory=lambda: MappingProxyType({}), repr=False, compare=False
    )
    """What kinds of nodes made of the speed of the last jobs; it goes into the next interval."""

    kind_orders: KindOrders = NO_ORDERS
    """On which kinds jobs that have not run yet are expected to be fastest; it goes there too."""
