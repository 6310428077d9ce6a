"""The loop around ``plan_interval``: what is decided when, and what begins when.

One step, at any instant:
1. Where an interval is due, decide all counts and make at most one exploratory move. It is due
   after ``interval_seconds``, or earlier where something has changed that is worth it. A policy
   that decides all counts anew is asked once in each whole round of that length.
2. Begin the decided rescales whose capacity is free: shrink first, then grow. Drop stale ones.
   Where all that move are stopped together, as published, they begin at once instead.
3. End the profiling runs that have measured enough and begin the next ones.
The caller asks ``optimus.rescale`` when a rescale that has begun may stop its job.
The driver reads no clock and does no I/O. Its instructions are values, and the caller (the
autoscaler on a cluster, the simulator on virtual time) carries each out before it asks for the
next.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Final, NamedTuple, Protocol

from numpy.random import SeedSequence

from optimus.allocation import NO_HISTORY, NO_MEMORY, JobHistory, PolicyMemory
from optimus.allocation.namespace_shares import Owed
from optimus.allocation.policy import Service
from optimus.errors import NotReady
from optimus.interval import (
    Action,
    Decision,
    IntervalConfig,
    IntervalInput,
    IntervalPlan,
    Strategies,
    plan_interval,
)
from optimus.interval.capacity_plan import CapacityPlan, Claim, Held, headroom, reserve
from optimus.interval.classify import Recommendation, trained_seconds, why_in_time
from optimus.interval.node_kinds import LogFactors
from optimus.interval.profiling import (
    Expected,
    MeasuredJobs,
    ProfilingMove,
    has_place,
    is_admission,
    is_first_measured,
    is_too_old,
    may_be_measured,
    may_skip_checkpoint,
    plan_exploration,
    plan_profiling,
    return_counts,
    run_is_over,
    why_not_profiled,
)
from optimus.interval.worth import FOR_EVER, Loan, last_arrived, training_at_risk
from optimus.jobs import NO_COUNTS, AmountGoal, Binding, Counts, Goal, Job
from optimus.models.forecast import Forecast, ForecastFn, goal_is_met
from optimus.nodes import NODE_KIND_LABEL, Node, label_keys, what_is_offered
from optimus.placement.first_kind import NO_ORDERS, KindOrders
from optimus.progress.types import TrainingProgress
from optimus.rescale.purpose import RescalePurpose, why_unwanted
from optimus.resources import NONE
from optimus.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverConfig:
    """When intervals and profiling runs begin."""

    interval: IntervalConfig = field(default_factory=IntervalConfig)

    interval_seconds: float = 600.0
    """Seconds between two intervals. Default: the paper's 10 minutes."""

    early_interval_seconds: float = 60.0
    """Least seconds between two intervals when something has changed."""

    young_interval_seconds: float = 20.0
    """The same when a young job came or was measured, on a cluster of at most 100 managed jobs; a
    fifth of a second more for each further one. Default: what a job trains at counts that nobody
    has chosen is lost, and the price of an interval grows with the jobs."""

    measures: bool = True
    """Whether speeds are measured, by profiling runs and exploratory moves."""

    expects: bool = True
    """Whether a job without a forecast is decided by what is to be expected of it."""

    pauses: bool = False
    """Whether jobs can be paused. Without, a job that would be paused keeps its nodes."""

    stops_together: bool = False
    """Whether all jobs that an interval of a policy moves that decides anew are stopped at once, as
    the published policies are run. Without, each is stopped or resumed only once its target fits,
    and none is stopped for nothing."""

    seed: int = 0
    """What a policy draws at random follows from this and from the number of the interval."""

    kind_label: str = NODE_KIND_LABEL
    """The nodes' label that tells their kind."""


class ManagedJob(Protocol):
    """One managed job as its caller keeps it."""

    @property
    def job(self) -> Job:
        """The job as it is now."""

    def progress(self, at: float, /) -> TrainingProgress:
        """The progress of its training, from its log."""

    def history(self, at: float, /) -> JobHistory:
        """Its rescales and profiling runs so far, those of this step included."""


class ManagedCluster(Protocol):
    """The input of a step. It reflects the instructions that were carried out."""

    @property
    def at(self) -> float:
        """The instant, in seconds."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes."""

    @property
    def allowed(self) -> object:
        """What the quotas allow: another value where one was changed."""

    @property
    def submitted(self) -> Iterable[Job]:
        """All jobs, managed or not."""

    @property
    def managed(self) -> Mapping[str, ManagedJob]:
        """The managed jobs, by UID."""

    @property
    def received(self) -> Mapping[str, Service]:
        """What jobs have received, by UID, as far as that is recorded."""

    def snapshot(self) -> ClusterSnapshot:
        """The cluster as it is."""

    def claims(self, snapshot: ClusterSnapshot, /) -> Iterable[Claim]:
        """The capacity kept for rescales in progress, beyond that of their pods."""


