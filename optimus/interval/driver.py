"""The loop around ``plan_interval``: what is decided when, and what begins when.

One step, at any instant:
1. Where an interval is due, decide all counts and make at most one exploratory move. It is due
   after ``interval_seconds``, or earlier where something has changed that is worth it.
2. Begin the decided rescales whose capacity is free: shrink first, then grow. Drop stale ones.
3. End the profiling runs that have measured enough and begin the next ones.
How many of the rescales that have begun may stop their jobs at once says ``DisruptionBudget``; the
caller asks it right before it stops one.
The driver reads no clock and does no I/O. Its instructions are values, and the caller (the
autoscaler on a cluster, the simulator on virtual time) carries each out before it asks for the
next.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Protocol, Self

from optimus.allocation import NO_HISTORY, NO_MEMORY, JobHistory, PolicyMemory
from optimus.allocation.problem import is_forced
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
from optimus.interval.classify import Recommendation
from optimus.interval.profiling import (
    Expected,
    MeasuredJobs,
    ProfilingMove,
    has_place,
    is_admission,
    is_first_measured,
    may_be_measured,
    may_skip_checkpoint,
    plan_exploration,
    plan_profiling,
    return_counts,
    run_is_over,
    trained_seconds,
    why_not_profiled,
)
from optimus.jobs import NO_COUNTS, AmountGoal, AtTarget, Counts, Goal, Job, Manage, RescaleRule
from optimus.models.forecast import Forecast, ForecastFn, goal_is_met
from optimus.nodes import Node, label_keys, what_is_offered
from optimus.progress.types import TrainingProgress
from optimus.resources import NONE
from optimus.snapshot import ClusterSnapshot


class RescalePurpose(StrEnum):
    """What a rescale is for.

    ``after-profiling`` ends the profiling of a job whose log shows no checkpoints, ``admission`` is
    the first one of a new job whose speed is known from earlier runs of its workload, ``take-back``
    stops and resumes a gang of which only a part was placed, ``restart`` one whose replicas were
    changed while it ran, ``straggler`` one of which a worker is far slower than the others,
    ``recovery`` ends a suspension of which nothing else is recorded.
    """

    INTERVAL = "interval"
    PROFILING = "profiling"
    EXPLORATION = "exploration"
    AFTER_PROFILING = "after-profiling"
    ADMISSION = "admission"
    TAKE_BACK = "take-back"
    RESTART = "restart"
    STRAGGLER = "straggler"
    RECOVERY = "recovery"

    def id_of(self, interval_id: str) -> str:
        """The id of a rescale, as written in the job's annotation; it begins with the purpose."""
        return interval_id if self is RescalePurpose.INTERVAL else f"{self}-{interval_id}"

    @property
    def measures(self) -> bool:
        """Whether the job is moved only to measure its speed."""
        return self in {RescalePurpose.PROFILING, RescalePurpose.EXPLORATION}

    @property
    def is_urgent(self) -> bool:
        """Whether the job is lost or stays stopped without it: no budget holds it back."""
        return self in {
            RescalePurpose.TAKE_BACK,
            RescalePurpose.RESTART,
            RescalePurpose.RECOVERY,
        }

    @property
    def is_chosen(self) -> bool:
        """Whether it is made for speed: it counts against the rate of a job's rescales. Profiling
        runs have a limit of their own."""
        return self in {
            RescalePurpose.INTERVAL,
            RescalePurpose.EXPLORATION,
            RescalePurpose.AFTER_PROFILING,
            RescalePurpose.ADMISSION,
            RescalePurpose.STRAGGLER,
        }

    @property
    def needs_checkpoint(self) -> bool:
        """Whether ``rescale: checkpoint`` applies: not where little or no training is lost, as
        profiling is limited to a job's first minutes, or where all of it may be lost."""
        return self not in {
            RescalePurpose.PROFILING,
            RescalePurpose.AFTER_PROFILING,
            RescalePurpose.ADMISSION,
            RescalePurpose.TAKE_BACK,
            RescalePurpose.RESTART,
        }


FRESH_CHECKPOINT_SECONDS: Final = 30.0
"""Age up to which a checkpoint is recent enough to stop a job: the training since is lost. Default:
a few log polls."""

