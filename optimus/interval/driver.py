"""The loop around ``plan_interval``: what is decided when, and what begins when.

The driver reads no clock and does no I/O. Its instructions are values, and the caller (the
autoscaler on a cluster, the simulator on virtual time) carries each out before it asks for the
next. The caller asks ``optimus.rescale`` when a rescale that has begun may stop its job.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from numpy.random import SeedSequence

from optimus.allocation import NO_HISTORY, PolicyMemory
from optimus.allocation.turns import round_began
from optimus.errors import NotReady
from optimus.interval.begin import begin_pending, begin_together, pending_of
from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.classify import Action
from optimus.interval.due import ROUND_SLACK, Timetable
from optimus.interval.inputs import IntervalInput, IntervalPlan, Strategies
from optimus.interval.measure import begin_runs, end_runs, explore
from optimus.interval.plan import plan_interval
from optimus.interval.profiling import MeasuredJobs
from optimus.interval.promises import free_for, promised, unplaceable
from optimus.interval.state import (
    BeginRescale,
    DriverConfig,
    DriverState,
    EndProfilingRun,
    Instruction,
    IntervalDecided,
    ManagedCluster,
    Moment,
    PauseJob,
    histories_of,
)
from optimus.interval.worth import last_arrived
from optimus.jobs import Job
from optimus.models.forecast import Forecast
from optimus.progress.types import TrainingProgress

__all__ = (
    "ROUND_SLACK",
    "STALE_INTERVALS",
    "BeginRescale",
    "DriverConfig",
    "EndProfilingRun",
    "Instruction",
    "IntervalDecided",
    "IntervalDriver",
    "PauseJob",
)

STALE_INTERVALS: Final = 3
"""After so many intervals a rescale that could not stop its job is withdrawn and decided again: all
the while its target's room is kept from others."""


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
        self._timetable = Timetable()

    def step(
        self, cluster: ManagedCluster, timer: float, *, decides: bool = True
    ) -> Iterator[Instruction]:
        """All that is to be done now, one by one; ``timer`` is in seconds and never set back.

        A step that does not decide only begins what was decided before.
        """
        now = self._moment(cluster, timer)
        for instruction in self._phases(now, decides=decides):
            yield instruction
            if not isinstance(instruction, IntervalDecided):
                uid = instruction.uid
                now.histories[uid] = cluster.managed[uid].history(cluster.at)

    def _phases(self, now: Moment, *, decides: bool) -> Iterator[Instruction]:
        # 1. If an interval is due, decide all counts
        if decides and self._timetable.is_due(now):
            self.state.planned_at = now.timer
            yield from self._decide(now)
        # 2. Begin the decided rescales whose capacity is free: shrink first, then grow
        if self.state.pending:
            yield from begin_pending(now)
        # 3. End the measurements that are done
        if decides:
            yield from end_runs(now)
        # 4. Begin the next measurements
        if decides and self._config.measures:
            yield from begin_runs(now, self._format_instant(now.cluster.at))

    def _decide(self, now: Moment) -> Iterator[Instruction]:
        # 1. Plan the interval on the cluster as it is
        state, cluster, config = self.state, now.cluster, self._config
        state.intervals += 1
        state.swapping = frozenset()
        self._timetable.forget()
        inputs = self._input(now)
        plan = plan_interval(
            f"{self._format_instant(cluster.at)}-{state.intervals}",
            inputs,
            replace(self._strategies, forecast=self._forecast_once(now)),
            config.interval,
        )
        # 2. Keep what the next interval is planned on
        plan = replace(plan, memory=self._stored(now, plan))
        if now.takes_turns and state.planned_at is not None:
            # A new leader goes on with the round that has begun, which ends when it would have.
            state.planned_at -= cluster.at - round_began(plan.memory, cluster.at)
        state.loan = plan.loan
        state.kind_factors, state.kind_orders = plan.kind_factors, plan.kind_orders
        # 3. Published policies stop all that they move together
        if now.stops_together:
            yield IntervalDecided(plan)
            state.memory = plan.memory
            yield from begin_together(plan)
            return
        # 4. Else each rescale begins once its capacity is free
        state.pending = pending_of(now, plan)
        resumes = {each.uid for each in plan.decisions if each.action is Action.RESUME}
        state.resuming = {uid: state.resuming.get(uid, state.intervals) for uid in resumes}
        state.promised = promised(now, plan)
        yield IntervalDecided(plan)
        state.memory = plan.memory
        # 5. Make at most one exploratory move
        if config.measures:
            measured = MeasuredJobs(inputs.progress, now.histories)
            yield from explore(now, measured, plan.interval_id)
        state.planned_for = self._timetable.trigger(now)

    def _input(self, now: Moment) -> IntervalInput:
        """Return what the interval is planned on."""
        state, cluster, histories = self.state, now.cluster, now.histories
        given_up = {
            uid: replace(histories.get(uid, NO_HISTORY), unplaceable=True)
            for uid in unplaceable(now)
        }
        state.arrived = _arrived(state.arrived, cluster.submitted)
        drawn = SeedSequence((self._config.seed, state.intervals)).generate_state(1)
        return IntervalInput(
            cluster.snapshot(),
            {uid: now.progress(uid) for uid in cluster.managed},
            {**histories, **given_up},
            state.memory,
            seed=int(drawn[0]),
            received=cluster.received,
            kind_label=self._config.kind_label,
            may_pause=self._config.pauses,
            round_seconds=now.round_seconds,
            arrived=state.arrived,
            kind_factors=state.kind_factors,
            kind_orders=state.kind_orders,
            interval_seconds=self._config.interval_seconds,
        )

    def _forecast_once(self, now: Moment) -> Callable[[Job, TrainingProgress], Forecast | NotReady]:
        """Forecasts that are worked out once in an interval, and kept until the next."""
        forecasts = self.state.forecasts = dict[str, Forecast | NotReady]()

        def forecast(job: Job, known: TrainingProgress, /) -> Forecast | NotReady:
            if job.uid not in forecasts:
                advised = job.uid in now.histories and now.histories[job.uid].recommends
                forecasts[job.uid] = now.forecast(job, known, expects=advised)
            return forecasts[job.uid]

        return forecast

    def _stored(self, now: Moment, plan: IntervalPlan) -> PolicyMemory:
        """The policy's memory as it is stored: plain data, which a restarted process could read."""
        memory = PolicyMemory.from_json(plan.memory.as_json())
        return memory.beside(self.state.memory, now.histories.keys() - plan.answer.keys())

    def next_interval_at(self, cluster: ManagedCluster) -> float:
        """Return when the next interval is due by the caller's timer, if nothing else changes."""
        return self._timetable.next_at(self._moment(cluster, 0.0))

    def forget_interval(self) -> None:
        """The interval that was just decided is not carried out: it is decided again at once."""
        self.state.pending, self.state.planned_at = {}, None

    def headroom(self, cluster: ManagedCluster, besides: str) -> CapacityPlan:
        """The capacity that is free now for one job (``promises.free_for``)."""
        return free_for(self._moment(cluster, 0.0), besides)

    def _moment(self, cluster: ManagedCluster, timer: float) -> Moment:
        histories = histories_of(cluster)
        return Moment(cluster, timer, histories, self._strategies, self._config, self.state)


def _arrived(known: Sequence[Job], submitted: Iterable[Job]) -> tuple[Job, ...]:
    """The last jobs that arrived, those that have ended meanwhile, too."""
    first_seen = {job.uid: job for job in known}
    now = {job.uid: first_seen.get(job.uid, job) for job in submitted}
    return last_arrived({**first_seen, **now}.values())