@dataclass(frozen=True, slots=True)
class IntervalDecided:
    """An interval was decided; its rescales begin by instructions of their own."""

    plan: IntervalPlan


@dataclass(frozen=True, slots=True)
class EndProfilingRun:
    """A profiling run is over; the job continues at its counts."""

    uid: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginRescale:
    """Begin to move a job to these counts; (0, 0) suspends it for good.

    ``placement`` is where its replicas fit now, or once all that is stopped with it has left;
    ``None`` where the job only frees capacity, or its pods are to wait for some. ``kind`` is that
    of the nodes that it is bound to, ``None`` for any. ``own_counts``: those to remember as the
    user's, of a job that is moved to be measured.
    """

    uid: str
    id: str
    purpose: RescalePurpose
    counts: Counts
    reason: str
    placement: tuple[Held, ...] | None = None
    own_counts: Counts | None = None
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class PauseJob:
    """Stop a job until it is granted something again. ``id`` is the interval's."""

    uid: str
    id: str
    reason: str
    purpose: RescalePurpose = RescalePurpose.INTERVAL


_Histories = dict[str, JobHistory]


class _Trigger(NamedTuple):
    """What causes an early interval when it changes."""

    cluster: object
    readiness: Mapping[str, object]
    """Of each managed job, by UID."""


Instruction = IntervalDecided | EndProfilingRun | BeginRescale | PauseJob

PROMISE_SECONDS: Final = 600.0
"""How long at most the room that was found for a job is kept from the growth of others until its
pods are placed: something else may keep them from it."""

UNPLACEABLE_SECONDS: Final = 3600.0
"""How long nothing is done for a job of which no pod was placed for ``PROMISE_SECONDS`` although
all of them fit."""

_STOPS: Final = frozenset({Action.SUSPEND, Action.PAUSE})
"""After which a job holds no capacity."""

ROUND_SLACK: Final = 1e-9
"""Part of a round by which its beginning may be missed by rounding."""

ROUND_PRICES: Final = 10
"""Length of a round in which jobs take turns, as a multiple of what a restart costs."""

ROUND_PARTS: Final = 0.6, 2.4
"""The least and the most length of such a round, in intervals: 360 and 1,440 s by default."""

_SECONDS_OF_JOB: Final = 0.2
"""Least seconds between two intervals for each managed job."""

QUEUE_INTERVALS: Final = 2
"""After so many intervals a paused job that is to run is resumed although it does not fit: its pods
wait in the queue of the extender, where those of other jobs have taken what became free."""

STALE_INTERVALS: Final = 3
"""After so many intervals a rescale that could not stop its job is withdrawn and decided again: all
the while its target's room is kept from others."""


@dataclass(frozen=True, slots=True)
class PendingRescale:
    """A decision that has not begun, and the job as it was decided on."""

    interval_id: str
    decision: Decision
    job: Job


@dataclass(slots=True)
class DriverState:
    """The state of a driver between steps.

    ``planned_at`` is when the last interval was planned, by the caller's timer; ``planned_for``
    what it was planned on, to see whether something has changed. ``forecasts`` are its forecasts by
    UID; ``awaiting_forecast`` the UIDs of jobs that were left where they were measured for one
    interval more. ``memory`` is the policy's.
    """

    intervals: int = 0
    planned_at: float | None = None
    began_at: float | None = None
    """When the first interval could have been planned, by the caller's timer."""

    planned_for: object = None
    pending: dict[str, PendingRescale] = field(default_factory=dict)
    forecasts: dict[str, Forecast | NotReady] = field(default_factory=dict)
    awaiting_forecast: set[str] = field(default_factory=set)
    memory: PolicyMemory = NO_MEMORY
    arrived: tuple[Job, ...] = ()
    """The last jobs that arrived, in their order, each as it was when it was seen first."""

    loan: Loan = FOR_EVER
    """How long loans lasted by the last interval."""

    kind_factors: Mapping[str, LogFactors] = field(default_factory=dict)
    """What kinds of nodes made of the speed of the last jobs, by UID."""

    kind_orders: KindOrders = NO_ORDERS
    """On which kinds jobs that have not run yet are expected to be fastest."""

    owed: Owed = field(default_factory=Owed)
    """What namespaces have used less than their part, where jobs are paused."""

    promised: dict[str, tuple[Counts, float]] = field(default_factory=dict)
    """By job that waits for its pods to be placed, the counts that the last interval found room
    for, and when one first did."""

    swapping: frozenset[str] = frozenset()
    """The UIDs of jobs that change nodes with each other in this interval."""

    resuming: dict[str, int] = field(default_factory=dict)
    """By paused job that is to run and has not begun to, the first interval that said so."""

    fitting: dict[str, tuple[Counts, float]] = field(default_factory=dict)
    """By job without a placed pod, its counts, and since when they fit on what is free."""


