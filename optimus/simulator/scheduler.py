"""The product's two processes on virtual time; ``optimus.interval.driver`` decides.

1. The extender: a waiting job is placed at its own counts as soon as there is room, in the
   extender's order.
2. The autoscaler: takes the driver's steps and begins the rescales that they ask for. Each is the
   state machine of ``optimus.rescale``, carried out by ``executor``; as many jobs are stopped at
   once as the disruption budget allows. What jobs of a workload have shown is kept for later ones
   (``models.earlier_runs``).

A policy that decides all counts anew is run as published: it looks at the cluster at whole rounds
alone, a new job waits for the next one, and jobs that are moved are stopped together. Where jobs
take turns, their rounds and their priorities are those of a cluster.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from optimus import lifecycle
from optimus.allocation import PolicyTraits
from optimus.allocation.policy import Service, grants
from optimus.interval import Action, IntervalPlan, Strategies
from optimus.interval.capacity_plan import CapacityPlan, Claim, claims_of
from optimus.interval.driver import (
    ROUND_SLACK,
    STALE_INTERVALS,
    BeginRescale,
    DriverConfig,
    EndProfilingRun,
    IntervalDecided,
    IntervalDriver,
    PauseJob,
)
from optimus.interval.profiling import may_be_measured
from optimus.jobs import NO_COUNTS, Job
from optimus.lifecycle.workloads import UsualLengths, provided, speeds_are_enough
from optimus.models.earlier_runs import kept, run_of, why_differs
from optimus.nodes import Node
from optimus.placement.first_kind import NO_ORDERS, KindOrders
from optimus.progress.types import EarlierRun, RunLengths
from optimus.rescale.disruption import UNLIMITED, DisruptionBudget, DisruptionLimits, rescale_order
from optimus.rescale.purpose import RescalePurpose
from optimus.rescale.words import PauseReason, RescaleRecord, Step
from optimus.simulator.cluster import SimulatedCluster, SimulatedJobState, SimulatedPhase
from optimus.simulator.executor import SimulatedExecutor, begin_rescale
from optimus.simulator.forecasts import LoggedForecast, log_forecasts
from optimus.simulator.queue import WaitingJobs
from optimus.simulator.speeds import EmptyCluster
from optimus.snapshot import ClusterSnapshot


def rounds_driver(traits: PolicyTraits) -> DriverConfig:
    """The driver's settings for a policy that decides all counts anew. One that never resizes a job
    goes by what is expected of it: a speed model needs several counts."""
    return DriverConfig(
        measures=False,
        expects=traits.reads_kinds and traits.reads_forecasts,
        pauses=True,
        stops_together=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """The product's settings; the defaults are its own."""

    driver: DriverConfig = field(default_factory=DriverConfig)

    tick_seconds: float = 2.0
    """Least seconds between two looks at the cluster."""

    look_seconds: float = 0.0
    """Least seconds between two looks of the autoscaler; the extender places a job at once.

    Default: none, it looks after every event. On a large cluster something happens all the time,
    and each look weighs a profiling run of every young job: work that grows with the square of the
    size."""

    uses_earlier_runs: bool = True
    """Whether jobs of one workload learn from one another."""

    moves: bool = True
    """Whether jobs are moved. If not, the extender alone acts: each job stays at its own counts."""

    kind_orders: KindOrders = NO_ORDERS
    """On which kinds of nodes jobs are known to be fastest before the first has come."""

    disruption: DisruptionLimits = UNLIMITED
    """How many jobs may be stopped at once. Default: any number, unlike the product's
    (``DEFAULT_LIMITS``): the published figures were measured without a limit."""


@dataclass(frozen=True, slots=True)
class _ManagedCluster:
    """The simulated cluster: implements ``optimus.interval.driver.ManagedCluster``."""

    cluster: SimulatedCluster
    managed: Mapping[str, SimulatedJobState]

    @classmethod
    def of(cls, cluster: SimulatedCluster) -> "_ManagedCluster":
        return cls(cluster, dict(cluster.states))

    @property
    def at(self) -> float:
        return self.cluster.now

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.cluster.nodes

    @property
    def allowed(self) -> object:
        return ()

    @property
    def submitted(self) -> Iterable[Job]:
        return (state.job for state in self.managed.values())

    @property
    def received(self) -> Mapping[str, Service]:
        states, now = self.managed.items(), self.at
        return {uid: lifecycle.received_until(state.record, now) for uid, state in states}

    def snapshot(self) -> ClusterSnapshot:
        return self.cluster.snapshot()

    def claims(self, snapshot: ClusterSnapshot, /) -> Iterable[Claim]:
        # The snapshot has the coming pods of jobs that are stopped.
        rescaled = ((each.job, each.rescale) for each in self.managed.values())
        return claims_of(rescaled, snapshot, self.at, math.inf)


