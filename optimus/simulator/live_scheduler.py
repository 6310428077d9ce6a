"""The scheduler as it runs on a cluster, on virtual time: the same decisions by the same code
(``scheduling``).

1. A job that arrives is placed at its user's counts as soon as there is room, in the extender's
  order.
2. A young job's speed is profiled in room that is free.
3. Every interval, and earlier when jobs come, go or are measured, ``plan_interval`` decides all
  counts.
4. Shrink first, then grow: what needs room begins when that room has really been left.
"""

import math
from dataclasses import dataclass, field, replace

from optimus.interval import (
    Action,
    Decision,
    IntervalConfig,
    IntervalInput,
    Strategies,
    plan_interval,
)
from optimus.interval.capacity_plan import CapacityPlan, schedulable_capacity
from optimus.interval.profiling import (
    Measured,
    ProfilingRules,
    home_of,
    no_run_follows,
    plan_exploration,
    plan_profiling,
    run_is_over,
)
from optimus.jobs import Counts
from optimus.placement.queue_order import AGE_LIMIT_SECONDS, WaitingGang, blocks_others, order_key
from optimus.simulator.cluster import JobState, Phase, Seats, SimulatedCluster
from optimus.simulator.forecast_log import Guess, Noting, guesses
from optimus.simulator.speeds import EmptyCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineRules:
    """The product's settings; the defaults are its own."""

    interval: IntervalConfig = field(default_factory=IntervalConfig)
    profiling: ProfilingRules = field(default_factory=ProfilingRules)

    interval_seconds: float = 600.0
    """Seconds between two decisions about all counts."""

    early_interval_seconds: float = 60.0
    """Least seconds between two decisions when jobs come, go or are measured."""

    measures: bool = True
    """Whether speeds are measured, by profiling runs and exploratory moves. Who knows the truth
    need not."""

    tick_seconds: float = 2.0
    """Seconds between two looks at the cluster: nothing is looked at again sooner."""

    def scheduler(self, methods: Strategies, empty: EmptyCluster) -> "Online":
        """The scheduler that keeps to these rules."""
        return Online(self, methods, empty)