SEEN_CHECKPOINT_SECONDS: Final = 90.0
"""How long after a job's checkpoint was seen an interval may begin to move it: the least time
between two intervals, and a few reads of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverConfig:
    """When intervals and profiling runs begin."""

    interval: IntervalConfig = field(default_factory=IntervalConfig)

    interval_seconds: float = 600.0
    """Seconds between two intervals. Default: the paper's 10 minutes."""

    early_interval_seconds: float = 60.0
    """Least seconds between two intervals when something has changed."""

    measures: bool = True
    """Whether speeds are measured, by profiling runs and exploratory moves."""

    early_after_each_run: bool = False
    """Whether each single measurement brings an interval forward: the end of any profiling run and
    the begin of an exploratory move. By default only the end of a job's last run does."""

    expects: bool = True
    """Whether a job without a forecast is decided by what is to be expected of it."""


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

    ``placement`` is where its replicas fit now, ``None`` where the job only frees capacity.
    ``own_counts``: those to remember as the user's, of a job that is moved to be measured.
    """

    uid: str
    id: str
    purpose: RescalePurpose
    counts: Counts
    reason: str
    placement: tuple[Held, ...] | None = None
    own_counts: Counts | None = None


@dataclass(frozen=True, slots=True)
class Limit:
    """A number of jobs, or a percentage of them, of which there is always at least one."""

    number: int | None = None
    percent: float | None = None

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """From a setting such as ``4`` or ``25%``; ``None`` where it is neither."""
        figure = text.removesuffix("%")
        if not (figure.isascii() and figure.isdigit() and 0 < int(figure) < 1_000_000):
            return None
        return cls(percent=float(figure)) if text.endswith("%") else cls(number=int(figure))

    def __str__(self) -> str:
        if self.number is not None:
            return str(self.number)
        return "no limit" if self.percent is None else f"{self.percent:g}%"

    def of(self, jobs: int) -> float:
        """The limit as a number, for this many jobs."""
        if self.number is not None:
            return self.number
        return math.inf if self.percent is None else math.ceil(jobs * self.percent / 100)


NO_LIMIT: Final = Limit()


@dataclass(frozen=True, slots=True)
class DisruptionLimits:
    """How many managed jobs may be stopped for rescales at once."""

    cluster: Limit = NO_LIMIT
    namespace: Limit = NO_LIMIT


UNLIMITED: Final = DisruptionLimits()

DEFAULT_LIMITS: Final = DisruptionLimits(Limit(percent=25.0), Limit(percent=50.0))
"""Of ``--max-stopped`` and ``--max-stopped-per-namespace``."""


_MOST_STOPPED_SECONDS: Final = 600.0
"""Of stopped jobs beyond a namespace's part. Default: as long as one job may be stopped before it
counts as stuck."""


class DisruptionBudget:
    """Which rescales may stop their jobs now; those that are stopped are noted first.

    A job counts from its suspension until all its pods have started. The budget is asked right
    before the suspension, in ``rescale_order``: a rescale that still waits for something else holds
    back no other. A job that is stuck counts in its own namespace alone: that its pods do not end
    may be its user's doing, and would hold back all others for ever. So do all jobs of a namespace
    of which jobs have been stopped for too long (``StoppedTime``)."""

    def __init__(
        self, jobs: Iterable[Job], limits: DisruptionLimits, over: Collection[str] = ()
    ) -> None:
        """``jobs`` are all managed jobs; ``over`` namespaces that have used too much."""
        self._limits, self._over = limits, over
        self._jobs = Counter(job.key.namespace for job in jobs)
        self._stopped = dict[str, str]()
        self._stuck = set[str]()

    def note(self, job: Job, *, is_stopped: bool, is_stuck: bool = False) -> None:
        """Take in whether a job is stopped for a rescale, and for too long."""
        self._stopped.pop(job.uid, None)
        self._stuck.discard(job.uid)
        if is_stopped:
            self._stopped[job.uid] = job.key.namespace
        if is_stopped and is_stuck:
            self._stuck.add(job.uid)

    def allows(self, job: Job, purpose: RescalePurpose) -> bool:
        """Whether this job may be stopped now for a rescale of this purpose."""
        if purpose.is_urgent or job.uid in self._stopped:
            return True
        namespace, limits = job.key.namespace, self._limits
        in_namespace = sum(each == namespace for each in self._stopped.values())
        in_cluster = sum(
            uid not in self._stuck and (name == namespace or name not in self._over)
            for uid, name in self._stopped.items()
        )
        return in_cluster < limits.cluster.of(
            self._jobs.total()
        ) and in_namespace < limits.namespace.of(self._jobs[namespace])


class StoppedTime:
    """For how long the jobs of each namespace have been stopped: a leaky bucket for each. Time is
    an argument, in seconds.

    A namespace whose jobs do not start again, as their pods do not end, their users delete them and
    make them anew, or suspend them whenever they run, would hold the cluster's budget for ever. One
    that has used more than its part of it for long holds back only itself."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}
        """Seconds of stopped jobs beyond the part."""
        self._noted_at: float | None = None

    def note(self, stopped: Mapping[str, int], part: float, at: float) -> frozenset[str]:
        """So many jobs of each namespace are stopped now; returns the namespaces that have used too
        much. ``part`` is what a namespace may have stopped all the time: the cluster's limit,
        divided by the namespaces."""
        passed = 0.0 if self._noted_at is None else max(at - self._noted_at, 0.0)
        self._noted_at = at
        found = {
            name: self._spent.get(name, 0.0) + (stopped.get(name, 0) - part) * passed
            for name in {*self._spent, *stopped}
        }
        self._spent = {name: seconds for name, seconds in found.items() if seconds > 0}
        most_seconds = _MOST_STOPPED_SECONDS * max(part, 1.0)
        return frozenset(name for name, seconds in self._spent.items() if seconds > most_seconds)