class SimulatedScheduler:
    """Decides by the product's own code."""

    def __init__(self, config: LoopConfig, strategies: Strategies, empty: EmptyCluster) -> None:
        self.forecasts: list[LoggedForecast] = []
        self._config, self._placement, self._empty = config, strategies.placement, empty
        self._in_rounds = not strategies.policy.traits.weighs_restarts
        self._driver = IntervalDriver(strategies, config.driver)
        self._driver.state.kind_orders = config.kind_orders
        self._takes_turns = strategies.policy.traits.time_shared
        if not self._takes_turns:
            self._driver.state.planned_at = -1.0 if self._in_rounds else 0.0
        self._workloads = _Workloads()
        self._waiting = WaitingJobs(strategies.placement)
        self._looked_at, self._look_due = -math.inf, math.inf
        self._worth = dict[str, float]()
        self._free_at = 0.0

    def next_action_at(self, cluster: SimulatedCluster, before: float = math.inf) -> float:
        """Return when to act next even if nothing happens. Any instant after ``before`` stands for
        all of them."""
        if not self._config.moves:
            return math.inf
        if self._in_rounds:
            view = _ManagedCluster.of(cluster)
            due = self._driver.next_interval_at(view) if view.managed else math.inf
            return max(due, cluster.now)
        look_at = self._looked_at + self._config.look_seconds
        earliest = max(cluster.now + self._config.tick_seconds, look_at)
        if before < earliest:
            return earliest
        view = _ManagedCluster.of(cluster)
        if not view.managed:
            return math.inf
        runs = (self._run_ends_at(state, cluster.now) for state in view.managed.values())
        waits = (self._withdrawn_at(state) for state in view.managed.values())
        due = min([self._driver.next_interval_at(view), self._look_due, *runs, *waits])
        return max(due, earliest)

    def act(self, cluster: SimulatedCluster) -> None:
        """Do all that is to be done at this instant."""
        if not self._config.moves:
            self._place_waiting(cluster)
            return
        self._advance_rescales(cluster)
        if self._in_rounds:
            self._act_on_a_round(cluster)
            return
        if cluster.now < self._looked_at + self._config.look_seconds:
            self._place_waiting(cluster)
            self._look_due = self._looked_at + self._config.look_seconds
            return
        self._looked_at, self._look_due = cluster.now, math.inf
        cluster.catch_up()
        if self._config.uses_earlier_runs:
            self._workloads.update(cluster)
        self._place_waiting(cluster)
        self._skip_empty_intervals(cluster.now)
        self._step(cluster)
        self._advance_rescales(cluster)

    def _act_on_a_round(self, cluster: SimulatedCluster) -> None:
        """Step if a whole round begins now; one that began while there was no job is left out, and
        where jobs take turns the next begins with the first job."""
        seconds = self._config.driver.interval_seconds
        begun = math.floor(cluster.now / seconds + ROUND_SLACK)
        if not self._takes_turns and abs(cluster.now / seconds - begun) >= ROUND_SLACK:
            self._driver.state.planned_at = begun * seconds
        elif cluster.now >= self._driver.next_interval_at(_ManagedCluster.of(cluster)):
            cluster.catch_up()
            self._step(cluster)

    def _step(self, cluster: SimulatedCluster) -> None:
        """Take a step of the driver and carry its instructions out."""
        view, self._free_at = _ManagedCluster.of(cluster), cluster.now
        for instruction in self._driver.step(view, cluster.now):
            match instruction:
                case IntervalDecided(plan=plan):
                    self._worth = {each.uid: each.worth for each in plan.decisions}
                    self._log_forecasts(view, plan)
                    if self._in_rounds and _stops_any(view, plan):
                        self._free_at = cluster.now + cluster.leaving_seconds
                case EndProfilingRun(uid=uid):
                    state = view.managed[uid]
                    state.record = replace(state.record, profiling_since=None)
                case PauseJob() | BeginRescale():
                    self._begin(cluster, view.managed[instruction.uid], instruction)

    @property
    def _planned_at(self) -> float:
        return self._driver.state.planned_at or 0.0

    def _place_waiting(self, cluster: SimulatedCluster) -> None:
        driver = self._driver.state
        waiting = self._waiting.placements(
            cluster, driver.forecasts, self._planned_at, driver.kind_orders
        )
        for state, held in waiting:
            cluster.place(state, held)

    def _begin(
        self, cluster: SimulatedCluster, state: SimulatedJobState, begun: BeginRescale | PauseJob
    ) -> None:
        """Begin a rescale; without a budget it goes as far as it may at once."""
        if self._in_rounds and state.phase is SimulatedPhase.CLEARING:
            return  # it waits for the next round
        begin_rescale(state, _record_of(begun, state, cluster.now))
        placement = begun.placement if isinstance(begun, BeginRescale) else None
        state.record = replace(state.record, profiling_since=None)
        if isinstance(begun, BeginRescale) and begun.purpose.measures:
            state.record = lifecycle.profiling_began(state.record, begun.counts, begun.own_counts)
        if self._unlimited:
            self._executor(cluster, state).advance(placement, self._free_at)

    def _advance_rescales(self, cluster: SimulatedCluster) -> None:
        """Take all rescales as far as they go, in the product's order; withdraw what has waited too
        long."""
        moving = [
            state
            for state in cluster.states.values()
            if state.rescale is not None
            if state.awaits_stop or state.phase is not state.advanced_in
        ]
        if not moving:
            return
        jobs = [] if self._unlimited else [*cluster.states.values()]
        budget = DisruptionBudget((each.job for each in jobs), self._config.disruption)
        for each in jobs:
            budget.note(each.job, is_stopped=each.is_stopped)
        for state in sorted(moving, key=self._order):
            assert state.rescale is not None
            record = state.rescale.record
            may_stop = self._unlimited or budget.allows(state.job, record.purpose)
            self._executor(cluster, state, may_stop=may_stop).advance()
            budget.note(state.job, is_stopped=state.is_stopped)
            if cluster.now >= self._withdrawn_at(state):
                _withdraw(state, cluster.now)

    def _executor(
        self, cluster: SimulatedCluster, state: SimulatedJobState, *, may_stop: bool = True
    ) -> SimulatedExecutor:
        def headroom() -> CapacityPlan:
            view = _ManagedCluster.of(cluster)
            others = {uid: each for uid, each in view.managed.items() if not each.awaits_stop}
            others.pop(state.job.uid, None)
            return self._driver.headroom(replace(view, managed=others), state.job.uid)

        age_limit_seconds = self._config.driver.interval.profiling.trained_limit_seconds
        return SimulatedExecutor(
            cluster,
            state,
            headroom,
            None if self._in_rounds else age_limit_seconds,
            may_stop=may_stop,
        )

    @property
    def _unlimited(self) -> bool:
        """Return whether any number of jobs may be stopped at once."""
        return self._in_rounds or self._config.disruption == UNLIMITED

    def _order(self, state: SimulatedJobState) -> tuple[bool, bool, float]:
        """Those that are stopped go on first: they give back what the budget lacks."""
        assert state.rescale is not None
        record, worth = state.rescale.record, self._worth.get(state.job.uid, 0.0)
        order = rescale_order(record.purpose, record.before, record.target, worth)
        return state.awaits_stop, *order

    def _withdrawn_at(self, state: SimulatedJobState) -> float:
        """Return when a rescale that waits is withdrawn."""
        if state.rescale is None:
            return math.inf
        stale_seconds = STALE_INTERVALS * self._config.driver.interval_seconds
        return state.rescale.withdrawn_at(stale_seconds, missed=state.missed_at is not None)

    def _skip_empty_intervals(self, now: float) -> None:
        """Counts the intervals that passed while there was no job."""
        config, passed_seconds = self._config.driver, now - self._planned_at
        if passed_seconds > config.interval_seconds + config.early_interval_seconds:
            intervals = passed_seconds // config.interval_seconds
            self._driver.state.planned_at = self._planned_at + intervals * config.interval_seconds

    def _log_forecasts(self, view: _ManagedCluster, plan: IntervalPlan) -> None:
        decided = {each.uid: each.counts for each in plan.decisions}
        if self._in_rounds:
            decided = {uid: each.counts for uid, each in grants(plan.answer).items()}
        forecasts = self._driver.state.forecasts
        self.forecasts += log_forecasts(view.managed, forecasts, decided, self._empty)

    def _run_ends_at(self, state: SimulatedJobState, now: float) -> float:
        """Return when the job will have been measured at its present counts."""
        run, config = state.training.run, self._config.driver
        profiling = config.interval.profiling
        is_young = (
            config.measures
            and state.phase is SimulatedPhase.TRAINING
            and may_be_measured(state.progress(now), state.history(now), profiling)
        )
        if run is None or not (is_young or state.record.profiling_since is not None):
            return math.inf
        samples, counts = state.training.samples, state.job.counts
        steady = sum(sample.seconds for sample in samples if sample.counts == counts)
        is_new = config.expects and not state.record.profiled
        wanted = profiling.first_steady_seconds if is_new else profiling.steady_seconds
        left = wanted - steady - run.seconds
        return now + left + self._config.tick_seconds if left > 0 else math.inf


