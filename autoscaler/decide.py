"""Decide: one interval's counts, and which job's speed is measured next.

All that is decided here comes out of ``scheduling``: this module only gathers its input and begins
the rescales. Shrink first, then grow: what frees room begins at once, what needs room begins when
that room is really free."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from autoscaler.after_profiling import AfterProfiling, home_of
from autoscaler.headroom import Claim, room_now
from autoscaler.job_state import (
    EXPLORING_PREFIX,
    FRESH_SECONDS,
    PROFILING_PREFIX,
    SETTLING_PREFIX,
    JobState,
)
from autoscaler.managed_jobs import ManagedJobs
from autoscaler.metrics import Metrics
from autoscaler.observation import Observation
from autoscaler.rescale.machine import NO_COUNTS, RescaleRecord, Step
from optimus.allocation import AllocationPolicy, JobHistory
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
from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.profiling import (
    Measured,
    ProfilingMove,
    ProfilingRules,
    plan_exploration,
    plan_profiling,
    run_is_over,
    why_not_profiled,
)
from optimus.jobs import Counts, Job
from optimus.kube.contract import RESCALING
from optimus.kube.times import format_second
from optimus.models.forecast import Forecast, ForecastFn
from optimus.placement.gang import PlacementRule
from optimus.progress.types import TrainingProgress

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DecisionRules:
    """By which figures and methods counts are decided."""

    policy: AllocationPolicy
    placement: PlacementRule
    forecast: ForecastFn
    interval: IntervalConfig
    profiling: ProfilingRules
    stale_seconds: float
    """A decision that has waited so long for a checkpoint is taken back and decided anew."""

    hold_seconds: float = 600.0
    """So long at most in one step of a rescale nothing grows for want of its room. Default: the
    extender holds room for as long."""


class Decider:
    """Plans intervals and profiling runs, and begins what they ask for."""

    def __init__(self, rules: DecisionRules, metrics: Metrics, *, dry_run: bool) -> None:
        self._rules = rules
        self._metrics = metrics
        self._dry_run = dry_run
        self._pending: dict[str, tuple[str, Decision]] = {}
        self._after_profiling = AfterProfiling(rules.profiling)
        self._number = 0

    def interval(
        self, managed: ManagedJobs, observation: Observation, alive: Callable[[], None]
    ) -> IntervalPlan:
        """Plan one interval; its rescales begin with ``begin_pending``. Calls ``alive`` while that
        takes long."""
        self._take_back_stale(managed, observation.at)
        self._number += 1
        interval_id = f"{format_second(observation.at)}-{self._number}"
        seen = IntervalInput(
            observation.snapshot,
            _progress(managed, observation.at),
            _history(managed, observation.at),
        )
        with self._metrics.planning_seconds.time():
            self._forecast(managed, seen, alive)
            methods = Strategies(
                self._rules.policy, self._rules.placement, self._forecast_fn(managed)
            )
            plan = plan_interval(interval_id, seen, methods, self._rules.interval)
        self._metrics.intervals.inc()
        self._pending = {}
        self._after_profiling.keep(managed.states.keys())
        for decision in plan.decisions:
            self._note(managed, decision, plan)
        self._explore(managed, observation)
        return plan

    def _take_back_stale(self, managed: ManagedJobs, at: float) -> None:
        """Nothing has been done for such a rescale yet, and all the while its target's room is kept
        from others."""
        for state in managed:
            waiting = state.rescale
            if (
                waiting is None
                or waiting.record.step is not Step.CHECKPOINT
                or waiting.record.rolling_back
            ):
                continue
            is_patient = not state.record.waited_in_vain
            if at - waiting.record.step_at >= (
                self._rules.stale_seconds if is_patient else FRESH_SECONDS
            ):
                state.rescale = None
                if waiting.needs_checkpoint:
                    state.record = replace(state.record, waited_in_vain=True)
                _LOG.info(
                    "job %s: rescale %s waited too long for a checkpoint",
                    state.job.key,
                    waiting.record.id,
                )

    def _forecast(
        self, managed: ManagedJobs, seen: IntervalInput, alive: Callable[[], None]
    ) -> None:
        """Fit each job once; a fit that fails by a fault of ours leaves its job without a forecast,
        and only that."""
        for state in managed:
            alive()
            try:
                state.forecast = self._rules.forecast(state.job, seen.progress[state.job.uid])
            except Exception:  # noqa: BLE001 - told with its trace, counted, and the job's reason says so
                _LOG.exception("job %s: its forecast failed", state.job.key)
                self._metrics.faults.labels("forecast").inc()
                state.forecast = NotReady(
                    "its forecast failed by a fault of this software, which is in its log"
                )

    def _forecast_fn(self, managed: ManagedJobs) -> ForecastFn:
        def forecast_of(job: Job, progress: TrainingProgress, /) -> Forecast | NotReady:
            state = managed.states.get(job.uid)
            return (
                self._rules.forecast(job, progress)
                if state is None or state.forecast is None
                else state.forecast
            )

        return forecast_of

    def _note(self, managed: ManagedJobs, decision: Decision, plan: IntervalPlan) -> None:
        self._metrics.decisions.labels(decision.action.value).inc()
        _LOG.info(
            "interval %s: job %s %s at %s -> %s: %s",
            plan.interval_id,
            decision.key,
            decision.action,
            decision.current,
            decision.counts,
            decision.reason,
        )
        state = managed.states.get(decision.uid)
        if state is None:
            return
        state.decision, state.interval_id, state.decided_at = decision, plan.interval_id, plan.at
        state.decision = decision = self._after_profiling.settle(state, decision, plan.at)
        if decision.rescales or decision.action is Action.SUSPEND:
            self._pending[decision.uid] = (plan.interval_id, decision)

    @property
    def has_pending(self) -> bool:
        """Whether a decided rescale has not begun yet."""
        return bool(self._pending)

    def begin_pending(self, managed: ManagedJobs, observation: Observation) -> None:
        """Begin the decided rescales whose room is free by now."""
        self._take_back_stale(managed, observation.at)
        if not self._pending:
            return
        layout = self.room(managed, observation)
        for uid, (interval_id, decision) in list(self._pending.items()):
            state = managed.states.get(uid)
            if state is None or state.rescale is not None or state.job.counts != decision.current:
                self._pending.pop(uid)
                continue
            target = NO_COUNTS if decision.action is Action.SUSPEND else decision.counts
            if (
                state.awaits_checkpoint(observation.at)
                or state.why_unwanted(decision.current, target) is not None
            ):
                self._pending.pop(uid)
                continue
            # A job that waits frees nothing by asking for less: it, too, needs its room first.
            frees = decision.action in (Action.SHRINK, Action.SUSPEND) and layout.is_bound(uid)
            if frees or layout.move(state.job, decision.counts) is None:
                self._pending.pop(uid)
                self.begin(state, interval_id, target, decision.reason, observation.at)

    def begin(self, state: JobState, record_id: str, target: Counts, why: str, at: float) -> None:
        """Begin one rescale."""
        if self._dry_run:
            return
        is_measuring = record_id.startswith((PROFILING_PREFIX, EXPLORING_PREFIX))
        if not is_measuring and self._after_profiling.may_lose(state, target, at):
            record_id = SETTLING_PREFIX + record_id
        record = RescaleRecord(record_id, at, state.job.counts, target, why, Step.CHECKPOINT, at)
        state.begin(record)
        state.record = replace(state.record, profiling_since=None)
        _LOG.info(
            "job %s: rescale %s from %s to %s begins: %s",
            state.job.key,
            record_id,
            record.before,
            target,
            why,
        )

    def room(self, managed: ManagedJobs, observation: Observation) -> CapacityPlan:
        """The room that is free now for what begins."""
        claims = [
            claim for state in managed if (claim := self._claim(state, observation)) is not None
        ]
        return room_now(observation.snapshot, self._rules.placement, claims)

    def _claim(self, state: JobState, observation: Observation) -> Claim | None:
        """The room that is kept for a job: that of its rescale's target, or of the way home from a
        measurement."""
        if state.rescale is None:
            home = home_of(state)
            if home is None or isinstance(state.forecast, Forecast):
                return None
            return Claim(state.job, _larger(home, state.job.counts), stays=True)
        record = state.rescale.record
        bound = observation.snapshot.bound_counts(state.job.uid)
        if record.current_target == NO_COUNTS or (
            bound.ps >= record.current_target.ps and bound.workers >= record.current_target.workers
        ):
            return None
        waited_seconds = observation.at - record.step_at
        insists = record.phase in RESCALING and waited_seconds < self._rules.hold_seconds
        return Claim(
            state.job, record.current_target, stays=record.step is Step.START, insists=insists
        )

    def profile(self, managed: ManagedJobs, observation: Observation) -> None:
        """End profiling runs that have measured enough, and begin the next ones."""
        at, rules = observation.at, self._rules.profiling
        self._end_runs([state for state in managed if state.record.profiling_since is not None], at)
        young = [state for state in managed if len(state.record.profiled) < rules.runs]
        measured = Measured(_progress(young, at), _history(managed, at))
        snapshot = observation.snapshot
        if all(
            why_not_profiled(state.job, snapshot, measured, rules) is not None for state in young
        ):
            return
        room = self.room(managed, observation)
        for move in plan_profiling(snapshot, measured, room, rules):
            self._measure(managed, move, at)

    def _end_runs(self, states: Sequence[JobState], at: float) -> None:
        measured = Measured(_progress(states, at), _history(states, at))
        for state in states:
            over = (
                run_is_over(state.job, at, measured, self._rules.profiling)
                if state.rescale is None
                else None
            )
            if over is not None:
                state.record = replace(state.record, profiling_since=None)
                _LOG.info("job %s: profiling run is over: %s", state.job.key, over)

    def _explore(self, managed: ManagedJobs, observation: Observation) -> None:
        measured = Measured(_progress(managed, observation.at), _history(managed, observation.at))
        room = self.room(managed, observation)
        move = plan_exploration(observation.snapshot, measured, room, self._rules.profiling)
        if move is not None and move.uid not in self._pending:
            state = managed.states[move.uid]
            self._note_measuring(state, move.counts)
            self.begin(
                state,
                f"{EXPLORING_PREFIX}{state.interval_id}",
                move.counts,
                move.reason,
                observation.at,
            )

    def _measure(self, managed: ManagedJobs, move: ProfilingMove, at: float) -> None:
        state = managed.states.get(move.uid)
        if state is None or state.rescale is not None or self._dry_run:
            return
        self._pending.pop(move.uid, None)
        self._note_measuring(state, move.counts)
        run = len(state.record.profiled)
        self.begin(
            state, f"{PROFILING_PREFIX}{format_second(at)}-{run}", move.counts, move.reason, at
        )

    @staticmethod
    def _note_measuring(state: JobState, counts: Counts) -> None:
        own_counts = state.record.own_counts if home_of(state) is not None else None
        profiled = (*state.record.profiled, counts)
        state.record = replace(
            state.record, profiled=profiled, own_counts=own_counts or state.job.counts
        )


def _progress(states: Iterable[JobState], at: float) -> dict[str, TrainingProgress]:
    return {state.job.uid: state.progress(at) for state in states}


def _history(states: Iterable[JobState], at: float) -> dict[str, JobHistory]:
    return {state.job.uid: state.history(at) for state in states}


def _larger(one: Counts, other: Counts) -> Counts:
    return Counts(max(one.ps, other.ps), max(one.workers, other.workers))