class IntervalDriver:
    """Decides what begins when. ``state`` is all of its memory; ``format_instant`` writes an
    instant into the ids of intervals and rescales."""

    def __init__(
        self,
        strategies: Strategies,
        config: DriverConfig,
        format_instant: Callable[[float], str] = "{:.0f}".format,
    ) -> None:
        self.state = DriverState()
        self._strategies, self._config = strategies, config
        self._format_instant = format_instant
        self._offered: tuple[tuple[Node, ...], object] | None = None
        self._goals: dict[str, tuple[object, bool]] = {}
        """By job: what its goal was judged on since the last interval, and whether it is met."""

    def step(
        self, cluster: ManagedCluster, timer: float, *, decides: bool = True
    ) -> Iterator[Instruction]:
        """All that is to be done now, one by one; ``timer`` is in seconds and never set back.

        A step that does not decide only begins what was decided before.
        """
        histories = _histories(cluster)
        for instruction in self._phases(cluster, timer, histories, decides=decides):
            yield instruction
            if not isinstance(instruction, IntervalDecided):
                uid = instruction.uid
                histories[uid] = cluster.managed[uid].history(cluster.at)

    def _phases(
        self, cluster: ManagedCluster, timer: float, histories: _Histories, *, decides: bool
    ) -> Iterator[Instruction]:
        # 1. Decide all counts, where an interval is due
        if decides and self._is_due(cluster, timer, histories):
            self.state.planned_at = timer
            yield from self._decide(cluster, histories)
        # 2. Begin what was decided and has its capacity
        if self.state.pending:
            yield from self._begin_pending(cluster, histories)
        # 3. End the measurements that are done, and begin the next
        if decides:
            yield from self._end_runs(cluster, histories)
        if decides and self._config.measures:
            yield from self._profile(cluster, histories)

    def next_interval_at(self, cluster: ManagedCluster) -> float:
        """Return when the next interval is due by the caller's timer, if nothing else changes."""
        config, planned_at = self._config, self.state.planned_at
        if planned_at is None:
            return -math.inf
        if not self._weighs_restarts:
            if self._strategies.policy.traits.time_shared:
                return planned_at + self._round_seconds(_histories(cluster))
            return (self._round(planned_at) + 1) * config.interval_seconds
        return planned_at + self._wait_seconds(cluster, _histories(cluster))

    def forget_interval(self) -> None:
        """The interval that was just decided is not carried out: it is decided again at once."""
        self.state.pending, self.state.planned_at = {}, None

    @property
    def _takes_turns(self) -> bool:
        """Whether jobs take turns, and each turn costs a restart."""
        return self._strategies.policy.traits.time_shared and not self._config.stops_together

    @property
    def _turn(self) -> RescalePurpose:
        """What a pause or a resume is for."""
        return RescalePurpose.TURN if self._takes_turns else RescalePurpose.INTERVAL

    def _round_seconds(self, histories: Mapping[str, JobHistory]) -> float:
        """Of rounds in which jobs take turns: so long that restarts take a tenth of the time, by
        what they have cost."""
        config = self._config
        prices = [price for each in histories.values() for price in each.prices]
        price_seconds = median(prices) if prices else config.interval.rescale_seconds
        least, most = (part * config.interval_seconds for part in ROUND_PARTS)
        return min(max(ROUND_PRICES * price_seconds, least), most)

    @property
    def _weighs_restarts(self) -> bool:
        return self._strategies.policy.traits.weighs_restarts

    def _round(self, timer: float) -> int:
        """The number of the whole round that an instant is in."""
        return math.floor(timer / self._config.interval_seconds + ROUND_SLACK)

    def _is_due(self, cluster: ManagedCluster, timer: float, histories: _Histories) -> bool:
        config, planned_at = self._config, self.state.planned_at
        if planned_at is None:
            return self._takes_over(timer, histories)
        passed = timer - planned_at
        if self._strategies.policy.traits.time_shared:
            return passed >= self._round_seconds(histories) * (1 - ROUND_SLACK)
        if not self._weighs_restarts:
            return self._round(timer) > self._round(planned_at)
        if passed >= config.interval_seconds:
            return True
        if passed < min(config.young_interval_seconds, config.early_interval_seconds):
            return False
        return passed >= self._wait_seconds(cluster, histories)

    def _takes_over(self, timer: float, histories: _Histories) -> bool:
        """Whether the first interval is due: turns that an earlier leader has begun end first, for
        a round at most, as a job that stops or starts takes no part in the next."""
        if self.state.began_at is None:
            self.state.began_at = timer
        is_moving = any(each.rescaling_to is not None for each in histories.values())
        waits = is_moving and self._takes_turns
        return not waits or timer - self.state.began_at >= self._config.interval_seconds

    def _wait_seconds(self, cluster: ManagedCluster, histories: _Histories) -> float:
        """How long after the last interval the next one is due, as far as is known by now."""
        config, planned_for = self._config, self.state.planned_for
        trigger = self._early_interval_trigger(cluster, histories)
        if trigger == planned_for:
            return config.interval_seconds
        early = config.early_interval_seconds
        young = max(config.young_interval_seconds, _SECONDS_OF_JOB * len(histories))
        if young >= early or not isinstance(planned_for, _Trigger):
            return early
        limit = config.interval.profiling.trained_limit_seconds
        changed = (
            uid
            for uid, readiness in trigger.readiness.items()
            if readiness != planned_for.readiness.get(uid)
        )
        is_young = any(
            trained_seconds(cluster.managed[uid].progress(cluster.at), histories[uid]) < limit
            for uid in changed
        )
        return young if is_young else early

    def _early_interval_trigger(self, cluster: ManagedCluster, histories: _Histories) -> "_Trigger":
        """What causes an early interval when it changes: the capacity of nodes and which jobs they
        admit, quotas, jobs, what their users ask for, and which of them have been measured, have
        met their goal or may be moved again."""

        def is_suspended(job: Job) -> bool:
            history = histories.get(job.uid, NO_HISTORY)
            return job.suspended and history.rescaling_to is None

        jobs = tuple(
            (job.uid, job.bounds, job.goal, job.finish_by, is_suspended(job))
            for job in cluster.submitted
        )
        readiness = {
            uid: (
                self._is_measured(cluster, uid, history),
                self._goal_met(cluster, uid),
                history.awaits_checkpoint,
                history.held,
                history.placement_failures[-1:],
            )
            for uid, history in histories.items()
        }
        offer = self._offer(cluster.nodes, cluster.submitted)
        return _Trigger((offer, cluster.allowed, jobs), readiness)

    def _is_measured(self, cluster: ManagedCluster, uid: str, history: JobHistory) -> bool:
        """Whether the job's speed was measured where it is, as far as that is worth an interval."""
        if _is_measured(history):
            return True
        managed, profiling = cluster.managed[uid], self._config.interval.profiling
        if not self._config.expects or history.profiled or history.rescales:
            return False
        return is_first_measured(managed.job, managed.progress(cluster.at), history, profiling)

    def _offer(self, nodes: tuple[Node, ...], jobs: Iterable[Job]) -> object:
        """What the nodes offer to these jobs; worked out again only where a node has changed."""
        if self._offered is None or self._offered[0] != nodes:
            self._offered = nodes, what_is_offered(nodes, label_keys(jobs))
        return self._offered[1]

    def _goal_met(self, cluster: ManagedCluster, uid: str) -> bool:
        """Return whether the goal was met at the last interval, or is met by now."""
        forecast = self.state.forecasts.get(uid)
        if not isinstance(forecast, NotReady | None) and forecast.goal_met:
            return True
        goal, progress = cluster.managed[uid].job.goal, cluster.managed[uid].progress(cluster.at)
        if goal is None:
            return False
        judged_on = _judged_on(goal, progress)
        known = self._goals.get(uid)
        if known is None or known[0] != judged_on:
            # A threshold takes milliseconds to judge: not at every tick.
            known = self._goals[uid] = judged_on, goal_is_met(goal, progress)
        return known[1]

    def _decide(self, cluster: ManagedCluster, histories: _Histories) -> Iterator[Instruction]:
        state = self.state
        state.intervals += 1
        state.swapping = frozenset()
        self._offered = None  # jobs may ask for other labels by now
        self._goals.clear()
        progress = {uid: each.progress(cluster.at) for uid, each in cluster.managed.items()}
        waited = {
            uid: replace(histories[uid], forecast_awaited=True)
            for uid in state.awaiting_forecast & histories.keys()
        }
        unplaceable = {
            uid: replace(histories.get(uid, NO_HISTORY), unplaceable=True)
            for uid in self._unplaceable(cluster, histories)
        }
        forecasts = state.forecasts = dict[str, Forecast | NotReady]()

        def forecast(job: Job, known: TrainingProgress, /) -> Forecast | NotReady:
            if job.uid not in forecasts:
                advised = job.uid in histories and histories[job.uid].recommends
                forecasts[job.uid] = self._forecast(job, known, expects=advised)
            return forecasts[job.uid]

        state.arrived = _arrived(state.arrived, cluster.submitted)
        plan = self._plan(
            f"{self._format_instant(cluster.at)}-{state.intervals}",
            IntervalInput(
                cluster.snapshot(),
                progress,
                {**histories, **waited, **unplaceable},
                state.memory,
                seed=int(SeedSequence((self._config.seed, state.intervals)).generate_state(1)[0]),
                received=cluster.received,
                kind_label=self._config.kind_label,
                may_pause=self._config.pauses,
                round_seconds=self._round_seconds(histories),
                owed=state.owed,
                arrived=state.arrived,
                kind_factors=state.kind_factors,
                kind_orders=state.kind_orders,
                interval_seconds=self._config.interval_seconds,
            ),
            forecast,
        )
        # As it is stored: plain data, which a restarted process could read.
        memory = PolicyMemory.from_json(plan.memory.as_json())
        memory = memory.beside(state.memory, histories.keys() - plan.answer.keys())
        plan = replace(plan, memory=memory)
        if self._takes_turns and state.planned_at is not None:
            # A new leader goes on with the round that has begun, which ends when it would have.
            begun_at = memory.of_cluster().data.get("cluster", {}).get("round_at", cluster.at)
            state.planned_at -= cluster.at - begun_at
        state.owed, state.loan = plan.owed, plan.loan
        state.kind_factors, state.kind_orders = plan.kind_factors, plan.kind_orders
        if self._stops_together:
            yield IntervalDecided(plan)
            state.memory = memory
            yield from _begin_together(plan)
            return
        state.awaiting_forecast = {each.uid for each in plan.decisions if each.awaits_forecast}
        snapshot = cluster.snapshot()
        state.pending = {
            each.uid: PendingRescale(plan.interval_id, each, cluster.managed[each.uid].job)
            for each in plan.decisions
            if each.uid in histories
            if each.action in _STOPS or (each.rescales and not _stays(each, snapshot))
        }
        resumes = {each.uid for each in plan.decisions if each.action is Action.RESUME}
        state.resuming = {uid: state.resuming.get(uid, state.intervals) for uid in resumes}
        state.promised = self._promised(cluster, plan)
        yield IntervalDecided(plan)
        state.memory = memory
        if self._config.measures:
            yield from self._explore(cluster, MeasuredJobs(progress, histories), plan.interval_id)
        state.planned_for = self._early_interval_trigger(cluster, histories)

    @property
    def _stops_together(self) -> bool:
        """Whether all jobs that an interval moves are stopped before any of them starts."""
        return self._config.stops_together and not self._weighs_restarts

    def _promised(
        self, cluster: ManagedCluster, plan: IntervalPlan
    ) -> dict[str, tuple[Counts, float]]:
        """The jobs that wait for nodes and have room in the plan, free or about to be released."""
        snapshot, placed, known = cluster.snapshot(), plan.capacity_plan, self.state.promised
        decided = {each.uid: each.counts for each in plan.decisions}
        waiting = (
            (job.uid, decided.get(job.uid, job.counts))
            for job in snapshot.jobs
            if not job.suspended and snapshot.bound_counts(job.uid) != job.counts
        )
        return {
            uid: (counts, known[uid][1] if uid in known else cluster.at)
            for uid, counts in waiting
            if placed.is_placed(uid)
        }

    def _unplaceable(self, cluster: ManagedCluster, histories: _Histories) -> set[str]:
        """The jobs that something else than room keeps from being placed, such as a scheduling gate
        or a volume that is missing: else others would stay small for them for ever."""
        snapshot, at = cluster.snapshot(), cluster.at
        before, fitting = self.state.fitting, dict[str, tuple[Counts, float]]()
        waiting = [
            job
            for job in snapshot.jobs
            if job.uid in self.state.promised or job.uid in before
            if not job.suspended and not any(snapshot.bound_counts(job.uid))
            if histories.get(job.uid, NO_HISTORY).rescaling_to is None
        ]
        if waiting:
            free = CapacityPlan.of(snapshot, self._strategies.placement, leaving_counts=True)
        for job in waiting:
            counts, since = before.get(job.uid, (job.counts, at))
            if counts != job.counts or at - since >= PROMISE_SECONDS + UNPLACEABLE_SECONDS:
                since = at
            if at - since >= PROMISE_SECONDS or free.fits(job, job.counts):
                fitting[job.uid] = job.counts, since
        self.state.fitting = fitting
        return {uid for uid, (_, since) in fitting.items() if at - since >= PROMISE_SECONDS}

    def _forecast(
        self, job: Job, progress: TrainingProgress, *, expects: bool = False
    ) -> Forecast | NotReady:
        """The job's forecast, else what is to be expected of it: where jobs are decided by that,
        or (``expects``) where nothing is changed and it is only said."""
        found = self._strategies.forecast(job, progress)
        if isinstance(found, Forecast) or not (expects or self._config.expects):
            return found
        expected = self._strategies.expected_forecast(job, progress, found)
        return found if isinstance(expected, NotReady) else expected

    def _plan(self, interval_id: str, inputs: IntervalInput, forecast: ForecastFn) -> IntervalPlan:
        """The interval's plan; a second one says what is recommended for jobs that are not
        changed, as if they were."""
        strategies, config = replace(self._strategies, forecast=forecast), self._config.interval
        plan = plan_interval(interval_id, inputs, strategies, config)
        advised = {uid for uid, each in inputs.history.items() if each.recommends}
        if not advised:
            return plan
        history = {
            uid: replace(each, held="") if uid in advised else each
            for uid, each in inputs.history.items()
        }
        other = plan_interval(interval_id, replace(inputs, history=history), strategies, config)
        recommended = {
            each.uid: _recommendation(
                each,
                self.state.forecasts.get(each.uid),
                config.price_seconds(history[each.uid]),
            )
            for each in other.decisions
            if each.uid in advised
        }
        decisions = (
            replace(each, recommended=recommended.get(each.uid)) for each in plan.decisions
        )
        return replace(plan, decisions=tuple(decisions))

    def _begin_pending(
        self, cluster: ManagedCluster, histories: _Histories
    ) -> Iterator[BeginRescale | PauseJob]:
        """Begin what has its capacity: what shrinks has it, what grows once others gave it up."""
        free, pending = self._headroom(cluster, histories), self.state.pending
        snapshot = cluster.snapshot()
        for uid, each in list(pending.items()):
            if uid not in histories or _is_stale(each, cluster.managed[uid].job, histories[uid]):
                del pending[uid]
                continue
            decision, managed = each.decision, cluster.managed[uid]
            if decision.action is Action.PAUSE:
                del pending[uid]
                yield PauseJob(uid, each.interval_id, decision.reason, self._turn)
                continue
            suspends = decision.action is Action.SUSPEND
            runs = any(snapshot.bound_counts(uid))
            purpose = self._purpose(cluster, decision, histories[uid], runs=runs)
            if purpose.measures and not self._has_place(cluster, histories):
                continue
            binding = None if decision.kind is None else self._binding(decision.kind)
            job = managed.job.bound_to(binding)
            placement = None if suspends else reserve(free, job, decision.counts)
            if placement is None and not (suspends or self._goes_to_the_queue(uid)):
                continue  # one that shrinks, too: a node on which it runs may take no new pods
            del pending[uid]
            own_counts = histories[uid].own_counts or managed.job.counts
            yield BeginRescale(
                uid=uid,
                id=purpose.id_of(each.interval_id),
                purpose=purpose,
                counts=NO_COUNTS if suspends else decision.counts,
                reason=decision.reason,
                placement=placement,
                own_counts=own_counts if purpose.measures else None,
                kind=decision.kind,
            )
        yield from self._swap(cluster, histories, free)

    def _swap(
        self, cluster: ManagedCluster, histories: _Histories, free: CapacityPlan
    ) -> Iterator[BeginRescale]:
        """Where jobs wait for each other's nodes, and nothing else is on its way that could make
        room, they are stopped at once, and what each leaves is kept for another."""
        if any(each.rescaling_to is not None for each in histories.values()):
            return
        pending = self.state.pending
        moving = {
            uid: cluster.managed[uid].job.bound_to(self._binding(each.decision.kind))
            for uid, each in pending.items()
            if each.decision.kind is not None and not histories[uid].paused
        }
        while moving:
            plan = free.copy()
            for uid in moving:
                plan.release(uid)
            unplaced = [
                uid
                for uid, job in moving.items()
                if plan.assign(job, pending[uid].decision.counts) is not None
            ]
            moving = {uid: job for uid, job in moving.items() if uid not in unplaced}
            if not unplaced:
                break
        self.state.swapping = frozenset(moving)
        for uid in moving:
            each = pending.pop(uid)
            yield BeginRescale(
                uid=uid,
                id=self._turn.id_of(each.interval_id),
                purpose=self._turn,
                counts=each.decision.counts,
                reason=each.decision.reason,
                placement=plan.held[uid],
                kind=each.decision.kind,
            )

    def _binding(self, kind: str) -> Binding | None:
        """Return what holds a job to the kind of nodes that it is granted, if these have one."""
        return Binding(self._config.kind_label, kind) if kind else None

    def _goes_to_the_queue(self, uid: str) -> bool:
        """Return whether a paused job has waited for capacity long enough."""
        intervals = self.state.intervals
        return intervals - self.state.resuming.get(uid, intervals) >= QUEUE_INTERVALS

    def _has_place(self, cluster: ManagedCluster, histories: _Histories) -> bool:
        return has_place(cluster.snapshot(), histories, self._config.interval.profiling)

    def _purpose(
        self, cluster: ManagedCluster, decision: Decision, history: JobHistory, *, runs: bool
    ) -> RescalePurpose:
        """Return what the rescale that an interval decided is for."""
        if decision.action is Action.SUSPEND:
            return RescalePurpose.INTERVAL
        if decision.action is Action.RESUME or self._turn is RescalePurpose.TURN:
            return self._turn
        managed, profiling = cluster.managed[decision.uid], self._config.interval.profiling
        progress = managed.progress(cluster.at)
        if decision.is_expected:
            # What it gives to others measures nothing that it needs.
            gains = runs and decision.saves_seconds > 0
            measures = gains and may_be_measured(progress, history, profiling)
            return RescalePurpose.PROFILING if measures else RescalePurpose.INTERVAL
        if may_skip_checkpoint(managed.job, history, progress, cluster.at, profiling):
            return RescalePurpose.AFTER_PROFILING
        is_first = is_admission(history, progress, profiling)
        return RescalePurpose.ADMISSION if is_first else RescalePurpose.INTERVAL

    def _end_runs(
        self, cluster: ManagedCluster, histories: _Histories
    ) -> Iterator[EndProfilingRun]:
        for uid, history in list(histories.items()):
            if history.profiling_since is None or history.rescaling_to is not None:
                continue
            managed, config = cluster.managed[uid], self._config.interval.profiling
            measured = MeasuredJobs({uid: managed.progress(cluster.at)}, histories)
            reason = run_is_over(managed.job, cluster.at, measured, config)
            if reason is not None:
                yield EndProfilingRun(uid, reason)

    def _profile(self, cluster: ManagedCluster, histories: _Histories) -> Iterator[BeginRescale]:
        """Begin the next profiling runs. Of thousands of jobs that are too old nothing but their
        history and trained time is looked at."""
        profiling = self._config.interval.profiling
        progress = {
            uid: cluster.managed[uid].progress(cluster.at)
            for uid, history in histories.items()
            if len(history.profiled) < profiling.runs
        }
        measurable = [
            cluster.managed[uid].job
            for uid, each in progress.items()
            if not is_too_old(each, histories[uid], profiling)
            and histories[uid].rescaling_to is None
        ]
        if not measurable:
            return
        snapshot, measured = cluster.snapshot(), MeasuredJobs(progress, histories)
        if all(
            why_not_profiled(job, snapshot, measured, profiling) is not None for job in measurable
        ):
            return
        free = self._headroom(cluster, histories, measures=True)
        for move in plan_profiling(
            snapshot, measured, free, profiling, partial(self._expected, at=cluster.at)
        ):
            run = f"{self._format_instant(cluster.at)}-{len(histories[move.uid].profiled) + 1}"
            yield from self._measure(cluster, move, free, RescalePurpose.PROFILING, run)

    def _expected(
        self, job: Job, progress: TrainingProgress, history: JobHistory, at: float
    ) -> Expected | NotReady | None:
        """What a measurement of a job is weighed by, or why none is made; ``None``: by nothing."""
        if not self._config.expects:
            return None
        forecast, config = self._forecast(job, progress), self._config.interval
        if isinstance(forecast, NotReady):
            return forecast
        own = history.user_counts
        in_time = why_in_time(job, forecast, at) if job.counts == own else None
        if in_time is not None:
            return in_time
        price_seconds = config.price_seconds(history) + training_at_risk(history, progress, at)
        lasts_seconds = self.state.loan.mean_seconds
        return Expected(forecast, price_seconds, config.hysteresis_fraction, lasts_seconds)

    def _explore(
        self, cluster: ManagedCluster, measured: MeasuredJobs, interval_id: str
    ) -> Iterator[BeginRescale]:
        free = self._headroom(cluster, measured.history, measures=True)
        config = self._config.interval
        move = plan_exploration(
            cluster.snapshot(),
            measured,
            free,
            config,
            partial(self._expected, at=cluster.at),
            self.state.intervals,
        )
        if move is not None and move.uid not in self.state.pending:
            yield from self._measure(cluster, move, free, RescalePurpose.EXPLORATION, interval_id)

    def _measure(
        self,
        cluster: ManagedCluster,
        move: ProfilingMove,
        free: CapacityPlan,
        purpose: RescalePurpose,
        name: str,
    ) -> Iterator[BeginRescale]:
        managed = cluster.managed[move.uid]
        placement = reserve(free, managed.job, move.counts)
        if placement is None:
            return
        self.state.pending.pop(move.uid, None)
        yield BeginRescale(
            uid=move.uid,
            id=purpose.id_of(name),
            purpose=purpose,
            counts=move.counts,
            reason=move.reason,
            placement=placement,
            own_counts=managed.history(cluster.at).own_counts or managed.job.counts,
        )

    def headroom(self, cluster: ManagedCluster, besides: str) -> CapacityPlan:
        """The capacity that is free now for one job: what its own leaving pods take counts, and
        all that jobs hold with which it changes nodes; nothing is kept for it."""
        plan = self._headroom(cluster, _histories(cluster), besides)
        swapping = self.state.swapping if besides in self.state.swapping else frozenset[str]()
        for pod in cluster.snapshot().pods:
            uid = "" if pod.replica is None else pod.replica.job_uid
            if uid in swapping or (pod.leaving and uid == besides):
                plan.take(pod.node, NONE - pod.resources)
        return plan

    def _headroom(
        self,
        cluster: ManagedCluster,
        histories: Mapping[str, JobHistory],
        besides: str = "",
        *,
        measures: bool = False,
    ) -> CapacityPlan:
        """The capacity that is free now for rescales that begin; with ``measures`` for those that
        only measure a speed: what decided ones wait for is kept from them."""
        snapshot = cluster.snapshot()
        returns = [
            claim
            for uid, history in histories.items()
            if (claim := self._return_claim(cluster.managed[uid].job, history)) is not None
        ]
        promises = self._promise_claims(cluster, snapshot, histories, besides)
        decided = [
            Claim(cluster.managed[uid].job, each.decision.counts)
            for uid, each in (self.state.pending if measures else {}).items()
            if uid in histories and each.decision.action not in _STOPS
        ]
        claims = [*cluster.claims(snapshot), *promises, *returns, *decided]
        return headroom(snapshot, self._strategies.placement, claims)

    def _promise_claims(
        self,
        cluster: ManagedCluster,
        snapshot: ClusterSnapshot,
        histories: Mapping[str, JobHistory],
        besides: str,
    ) -> Iterator[Claim]:
        """The room of jobs that wait for nodes: others were made smaller for them."""
        jobs = {job.uid: job for job in snapshot.jobs} if self.state.promised else {}
        for uid, (counts, since) in self.state.promised.items():
            job, history = jobs.get(uid), histories.get(uid, NO_HISTORY)
            if job is None or job.suspended or history.rescaling_to is not None or uid == besides:
                continue
            is_placed = snapshot.bound_counts(uid) == job.counts
            if not is_placed and cluster.at - since < PROMISE_SECONDS:
                yield Claim(job, counts, keeps_pods=True, is_promised=True)

    def _return_claim(self, job: Job, history: JobHistory) -> Claim | None:
        """The room in which a job that is measured may return to its user's counts, as long as
        there is no forecast by which to choose others."""
        counts = return_counts(job, history)
        has_forecast = not isinstance(self.state.forecasts.get(job.uid), NotReady | None)
        if counts is None or has_forecast or history.rescaling_to is not None:
            return None
        larger = Counts(max(counts.ps, job.counts.ps), max(counts.workers, job.counts.workers))
        return Claim(job, larger, keeps_pods=True)


