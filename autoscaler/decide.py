"""Carries out on the cluster what the interval driver decides.

``optimus.interval.driver`` decides what begins when, here as in the simulator. This module hands it
the cluster as observed, begins the rescales and records the decisions.
"""

import dataclasses
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from autoscaler.cluster import Observation
from autoscaler.jobs.state import TrackedJob
from autoscaler.metrics import Metrics
from optimus import lifecycle
from optimus.allocation import FailedCounts, Policy, PolicyMemory
from optimus.allocation.policy import Service
from optimus.errors import NotReady
from optimus.interval import IntervalPlan, Strategies
from optimus.interval.capacity_plan import CapacityPlan, Claim, claims_of, headroom, largest_fit
from optimus.interval.decision_settings import DecisionSettings
from optimus.interval.driver import (
    BeginRescale,
    DriverConfig,
    EndProfilingRun,
    IntervalDecided,
    IntervalDriver,
    PauseJob,
)
from optimus.interval.promises import PROMISE_SECONDS
from optimus.jobs import NO_COUNTS, Binding, Counts, Job
from optimus.kube.kind_orders import encode_kind_orders
from optimus.kube.results import Refused, Written
from optimus.kube.times import format_second
from optimus.models.expectation import expect_job
from optimus.models.forecast import Forecast, ForecastFn
from optimus.nodes import Node
from optimus.placement.first_kind import KindOrders
from optimus.placement.gang import PlacementRule
from optimus.progress.types import TrainingProgress
from optimus.rescale.machine import Rescale
from optimus.rescale.words import CountsFound, PauseReason
from optimus.snapshot import ClusterSnapshot

_LOG = logging.getLogger(__name__)

CapacityFn = Callable[[Mapping[str, TrackedJob], Observation], CapacityPlan]
"""Finds what is free at an observation, less what is kept for rescales in progress."""


class ClusterMemory(Protocol):
    """Keeps what a policy remembers of the whole cluster; ``optimus.kube.leases.LeaseStore``."""

    def remembered(self) -> str | Refused:
        """Return what is stored; empty: nothing is."""

    def remember(self, text: str) -> Written | Refused:
        """Store it."""

    def order_kinds(self, text: str) -> Written | Refused:
        """Tell the extender on which kinds of nodes new jobs are to start; empty: on any."""


@dataclass(frozen=True, slots=True)
class DecisionConfig:
    """The policy, the placement rule, the forecasts and the limits by which counts are decided."""

    policy: Policy
    placement: PlacementRule
    forecast: ForecastFn
    stale_seconds: float
    """How long a rescale may wait for a checkpoint; then it is withdrawn and decided again."""

    driver: DriverConfig = field(default_factory=DriverConfig)
    hold_seconds: float = 600.0
    """How long, at most, one step of a rescale keeps other jobs from growing into its room:
    the extender holds room for as long."""

    @property
    def settings(self) -> DecisionSettings:
        """Return what answers about other decisions assume, too."""
        driver = self.driver
        return DecisionSettings(self.policy, self.placement, driver.interval, driver.expects)


@dataclass(frozen=True, slots=True)
class _Cluster:
    """The observed cluster: implements ``optimus.interval.driver.ManagedCluster``."""

    observation: Observation
    managed: Mapping[str, TrackedJob]
    hold_seconds: float

    @property
    def at(self) -> float:
        return self.observation.at

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.observation.snapshot.nodes

    @property
    def allowed(self) -> object:
        quotas = self.observation.snapshot.quotas
        return tuple((each.namespace, each.name, each.limited, each.hard) for each in quotas)

    @property
    def submitted(self) -> Iterable[Job]:
        return self.observation.snapshot.jobs

    @property
    def received(self) -> Mapping[str, Service]:
        at, managed = self.at, self.managed.items()
        return {uid: lifecycle.received_until(state.record, at) for uid, state in managed}

    def snapshot(self) -> ClusterSnapshot:
        return self.observation.snapshot

    def claims(self, snapshot: ClusterSnapshot, /) -> Iterator[Claim]:
        yield from claims_of(rescales_of(self.managed), snapshot, self.at, self.hold_seconds)
        preemptions = (state.preemption for state in self.managed.values())
        served = {each.uid for each in preemptions if each is not None}
        for job in snapshot.jobs if served else ():
            if job.uid in served and snapshot.bound_counts(job.uid) != job.counts:
                # Others are paused for it: what they leave is no other job's to grow into.
                yield Claim(job, job.counts, keeps_pods=True, is_promised=True)