def rescale_order(
    purpose: RescalePurpose, before: Counts, target: Counts, worth: float
) -> tuple[bool, float]:
    """The order in which jobs are stopped: those that release capacity, then the largest gain."""
    releases = is_forced(before, target) and purpose is not RescalePurpose.STRAGGLER
    return not releases, -worth


_Histories = dict[str, JobHistory]

Instruction = IntervalDecided | EndProfilingRun | BeginRescale

PROMISE_SECONDS: Final = 600.0
"""How long at most the room that was found for a job is kept from the growth of others until its
pods are placed: something else may keep them from it."""

UNPLACEABLE_SECONDS: Final = 3600.0
"""How long nothing is done for a job of which no pod was placed for ``PROMISE_SECONDS`` although
all of them fit."""

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
    planned_for: object = None
    pending: dict[str, PendingRescale] = field(default_factory=dict)
    forecasts: dict[str, Forecast | NotReady] = field(default_factory=dict)
    awaiting_forecast: set[str] = field(default_factory=set)
    memory: PolicyMemory = NO_MEMORY
    promised: dict[str, tuple[Counts, float]] = field(default_factory=dict)
    """By job that waits for its pods to be placed, the counts that the last interval found room
    for, and when one first did."""

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

    def has_changed(self, cluster: ManagedCluster) -> bool:
        """Whether something has changed since the last interval that is worth an early one."""
        return self._early_interval_trigger(cluster, _histories(cluster)) != self.state.planned_for

    def _phases(
        self, cluster: ManagedCluster, timer: float, histories: _Histories, *, decides: bool
    ) -> Iterator[Instruction]:
        config = self._config
        if decides and config.early_after_each_run:
            yield from self._end_runs(cluster, histories)
        if decides and self._is_due(cluster, timer, histories):
            self.state.planned_at = timer
            yield from self._decide(cluster, histories)
        if self.state.pending:
            yield from self._begin_pending(cluster, histories)
        if decides and not config.early_after_each_run:
            yield from self._end_runs(cluster, histories)
        if decides and config.measures:
            yield from self._profile(cluster, histories)

    def _is_due(self, cluster: ManagedCluster, timer: float, histories: _Histories) -> bool:
        config, planned_at = self._config, self.state.planned_at
        if planned_at is None or timer - planned_at >= config.interval_seconds:
            return True
        if timer - planned_at < config.early_interval_seconds:
            return False
        return self._early_interval_trigger(cluster, histories) != self.state.planned_for

    def _early_interval_trigger(self, cluster: ManagedCluster, histories: _Histories) -> object:
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
        readiness = tuple(
            (
                uid,
                self._is_measured(cluster, uid, history),
                self._goal_met(cluster, uid),
                history.awaits_checkpoint,
                history.held,
                history.placement_failures[-1:],
            )
            for uid, history in histories.items()
        )
        offer = self._offer(cluster.nodes, cluster.submitted)
        return offer, cluster.allowed, jobs, readiness

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
        """Whether the goal was met at the last interval, or is met by now."""
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

        plan = self._plan(
            f"{self._format_instant(cluster.at)}-{state.intervals}",
            IntervalInput(
                cluster.snapshot(),
                progress,
                {**histories, **waited, **unplaceable},
                state.memory,
                seed=state.intervals,
            ),
            forecast,
        )
        state.memory = plan.memory
        state.awaiting_forecast = {each.uid for each in plan.decisions if each.awaits_forecast}
        state.pending = {
            each.uid: PendingRescale(plan.interval_id, each, cluster.managed[each.uid].job)
            for each in plan.decisions
            if each.uid in histories and (each.rescales or each.action is Action.SUSPEND)
        }
        state.promised = self._promised(cluster, plan)
        before = self._early_interval_trigger(cluster, histories)
        yield IntervalDecided(plan)
        if self._config.measures:
            yield from self._explore(cluster, MeasuredJobs(progress, histories), plan.interval_id)
        after = self._early_interval_trigger(cluster, histories)
        state.planned_for = before if self._config.early_after_each_run else after

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
    ) -> Iterator[BeginRescale]:
        """Begin what has its capacity: what shrinks has it, what grows once others gave it up."""
        free, pending = self._headroom(cluster, histories), self.state.pending
        snapshot = cluster.snapshot()
        for uid, each in list(pending.items()):
            if uid not in histories or _is_stale(each, cluster.managed[uid].job, histories[uid]):
                del pending[uid]
                continue
            decision, managed = each.decision, cluster.managed[uid]
            suspends = decision.action is Action.SUSPEND
            runs = any(snapshot.bound_counts(uid))
            purpose = self._purpose(cluster, decision, histories[uid], runs=runs)
            if purpose.measures and not self._has_place(cluster, histories):
                continue
            placement = None if suspends else reserve(free, managed.job, decision.counts)
            if placement is None and not suspends:
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
            )

    def _has_place(self, cluster: ManagedCluster, histories: _Histories) -> bool:
        return has_place(cluster.snapshot(), histories, self._config.interval.profiling)

    def _purpose(
        self, cluster: ManagedCluster, decision: Decision, history: JobHistory, *, runs: bool
    ) -> RescalePurpose:
        """What the rescale that an interval decided is for."""
        if decision.action is Action.SUSPEND:
            return RescalePurpose.INTERVAL
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
        """Begin the next profiling runs. Of thousands of old jobs nothing but their history and
        trained time is looked at."""
        profiling = self._config.interval.profiling
        progress = {
            uid: cluster.managed[uid].progress(cluster.at)
            for uid, history in histories.items()
            if len(history.profiled) < profiling.runs
        }
        young = [
            cluster.managed[uid].job
            for uid, each in progress.items()
            if trained_seconds(each, histories[uid]) < profiling.trained_limit_seconds
            and histories[uid].rescaling_to is None
        ]
        if not young:
            return
        snapshot, measured = cluster.snapshot(), MeasuredJobs(progress, histories)
        if all(why_not_profiled(job, snapshot, measured, profiling) is not None for job in young):
            return
        free = self._headroom(cluster, histories, measures=True)
        for move in plan_profiling(snapshot, measured, free, profiling, self._expected):
            run = f"{self._format_instant(cluster.at)}-{len(histories[move.uid].profiled) + 1}"
            yield from self._measure(cluster, move, free, RescalePurpose.PROFILING, run)

    def _expected(
        self, job: Job, progress: TrainingProgress, history: JobHistory
    ) -> Expected | None:
        """What a measurement of a job is weighed by. Not with a deadline: whether the job is in
        time needs a fit, whatever that saves."""
        if not self._config.expects or job.finish_by is not None:
            return None
        forecast, config = self._forecast(job, progress), self._config.interval
        if isinstance(forecast, NotReady):
            return None
        return Expected(forecast, config.price_seconds(history), config.hysteresis_fraction)

    def _explore(
        self, cluster: ManagedCluster, measured: MeasuredJobs, interval_id: str
    ) -> Iterator[BeginRescale]:
        free = self._headroom(cluster, measured.history, measures=True)
        config = self._config.interval
        move = plan_exploration(
            cluster.snapshot(), measured, free, config, self._expected, self.state.intervals
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
        nothing is kept for it."""
        plan = self._headroom(cluster, _histories(cluster), besides)
        for pod in cluster.snapshot().pods:
            if pod.leaving and pod.replica is not None and pod.replica.job_uid == besides:
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
            if uid in histories and each.decision.action is not Action.SUSPEND
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


def _recommendation(
    decision: Decision, forecast: Forecast | NotReady | None, price_seconds: float
) -> Recommendation:
    """What a decision would have been, with the forecast by which it was made."""
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


def must_wait_for_checkpoint(
    rule: RescaleRule, purpose: RescalePurpose, *, may_train: bool, is_old: bool
) -> bool:
    """Whether a rescale has to wait for a checkpoint.

    ``may_train``: its pods may train, so that there is something to lose. ``is_old``: more may be
    lost than a profiling run may lose. A restart does not wait: the operator is about to fail the
    job."""
    if rule is not RescaleRule.CHECKPOINT or not may_train:
        return False
    if purpose is RescalePurpose.RESTART:
        return False
    return purpose.needs_checkpoint or is_old


def is_fresh_checkpoint(
    since: float, at: float, fresh_seconds: float = FRESH_CHECKPOINT_SECONDS
) -> bool:
    """Whether a checkpoint that was made at ``since`` lets the job be stopped now."""
    return at - since <= fresh_seconds


def longest_checkpoint_wait(stale_seconds: float, *, missed: bool) -> float:
    """Seconds after which a rescale that waits for a checkpoint is withdrawn: all the while its
    target's room is kept from others. ``missed``: the last one was withdrawn, and a checkpoint was
    seen since."""
    return SEEN_CHECKPOINT_SECONDS if missed else stale_seconds


def awaits_next_checkpoint(
    seen_at: float | None, at: float, read_interval_seconds: float = 0.0
) -> bool:
    """Whether a job whose rescale was withdrawn is not moved now. ``seen_at`` is when a checkpoint
    was seen after that.

    Room that is held for a job that never prints such a line would be lost to all others."""
    seen_seconds = max(SEEN_CHECKPOINT_SECONDS, 3 * read_interval_seconds)
    return seen_at is None or at - seen_at > seen_seconds


def _judged_on(goal: Goal, progress: TrainingProgress) -> object:
    """Equal for two states of a training between which nothing was logged that may meet the
    goal."""
    if isinstance(goal, AmountGoal):
        return goal, progress.epoch, progress.step
    losses, metrics = progress.losses, progress.metrics
    newest = [each.points[-1:] for each in metrics]
    return goal, len(losses), losses[-1:], [len(each.points) for each in metrics], newest


def why_unwanted(job: Job, counts: Counts, *, goal_changed: bool) -> str | None:
    """Why a job must not be rescaled to these counts any more, as its user has changed its
    annotations; ``None`` if it may be."""
    if not job.managed:
        return job.left_alone or "its user has ended its management"
    if job.rescale is RescaleRule.NEVER:
        return "its rescale annotation now says never"
    if job.paused or job.manage is Manage.RECOMMEND:
        return "its user has paused it" if job.paused else "its manage annotation says recommend"
    if counts == NO_COUNTS:
        stays = goal_changed or job.at_target is not AtTarget.SUSPEND
        return "its user changed its goal, or what happens there" if stays else None
    return None if job.bounds.allow(counts) else f"its bounds do not allow {counts} any more"


def _is_stale(pending: PendingRescale, job: Job, history: JobHistory) -> bool:
    """Whether what was decided is not to be done any more."""
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