class Online:
    """Decides by the product's own code."""

    def __init__(self, rules: OnlineRules, methods: Strategies, empty: EmptyCluster) -> None:
        self.guesses: list[Guess] = []
        self._rules, self._methods, self._empty = rules, methods, empty
        self._planned_at = 0.0
        self._planned_for: object = None
        self._number = 0
        self._pending: dict[str, Decision] = {}
        self._unforecast: set[str] = set()
        self._met: set[str] = set()

    def wakes_at(self, cluster: SimulatedCluster) -> float:
        """When to act next even if nothing happens."""
        if not cluster.visible:
            return math.inf
        early = self._occasion(cluster) != self._planned_for
        rules = self._rules
        due = self._planned_at + (rules.early_interval_seconds if early else rules.interval_seconds)
        runs = (self._run_ends_at(state, cluster.now) for state in cluster.visible)
        return max(min([due, *runs]), cluster.now + rules.tick_seconds)

    def act(self, cluster: SimulatedCluster) -> None:
        """Do all that is to be done at this instant."""
        cluster.catch_up()
        self._end_runs(cluster)
        self._place_waiting(cluster)
        if self._is_due(cluster):
            self._plan(cluster)
        if self._pending:
            self._begin_pending(cluster)
        if any(self._may_be_profiled(state) for state in cluster.visible):
            self._profile(cluster)

    def _place_waiting(self, cluster: SimulatedCluster) -> None:
        waiting = [state for state in cluster.visible if state.phase is Phase.WAITING]
        if not waiting:
            return
        room, capacity = cluster.room(self._methods.placement), schedulable_capacity(cluster.nodes)
        gangs = {
            WaitingGang(
                state.job.uid,
                state.job.demand(),
                state.visible_at,
                ran_before=state.placed_at is not None,
            ): state
            for state in waiting
        }
        for gang in sorted(
            gangs, key=lambda each: order_key(each, capacity, cluster.now, AGE_LIMIT_SECONDS)
        ):
            state = gangs[gang]
            if not _move(cluster, room, state, state.job.counts) and blocks_others(
                gang, cluster.now, AGE_LIMIT_SECONDS
            ):
                return

    def _is_due(self, cluster: SimulatedCluster) -> bool:
        rules, passed_seconds = self._rules, cluster.now - self._planned_at
        if passed_seconds > rules.interval_seconds + rules.early_interval_seconds:
            # There was no job, and nothing to decide; the intervals went on all the same.
            self._planned_at += passed_seconds // rules.interval_seconds * rules.interval_seconds
            passed_seconds = cluster.now - self._planned_at
        if passed_seconds >= self._rules.interval_seconds:
            return True
        early = passed_seconds >= self._rules.early_interval_seconds
        return early and self._occasion(cluster) != self._planned_for

    def _occasion(self, cluster: SimulatedCluster) -> object:
        """What, when it changes, is worth an early interval."""
        return tuple(
            sorted(
                (state.job.uid, _is_measured(state), state.job.uid in self._met)
                for state in cluster.visible
            )
        )

    def _plan(self, cluster: SimulatedCluster) -> None:
        self._number += 1
        self._planned_at = cluster.now
        states = {state.job.uid: state for state in cluster.visible}
        measured, noting = _measured(cluster), Noting(self._methods.forecast)
        seen = IntervalInput(cluster.snapshot(), measured.progress, measured.history)
        methods = replace(self._methods, forecast=noting)
        plan = plan_interval(
            f"{cluster.now:.0f}-{self._number}", seen, methods, self._rules.interval
        )
        decisions = [
            self._home(states[each.uid], each, measured, noting) for each in plan.decisions
        ]
        self._pending = {each.uid: each for each in decisions if each.rescales}
        self.guesses += guesses(
            states, noting, {each.uid: each.counts for each in decisions}, self._empty
        )
        self._met = {uid for uid, forecast in noting.said.items() if forecast.goal_met}
        self._planned_for = self._occasion(cluster)
        if self._rules.measures:
            self._explore(cluster, measured)

    def _home(
        self, state: JobState, decision: Decision, measured: Measured, noting: Noting
    ) -> Decision:
        """Without a forecast a job does not stay for long where its last profiling run happened to
        leave it."""
        job, home = state.job, home_of(state.job, state.deeds.own_counts, state.deeds.profiled)
        moves = state.moving_to is not None or decision.action is not Action.KEEP
        if home is None or moves or job.counts == home:
            return decision
        if job.uid in noting.said or not no_run_follows(job, measured, self._rules.profiling):
            return decision
        if job.uid not in self._unforecast:
            self._unforecast.add(job.uid)
            return decision
        return replace(decision, counts=home, action=Action.between(job.counts, home))

    def _begin_pending(self, cluster: SimulatedCluster) -> None:
        room = cluster.room(self._methods.placement)
        for uid, decision in list(self._pending.items()):
            state = cluster.states.get(uid)
            stale = (
                state is None
                or state.phase is Phase.CLEARING
                or state.job.counts != decision.current
            )
            if state is None or stale or _move(cluster, room, state, decision.counts):
                self._pending.pop(uid)

    def _may_be_profiled(self, state: JobState) -> bool:
        """A quick look that spares the long one."""
        rules = self._rules.profiling
        is_young = (
            state.training.trained_seconds < rules.trained_limit_seconds and self._rules.measures
        )
        return state.phase is Phase.TRAINING and is_young and len(state.deeds.profiled) < rules.runs

    def _end_runs(self, cluster: SimulatedCluster) -> None:
        measured: Measured | None = None
        for state in cluster.visible:
            if state.deeds.profiling_since is None or state.moving_to is not None:
                continue
            measured = measured or _measured(cluster)
            if run_is_over(state.job, cluster.now, measured, self._rules.profiling) is not None:
                state.deeds = replace(state.deeds, profiling_since=None)

    def _run_ends_at(self, state: JobState, now: float) -> float:
        """When the job will have been measured at its present counts."""
        run, rules = state.training.run, self._rules.profiling
        if run is None or not (
            state.deeds.profiling_since is not None or self._may_be_profiled(state)
        ):
            return math.inf
        steady = sum(
            sample.seconds for sample in state.training.samples if sample.counts == state.job.counts
        )
        left = rules.steady_seconds - steady - run.seconds
        return now + left + self._rules.tick_seconds if left > 0 else math.inf

    def _profile(self, cluster: SimulatedCluster) -> None:
        room = cluster.room(self._methods.placement)
        for move in plan_profiling(
            cluster.snapshot(), _measured(cluster), room, self._rules.profiling
        ):
            state = cluster.states[move.uid]
            home = state.deeds.own_counts or state.job.counts
            if _move(cluster, room, state, move.counts, measures=True):
                self._pending.pop(move.uid, None)
                state.deeds = replace(
                    state.deeds, profiled=(*state.deeds.profiled, move.counts), own_counts=home
                )

    def _explore(self, cluster: SimulatedCluster, measured: Measured) -> None:
        room = cluster.room(self._methods.placement)
        move = plan_exploration(cluster.snapshot(), measured, room, self._rules.profiling)
        if move is not None and move.uid not in self._pending:
            _move(cluster, room, cluster.states[move.uid], move.counts)


def _move(
    cluster: SimulatedCluster,
    room: CapacityPlan,
    state: JobState,
    counts: Counts,
    *,
    measures: bool = False,
) -> bool:
    """Move a job if there is room; ``room`` is charged with it, and with what its pods hold until
    they have left."""
    uid, leaving = state.job.uid, room.held.get(state.job.uid, ())
    if room.move(state.job, counts) is not None:
        return False
    for _, node, resources in leaving:
        room.take(node, resources)
    cluster.move(state, Seats(counts, room.held[uid], cluster.now), measures=measures)
    return True


def _is_measured(state: JobState) -> bool:
    return (
        bool(state.deeds.profiled)
        and state.deeds.profiling_since is None
        and state.moving_to is None
    )


def _measured(cluster: SimulatedCluster) -> Measured:
    progress = {state.job.uid: state.training.progress() for state in cluster.visible}
    return Measured(progress, {state.job.uid: state.history for state in cluster.visible})