def rescales_of(managed: Mapping[str, TrackedJob]) -> Iterator[tuple[Job, Rescale | None]]:
    """The rescales in progress, with their jobs."""
    return ((state.bound_job, state.rescale) for state in managed.values())


class Decider:
    """Takes the driver's steps and carries out their instructions."""

    def __init__(
        self,
        config: DecisionConfig,
        metrics: Metrics,
        *,
        dry_run: bool,
        memory: ClusterMemory | None = None,
        instance: str = "",
    ) -> None:
        """Without a ``memory`` what a policy remembers of the whole cluster ends with the process,
        and the extender is not told of kinds of nodes. ``instance`` is the Lease's holder."""
        self._config, self._metrics, self._dry_run = config, metrics, dry_run
        self._memory, self._remembers = memory, not config.policy.traits.time_shared
        self._instance = instance
        self._told_kinds: KindOrders | None = None
        """What this process stored last; an earlier leader's may be on the Lease."""
        self._alive: Callable[[], None] = lambda: None
        self._managed: Mapping[str, TrackedJob] = {}
        strategies = Strategies(
            config.policy,
            config.placement,
            self._forecast,
            expected_forecast=self._expected_forecast,
        )
        self._driver = IntervalDriver(strategies, config.driver, format_second)

    @property
    def has_pending(self) -> bool:
        """Return whether a decided rescale has not begun yet."""
        return bool(self._driver.state.pending)

    def counts_found(
        self,
        managed: Mapping[str, TrackedJob],
        observation: Observation,
        state: TrackedJob,
        most: Counts,
        at: float,
    ) -> CountsFound:
        """The most that fits of these counts, and whether the target of its rescale does."""
        job, rescale, failed = state.bound_job, state.rescale, state.record.failed_counts
        # Without what is kept for rescales that have not stopped their jobs yet: of two that wait
        # for the same room neither would begin.
        others = {
            uid: each for uid, each in managed.items() if uid != job.uid and not each.awaits_stop
        }
        cluster = _Cluster(observation, others, self._config.hold_seconds)
        plan = self._driver.headroom(cluster, job.uid)
        if rescale is None:
            return CountsFound(at, largest_fit(plan, job, most, failed))
        record = rescale.record
        if rescale.error:
            failed = (*failed, FailedCounts(record.target, record.before, rescale.error))
        found = largest_fit(plan, state.history(at).bounded(job), most, failed)
        return CountsFound(at, found, plan.fits(job, record.target))

    def free_capacity(
        self, managed: Mapping[str, TrackedJob], observation: Observation
    ) -> CapacityPlan:
        """Return what is free at an observation, less what is kept for rescales in progress."""
        snapshot, seconds = observation.snapshot, self._config.hold_seconds
        claims = tuple(claims_of(rescales_of(managed), snapshot, observation.at, seconds))
        return headroom(snapshot, self._config.placement, claims)

    def step(
        self,
        managed: Mapping[str, TrackedJob],
        observation: Observation,
        timer: float,
        *,
        decides: bool,
        alive: Callable[[], None],
    ) -> IntervalPlan | None:
        """Do all that is to be done now; returns the plan where an interval was due. ``alive`` is
        called while planning takes long."""
        self._managed, self._alive, plan = managed, alive, None
        for state in managed.values():
            self._withdraw_if_stale(state, observation.at)
            state.release_kind(observation.at, PROMISE_SECONDS)
        cluster = _Cluster(observation, managed, self._config.hold_seconds)
        began, decides = time.perf_counter(), decides and self._recall()
        for instruction in self._driver.step(cluster, timer, decides=decides):
            match instruction:
                case IntervalDecided():
                    self._metrics.planning_seconds.observe(time.perf_counter() - began)
                    if not self._keep(instruction.plan):
                        return None
                    plan = instruction.plan
                    self._tell_kinds(plan.kind_orders)
                    self._record(plan)
                case EndProfilingRun(uid=uid, reason=reason):
                    state = managed[uid]
                    state.record = replace(state.record, profiling_since=None)
                    _LOG.info("job %s: profiling run is over: %s", state.job.key, reason)
                case PauseJob():
                    if not self._dry_run:
                        _begin_pause(managed[instruction.uid], instruction, observation.at)
                case BeginRescale():
                    if not self._dry_run:
                        self._bind(managed[instruction.uid], instruction.kind)
                        _begin(managed[instruction.uid], instruction, observation.at)
        return plan

    def _recall(self) -> bool:
        """Take in what an earlier leader's policy remembered; returns whether that is known."""
        if self._remembers:
            return True
        stored = "" if self._memory is None else self._memory.remembered()
        if isinstance(stored, Refused):
            _LOG.warning("nothing is decided: what the policy remembers cannot be read: %s", stored)
            return False
        known = {
            uid: PolicyMemory(**state.record.remembered)
            for uid, state in self._managed.items()
            if state.record.remembered
        }
        name = self._config.policy.name
        self._driver.state.memory = PolicyMemory.joined(name, stored, known)
        self._remembers = True
        return True

    def _keep(self, plan: IntervalPlan) -> bool:
        """Store what the policy remembers before anything is done; of a job it is stored with its
        profile. Where that is refused the interval is planned again, on what was known."""
        memory = plan.memory
        if not self._config.policy.traits.time_shared:
            return True
        if self._memory is not None and not self._dry_run:
            outcome = self._memory.remember(memory.of_cluster().as_json())
            if isinstance(outcome, Refused):
                _LOG.warning("interval %s is not carried out: %s", plan.interval_id, outcome)
                self._driver.forget_interval()
                return False
        for uid, state in self._managed.items():
            of_job = memory.of_job(uid)
            remembered = dataclasses.asdict(of_job) if of_job.data else {}
            state.record = replace(state.record, remembered=remembered)
        return True

    def _tell_kinds(self, orders: KindOrders) -> None:
        """Tell the extender on which kinds of nodes new jobs are to start, where that has changed.
        Where that is refused it is told at the next interval."""
        if self._memory is None or self._dry_run or orders == self._told_kinds:
            return
        outcome = self._memory.order_kinds(encode_kind_orders(orders, self._instance))
        if isinstance(outcome, Refused):
            _LOG.warning("new jobs start on any kind of nodes for now: %s", outcome)
        else:
            self._told_kinds = orders

    def _withdraw_if_stale(self, state: TrackedJob, at: float) -> None:
        """Withdraw a rescale that has waited too long: its target's room is kept from others."""
        waiting = state.rescale
        stale_seconds, missed = self._config.stale_seconds, state.record.checkpoint_missed
        if waiting is None or at < waiting.withdrawn_at(stale_seconds, missed=missed):
            return
        state.withdraw_rescale(at)
        if waiting.misses_checkpoint:
            state.record = replace(state.record, checkpoint_missed=True)
        _LOG.info(
            "job %s: rescale %s waited too long for a checkpoint or capacity",
            state.job.key,
            waiting.record.id,
        )

    def _forecast(self, job: Job, progress: TrainingProgress, /) -> Forecast | NotReady:
        """The job's forecast; the one before where nothing has changed, since fits take most of an
        interval's time."""
        state = self._managed.get(job.uid)
        if state is None:
            return self._guarded(self._config.forecast, job, progress)
        if progress.earlier:
            progress = self._compared(state, progress)
        made_of = job, _without_checkpoint(progress)
        if state.forecasts.current is None or made_of != state.forecasts.made_of:
            state.forecasts.current = self._guarded(self._config.forecast, job, progress)
            state.forecasts.made_of = made_of
        return state.forecasts.current

    def _compared(self, state: TrackedJob, progress: TrainingProgress) -> TrainingProgress:
        try:
            return state.compare(progress)
        except Exception:  # noqa: BLE001 - as below; the job goes its own way
            _LOG.exception("job %s: comparing it with earlier runs failed", state.job.key)
            self._metrics.faults.labels("forecast").inc()
            return dataclasses.replace(progress, earlier=())

    def _expected_forecast(
        self, job: Job, progress: TrainingProgress, refusal: NotReady, /
    ) -> Forecast | NotReady:
        """Return what is to be expected of a job without a forecast."""
        expect = partial(expect_job, refusal=refusal)
        state = self._managed.get(job.uid)
        if state is None or state.forecasts.made_of is None:
            return self._guarded(expect, job, progress)
        if (
            state.forecasts.expected is None
            or state.forecasts.expected[0] is not state.forecasts.made_of
        ):
            state.forecasts.expected = (
                state.forecasts.made_of,
                self._guarded(expect, *state.forecasts.made_of),
            )
        return state.forecasts.expected[1]

    def _guarded(
        self, make: ForecastFn, job: Job, progress: TrainingProgress
    ) -> Forecast | NotReady:
        """A fit that fails by a fault of ours leaves its job without a forecast, and only that."""
        self._alive()
        forecast: Forecast | NotReady
        try:
            forecast = make(job, progress)
        except Exception:  # noqa: BLE001 - logged with its trace, counted, and the job's reason says so
            _LOG.exception("job %s: its forecast failed", job.key)
            self._metrics.faults.labels("forecast").inc()
            forecast = NotReady("internal error in its forecast; see the autoscaler's log")
        return forecast

    def _record(self, plan: IntervalPlan) -> None:
        self._metrics.intervals.inc()
        self._metrics.last_interval.set(plan.at)
        for decision in plan.decisions:
            self._metrics.decisions.labels(decision.action.value).inc()
            what = f"{decision.action} at {decision.current} -> {decision.counts}"
            form, key = "interval %s: job %s %s: %s", decision.key
            _LOG.info(form, plan.interval_id, key, what, decision.reason)
            state = self._managed.get(decision.uid)
            if state is not None:
                state.decision, state.interval_id = decision, plan.interval_id
                state.decided_at = plan.at
                # One that is to be moved once it is, and one under way where it is going already.
                is_moved = decision.rescales and state.gang.here
                if not is_moved and state.rescale is None:
                    self._bind(state, decision.kind)

    def _bind(self, state: TrackedJob, kind: str | None) -> None:
        """Hold the job's workers to a kind of nodes, or to none any more."""
        label = self._config.driver.kind_label
        binding = Binding(label, kind) if kind and not state.released else None
        if binding != state.record.binding:
            state.record = replace(state.record, binding=binding)


def _without_checkpoint(progress: TrainingProgress) -> TrainingProgress:
    """Return what forecasts are made from: neither checkpoints nor the times of reads."""
    return dataclasses.replace(
        progress,
        checkpoint_step=None,
        checkpoint_at=None,
        checkpoint_since=None,
        read_interval_seconds=0.0,
    )


def _begin_pause(state: TrackedJob, paused: PauseJob, at: float) -> None:
    state.begin(paused.id, at, NO_COUNTS, paused.reason, paused.purpose, PauseReason.POLICY)
    state.record = replace(state.record, profiling_since=None)
    _LOG.info("job %s: pause %s begins: %s", state.job.key, paused.id, paused.reason)


def _begin(state: TrackedJob, begun: BeginRescale, at: float) -> None:
    state.begin(begun.id, at, begun.counts, begun.reason, begun.purpose)
    state.record = replace(state.record, profiling_since=None)
    if begun.purpose.measures:
        state.record = lifecycle.profiling_began(state.record, begun.counts, begun.own_counts)
    what = f"{begun.id} from {state.job.counts} to {begun.counts}"
    _LOG.info("job %s: rescale %s begins: %s", state.job.key, what, begun.reason)