def _arrived(known: Sequence[Job], submitted: Iterable[Job]) -> tuple[Job, ...]:
    """The last jobs that arrived, those that have ended meanwhile, too."""
    first_seen = {job.uid: job for job in known}
    now = {job.uid: first_seen.get(job.uid, job) for job in submitted}
    return last_arrived({**first_seen, **now}.values())


def _begin_together(plan: IntervalPlan) -> Iterator[Instruction]:
    """Stop all jobs that a plan pauses or moves; those that it moves start where it placed them."""
    for each in plan.decisions:
        if each.action is Action.PAUSE:
            yield PauseJob(each.uid, plan.interval_id, each.reason)
        elif each.action is Action.SUSPEND:
            yield BeginRescale(
                uid=each.uid,
                id=plan.interval_id,
                purpose=RescalePurpose.INTERVAL,
                counts=NO_COUNTS,
                reason=each.reason,
            )
        elif each.rescales and each.uid in plan.capacity_plan.held:
            yield BeginRescale(
                uid=each.uid,
                id=plan.interval_id,
                purpose=RescalePurpose.INTERVAL,
                counts=each.counts,
                reason=each.reason,
                placement=plan.capacity_plan.held[each.uid],
                kind=each.kind,
            )


def _recommendation(
    decision: Decision, forecast: Forecast | NotReady | None, price_seconds: float
) -> Recommendation:
    """Return what a decision would have been, with the forecast by which it was made."""
    what = Recommendation(decision.current, decision.counts, decision.action, decision.reason)
    if not isinstance(forecast, Forecast) or forecast.goal_met or not what.changes:
        return what
    return replace(
        what,
        seconds_now=forecast.at(decision.current),
        seconds_then=forecast.at(decision.counts),
        price_seconds=price_seconds,
        expected=forecast.is_expected,
    )


