"""A scheduler as the paper describes it (Optimus, sections 4 and 5), for baselines and comparisons.

Every interval, from scratch: the policy chooses all counts; jobs whose counts stay keep their
nodes; the others are suspended and placed again, by ascending demand; one that does not fit is
trimmed task by task, and paused until the next interval where it does not fit at its minimum.
Restarts are not weighed against their gain. A job without a forecast runs at its minimum: under the
rules of the paper's authors (``presets.AUTHORS``) only one whose speed is not known."""

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from numpy.random import SeedSequence

from optimus.allocation import (
    NO_MEMORY,
    AllocationProblem,
    Candidate,
    ClusterAllocation,
    ClusterProblem,
    Grant,
    Policy,
    PolicyMemory,
)
from optimus.allocation.policy import Holding, JobAccount, PoolProblem, grants
from optimus.errors import NotReady
from optimus.interval.capacity_plan import CapacityPlan
from optimus.jobs import Counts, Job, ReplicaSpec
from optimus.models.forecast import Forecast, ForecastFn, NoWorkLeft
from optimus.models.speed.model import SpeedModel
from optimus.placement.gang import Gang, PlacementRule
from optimus.progress.types import TrainingProgress
from optimus.simulator.cluster import NODE_KIND_LABEL, JobState, Move, Phase, SimulatedCluster
from optimus.simulator.forecasts import LoggedForecast, log_forecasts
from optimus.simulator.speeds import EmptyCluster, UncontendedSpeed

_Forecasts = Mapping[str, Forecast | NotReady]
_Progress = Mapping[str, TrainingProgress]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperConfig:
    """What the paper leaves to settings."""

    interval_seconds: float = 600.0
    """Seconds between two decisions (Optimus, section 5: 10 minutes)."""
    looks_ahead: bool = True
    """Whether the policy reads forecasts: one that does not gives every job its share at once."""
    trims: bool = True
    """A job that does not fit as a whole gets fewer tasks. The paper pauses it until the next
    interval; but with a policy that fills the cluster it then may never run again."""


@dataclass(frozen=True, slots=True)
class PaperStrategies:
    """What decides, places and predicts; ``seed`` is the simulation's."""

    policy: Policy
    placement: PlacementRule
    forecast: ForecastFn
    seed: int


class PaperScheduler:
    """Decides every interval from scratch."""

    def __init__(
        self, config: PaperConfig, strategies: PaperStrategies, empty: EmptyCluster
    ) -> None:
        self.forecasts: list[LoggedForecast] = []
        self.memory = NO_MEMORY
        self._config, self._strategies, self._empty = config, strategies, empty
        self._planned = -1

    def next_action_at(self, cluster: SimulatedCluster, before: float) -> float:  # noqa: ARG002
        """The next whole interval at which there is a job; the first arrival waits for one, too."""
        if not cluster.visible:
            return math.inf
        now, number = cluster.now, self._number(cluster.now)
        if self._begins(now) and number > self._planned:
            return now
        return (number + 1) * self._config.interval_seconds

    def act(self, cluster: SimulatedCluster) -> None:
        """Decide if an interval begins now."""
        number = self._number(cluster.now)
        if number <= self._planned or not self._begins(cluster.now):
            return
        self._planned = number
        cluster.catch_up()
        progress = {state.job.uid: state.training.progress() for state in cluster.visible}
        forecasts = self._forecasts(cluster, progress)
        wanted = self._allocate(cluster, forecasts, progress)
        states = {state.job.uid: state for state in cluster.visible}
        decided = {uid: grant.counts for uid, grant in wanted.items()}
        self.forecasts += log_forecasts(states, forecasts, decided, self._empty)
        self._place(cluster, wanted)

    def _number(self, now: float) -> int:
        """The interval that ``now`` is in, from 0."""
        return math.floor(now / self._config.interval_seconds + _SLACK)

    def _begins(self, now: float) -> bool:
        """Whether an interval begins now."""
        return abs(now / self._config.interval_seconds - self._number(now)) < _SLACK

    def _forecasts(self, cluster: SimulatedCluster, progress: _Progress) -> _Forecasts:
        if not self._config.looks_ahead:
            return {}
        forecast = self._strategies.forecast
        return {
            state.job.uid: forecast(state.job, progress[state.job.uid]) for state in cluster.visible
        }

    def _allocate(
        self, cluster: SimulatedCluster, forecasts: _Forecasts, progress: _Progress
    ) -> Mapping[str, Grant]:
        """A grant for every job that gets any."""
        states = cluster.visible
        candidates = [self._candidate(state, forecasts) for state in states]
        capacity = cluster.capacity
        free, wanted = capacity, dict[str, Grant]()
        for state, candidate in zip(states, candidates, strict=True):
            least = state.job.bounds.minimum
            if candidate is None and state.job.demand(least).fits_in(free):
                free, wanted[state.job.uid] = free - state.job.demand(least), Grant(least)
        known = tuple(candidate for candidate in candidates if candidate is not None)
        pool = PoolProblem(AllocationProblem(free, capacity, known), cluster.kinds)
        accounts = {
            state.job.uid: _account(cluster, state, progress[state.job.uid], forecasts)
            for state in states
        }
        answer = self._decide(ClusterProblem(cluster.now, (pool,), accounts))
        return {**wanted, **grants(answer)}

    def _decide(self, problem: ClusterProblem) -> ClusterAllocation:
        """The policy's answer; what it remembers goes through JSON, as into a store and back."""
        policy, seed = self._strategies.policy, self._strategies.seed
        round_seed = int(SeedSequence((seed, self._planned)).generate_state(1)[0])
        answer, memory = policy.decide(problem, self.memory, round_seed)
        self.memory = PolicyMemory.from_json(memory.as_json())
        return answer

    def _candidate(self, state: JobState, forecasts: _Forecasts) -> Candidate | None:
        """The job as its user submitted it; ``None`` where a needed forecast is missing."""
        forecast = forecasts[state.job.uid] if self._config.looks_ahead else _UNKNOWN
        if isinstance(forecast, NotReady):
            return None
        return Candidate(state.truth.job, forecast, running=state.is_placed)

    def _place(self, cluster: SimulatedCluster, wanted: Mapping[str, Grant]) -> None:
        movable = [state for state in cluster.visible if state.phase is not Phase.CLEARING]
        moving = [
            state for state in movable if not _stays(cluster, state, wanted.get(state.job.uid))
        ]
        leaves = any(state.is_placed for state in moving)
        free_at = cluster.now + (cluster.leaving_seconds if leaves else 0.0)
        free = cluster.free_capacity(self._strategies.placement)
        for state in moving:
            free.release(state.job.uid)
        capacity = cluster.capacity
        jobs = {
            state.job.uid: _granted(state.job, wanted.get(state.job.uid, _NOTHING))
            for state in moving
        }
        # On one kind each, large jobs first: small ones find room between them (Gavel, section 5).
        sign = -1 if any(grant.kind is not None for grant in wanted.values()) else 1
        demand = {uid: sign * job.demand().dominant(capacity)[1] for uid, job in jobs.items()}
        for state in sorted(moving, key=lambda each: (demand[each.job.uid], each.job.uid)):
            job = jobs[state.job.uid]
            counts = self._fit(free, job) if state.job.uid in wanted else None
            if counts is not None:
                cluster.move(state, Move(counts, free.held[job.uid], free_at))
            elif state.is_placed:
                cluster.pause(state)

    def _fit(self, free: CapacityPlan, job: Job) -> Counts | None:
        """The counts at which the job was placed."""
        if free.place(Gang.of(job)) is None:
            return job.counts
        fewer = list(_trims(job.counts, job.bounds.minimum)) if self._config.trims else []

        def fits(counts: Counts) -> bool:
            return free.copy().place(Gang.of(job, counts)) is None

        # What fits mostly still fits with a task less, so that bisection finds the first that does.
        first = bisect_left(fewer, True, key=fits)
        if first < len(fewer) and free.place(Gang.of(job, fewer[first])) is None:
            return fewer[first]
        return None