@dataclass(slots=True)
class _Workloads:
    """What the jobs of each workload have shown: on a cluster, the WorkloadProfiles."""

    runs: dict[tuple[str, str], tuple[EarlierRun, ...]] = field(default_factory=dict)
    """By namespace and workload."""

    usual: UsualLengths = field(default_factory=UsualLengths)
    of_jobs: dict[str, tuple[RunLengths, ...]] = field(default_factory=dict)
    """How long others took as each job was told when it arrived, by UID."""

    ended: int = 0
    looked_at: dict[str, object] = field(default_factory=dict)
    """What a job had shown when it was last compared with earlier runs, by UID."""

    measured: set[str] = field(default_factory=set)

    def update(self, cluster: SimulatedCluster) -> None:
        """Keep what has ended or was measured, and give it to the jobs of the same workload."""
        for state in cluster.ended[self.ended :]:
            self._keep(state, cluster.now, succeeded=True)
        self.ended = len(cluster.ended)
        self.usual.update(dict(self.runs))
        for state in cluster.states.values():
            if state.job.workload is None:
                continue
            shown = len(state.training.samples), math.floor(state.training.epochs)
            if self.looked_at.get(state.job.uid) != shown:
                self.looked_at[state.job.uid] = shown
                self._keep_measured(state, cluster.now)
                _compare(state)
            self._provide(state, cluster.now)

    def _keep(self, state: SimulatedJobState, at: float, *, succeeded: bool) -> None:
        workload = state.job.workload
        if workload is not None:
            progress = state.training.progress()
            run = run_of(
                state.job, progress, at, succeeded=succeeded, differed=bool(state.record.differs)
            )
            key = state.job.key.namespace, workload
            self.runs[key] = kept(self.runs.get(key, ()), run, at)

    def _keep_measured(self, state: SimulatedJobState, at: float) -> None:
        """Speeds help others as soon as there are enough of them for a model."""
        uid, progress = state.job.uid, state.training.progress()
        if uid not in self.measured and speeds_are_enough(state.job, progress):
            self.measured.add(uid)
            self._keep(state, at, succeeded=False)

    def _provide(self, state: SimulatedJobState, at: float) -> None:
        namespace, workload = state.job.key.namespace, state.job.workload
        lengths = self.of_jobs.get(state.job.uid)
        if lengths is None:
            lengths = self.of_jobs[state.job.uid] = self.usual.others(namespace, workload)
        runs = () if state.record.differs else self.runs.get((namespace, workload or ""), ())
        state.earlier = provided(runs, state.job, at, lengths)