def _judged_on(goal: Goal, progress: TrainingProgress) -> object:
    """Equal for two states of a training between which nothing was logged that may meet the
    goal."""
    if isinstance(goal, AmountGoal):
        return goal, progress.epoch, progress.step
    losses, metrics = progress.losses, progress.metrics
    newest = [each.points[-1:] for each in metrics]
    return goal, len(losses), losses[-1:], [len(each.points) for each in metrics], newest


def _stays(decision: Decision, snapshot: ClusterSnapshot) -> bool:
    """Return whether the job runs as decided, though the plan has it on other nodes."""
    counts = decision.counts
    is_same = decision.current == counts and decision.kind is None
    return is_same and snapshot.bound_counts(decision.uid) == counts


def _is_stale(pending: PendingRescale, job: Job, history: JobHistory) -> bool:
    """Return whether what was decided is not to be done any more."""
    decision = pending.decision
    counts = NO_COUNTS if decision.action is Action.SUSPEND else decision.counts
    is_busy = history.rescaling_to is not None or history.is_ending
    if is_busy or history.awaits_checkpoint or history.held:
        return True
    goal_changed = job.goal != pending.job.goal
    unwanted = why_unwanted(job, counts, goal_changed=goal_changed) is not None
    return job.counts != decision.current or unwanted


def _is_measured(history: JobHistory) -> bool:
    return (
        bool(history.profiled) and history.profiling_since is None and history.rescaling_to is None
    )


def _histories(cluster: ManagedCluster) -> _Histories:
    return {uid: each.history(cluster.at) for uid, each in cluster.managed.items()}