_SLACK = 1e-9
"""Part of an interval by which its beginning may be missed by rounding."""


def _account(
    cluster: SimulatedCluster,
    state: JobState,
    progress: TrainingProgress,
    forecasts: _Forecasts,
) -> JobAccount:
    job = state.truth.job
    holds = Holding(state.job.counts, cluster.kind_of(state)) if state.is_placed else None
    by_kind = _by_kind(forecasts.get(job.uid), [each.kind for each in cluster.kinds])
    return JobAccount(
        received=cluster.service(state), holds=holds, progress=progress, forecasts=by_kind
    )


def _by_kind(forecast: Forecast | NotReady | None, kinds: list[str]) -> Mapping[str, Forecast]:
    """The forecast on each kind, where there are several and the speed tells them apart."""
    speed = forecast.speed if isinstance(forecast, Forecast) else None
    if not isinstance(forecast, Forecast) or len(kinds) < 2:
        return {}
    if not isinstance(speed, SpeedModel | UncontendedSpeed):
        return {}
    return {kind: replace(forecast, speed=speed.on(kind)) for kind in kinds}


_UNKNOWN = Forecast(NoWorkLeft(), 1.0)
"""For policies that do not read forecasts."""


_NOTHING = Grant(Counts(0, 0))


def _stays(cluster: SimulatedCluster, state: JobState, grant: Grant | None) -> bool:
    if grant is None or not state.is_placed or grant.counts != state.job.counts:
        return False
    return grant.kind in {None, cluster.kind_of(state)}


def _granted(job: Job, grant: Grant) -> Job:
    """The job at these counts, bound to the kind of nodes, if it is to one."""
    job = replace(job, counts=grant.counts)
    if not grant.kind:
        return job
    return replace(job, ps=_on(job.ps, grant.kind), worker=_on(job.worker, grant.kind))


def _on(spec: ReplicaSpec, kind: str) -> ReplicaSpec:
    selector = (*spec.constraints.selector, (NODE_KIND_LABEL, kind))
    return replace(spec, constraints=replace(spec.constraints, selector=selector))


def _trims(counts: Counts, least: Counts) -> Iterator[Counts]:
    """Down to ``least``, each time one task less of the role that has more above its minimum."""
    while counts != least:
        if counts.ps - least.ps > counts.workers - least.workers:
            counts = Counts(counts.ps - 1, counts.workers)
        else:
            counts = Counts(counts.ps, counts.workers - 1)
        yield counts