def _compare(state: SimulatedJobState) -> None:
    differs = why_differs(state.job, state.progress(0.0))
    if differs is not None:
        state.record = replace(state.record, differs=differs)
        state.earlier = state.earlier.of_others


def _stops_any(view: _ManagedCluster, plan: IntervalPlan) -> bool:
    """Return whether a plan stops a job that holds nodes."""
    return any(
        view.managed[each.uid].is_placed
        for each in plan.decisions
        if each.action is Action.PAUSE or each.rescales
    )


def _record_of(
    begun: BeginRescale | PauseJob, state: SimulatedJobState, at: float
) -> RescaleRecord:
    """The record of a rescale that begins; of a pause it is one to (0, 0)."""
    target, purpose, pause = NO_COUNTS, RescalePurpose.INTERVAL, PauseReason.POLICY
    if isinstance(begun, BeginRescale):
        target, purpose, pause = begun.counts, begun.purpose, PauseReason.GOAL
    return RescaleRecord(
        begun.id,
        at,
        state.job.counts,
        target,
        begun.reason,
        Step.CHECKPOINT,
        at,
        purpose=purpose,
        pause=pause if target == NO_COUNTS else None,
    )


def _withdraw(state: SimulatedJobState, at: float) -> None:
    """End a rescale for which nothing was done to its job."""
    assert state.rescale is not None
    if state.rescale.misses_checkpoint:
        state.missed_at = at
    record = state.rescale.record
    if record.purpose.measures:
        state.record = lifecycle.not_profiled(state.record, record.target)
    state.rescale = None
