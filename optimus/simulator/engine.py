"""The simulator's loop: go to the next instant at which something happens, let it happen, let the
scheduler act.

Discrete events on a virtual clock: arrivals, the steps of every move, stragglers, ends, and the
instants at which the scheduler looks by itself. Between them nothing changes, and training is
integrated in closed form. No clock, no order of a dictionary, and no shared stream of random
numbers has a say: the same seed gives the same results, bit by bit."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from optimus.allocation import AllocationPolicy
from optimus.interval import Strategies
from optimus.jobs import Counts, Job
from optimus.models.experiment_design import next_sample
from optimus.placement.gang import PlacementRule
from optimus.simulator.cluster import JobState, SimulatedCluster
from optimus.simulator.forecast_log import LoggedForecast
from optimus.simulator.forecasts import Fitted, ForecastSource, Insight
from optimus.simulator.jobs import SimulatedJob, Workload
from optimus.simulator.live_scheduler import LiveConfig
from optimus.simulator.paper_scheduler import PaperConfig
from optimus.simulator.results import Moment, Simulation
from optimus.simulator.speeds import EmptyCluster
from optimus.simulator.training import Training


class CannotRun(ValueError):
    """A workload that would never come to its end, in a sentence."""


class Scheduler(Protocol):
    """What decides on the simulated cluster."""

    forecasts: list[LoggedForecast]

    def wakes_at(self, cluster: SimulatedCluster) -> float:
        """When to act next even if nothing happens."""
        ...

    def act(self, cluster: SimulatedCluster) -> None:
        """Do all that is to be done at this instant."""
        ...


@dataclass(frozen=True, slots=True)
class PreRun:
    """Speeds measured before a job starts (Optimus, section 6.1), on the side: training has to wait
    for it.

    It takes none of the cluster's room: the paper runs it on a small sample of the data and says
    nothing of its room."""

    samples: int = 5
    seconds: float = 30.0
    """Of each sample: tens of seconds in the paper."""

    widest: int = 8
    """The most PSs, or workers, of a sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approach:
    """One way to run the cluster: a policy, and all that goes with it."""

    name: str
    policy: AllocationPolicy
    placement: PlacementRule
    rules: LiveConfig | PaperConfig
    forecasts: ForecastSource = field(default_factory=Fitted)
    pre_run: PreRun | None = None
    leaving_seconds: float = 10.0
    """From a suspension to the moment at which the pods have left their room."""


Watch = Callable[[SimulatedCluster], None]
"""Looks at the cluster after every instant at which something happened."""

_QUIET_LIMIT = 200
"""So many instants in a row at which no job trains or moves, and nobody is to arrive, are for
ever."""


def simulate(
    workload: Workload, approach: Approach, seed: int, watch: Watch | None = None
) -> Simulation:
    """Run a workload to its end.

    Raises:
        CannotRun: there is no job, two have the same UID, one fits nowhere, or nothing would ever
        happen any more.
    """
    loop = _Loop(workload, approach, seed)
    while loop.goes_on:
        loop.step()
        if watch is not None:
            watch(loop.cluster)
    return Simulation.of(
        (approach.name, workload.name, seed), loop.cluster, loop.timeline, loop.scheduler.forecasts
    )


class _Loop:
    def __init__(self, workload: Workload, approach: Approach, seed: int) -> None:
        self.cluster = SimulatedCluster(workload.nodes, approach.leaving_seconds)
        self.timeline: list[Moment] = []
        self._approach, self._seed = approach, seed
        self._empty = EmptyCluster(self.cluster.nodes, approach.placement)
        self._arrivals = sorted(
            workload.jobs, key=lambda each: (-each.job.created_at, each.job.uid)
        )
        self._trainings = {each.job.uid: Training(each, seed) for each in workload.jobs}
        forecaster = approach.forecasts.forecaster(
            Insight(self._trainings.__getitem__, self._empty, seed)
        )
        methods = Strategies(approach.policy, approach.placement, forecaster)
        self.scheduler: Scheduler = approach.rules.scheduler(methods, self._empty)
        self._quiet = 0
        _check(workload, self._empty)

    @property
    def goes_on(self) -> bool:
        """Whether there is a job that has not ended."""
        return bool(self._arrivals or self.cluster.states)

    def step(self) -> None:
        """One instant."""
        cluster = self.cluster
        arrival = self._arrivals[-1].job.created_at if self._arrivals else float("inf")
        wakes_at = self.scheduler.wakes_at(cluster)
        at = min(cluster.next_at, arrival, wakes_at)
        self._check_for_life(at)
        changed = cluster.advance(at)
        while self._arrivals and self._arrivals[-1].job.created_at <= at:
            changed = True
            self._arrive(self._arrivals.pop())
        if changed or wakes_at <= at:
            self.scheduler.act(cluster)
            self._note()

    def _arrive(self, truth: SimulatedJob) -> None:
        training, pre_run = self._trainings[truth.job.uid], self._approach.pre_run
        visible_at = self.cluster.now
        if pre_run is not None:
            visible_at = _measure(training, pre_run, self._empty, visible_at)
        self.cluster.add(JobState(truth, truth.job, training, visible_at))

    def _note(self) -> None:
        moment = Moment.of(self.cluster)
        if self.timeline and self.timeline[-1].at == moment.at:
            self.timeline.pop()
        self.timeline.append(moment)

    def _check_for_life(self, at: float) -> None:
        """Waiting jobs that nobody ever starts would keep the loop going for ever."""
        lives = self._arrivals or self.cluster.next_at < float("inf")
        self._quiet = 0 if lives else self._quiet + 1
        if self._quiet > _QUIET_LIMIT or at == float("inf"):
            stuck = ", ".join(
                sorted(str(state.job.key) for state in self.cluster.states.values())[:5]
            )
            raise CannotRun(
                f"under {self._approach.name}, nothing happens any more to {stuck}, which have "
                "not ended"
            )


def _check(workload: Workload, empty: EmptyCluster) -> None:
    if not workload.jobs:
        raise CannotRun("the workload has no job")
    uid, times = Counter(each.job.uid for each in workload.jobs).most_common(1)[0]
    if times > 1:
        raise CannotRun(f"{times} jobs have the UID {uid}")
    for each in workload.jobs:
        least = each.job.bounds.minimum
        if empty.servers(each.job, least) is None:
            raise CannotRun(
                f"job {each.job.key} does not fit on the empty cluster, not even at its least, "
                f"{least}"
            )


def _measure(training: Training, pre_run: PreRun, empty: EmptyCluster, at: float) -> float:
    """Measure a job's speed at counts that tell most about it; returns when that is done."""
    job = training.truth.job
    fitting = [
        counts for counts in _within(job, pre_run.widest) if empty.servers(job, counts) is not None
    ]
    for _ in range(pre_run.samples):
        first = job.counts if job.counts in fitting and not training.samples else None
        counts = first or next_sample(training.samples, fitting, job.mode, job.batch)
        servers = None if counts is None else empty.servers(job, counts)
        if servers is None:
            break
        at += pre_run.seconds
        training.add_sample(training.measure(servers, pre_run.seconds, at))
    return at


def _within(job: Job, widest: int) -> list[Counts]:
    least, bounds = job.bounds.minimum, job.bounds
    return [
        Counts(ps, workers)
        for ps in range(least.ps, max(widest, least.ps) + 1)
        for workers in range(least.workers, max(widest, least.workers) + 1)
        if bounds.allow(Counts(ps, workers))
    ]
