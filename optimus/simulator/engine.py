"""The simulator's loop: discrete events on a virtual clock, after each of which the scheduler acts.

Events are arrivals, the steps of every move, stragglers, ends, and the scheduler's own instants.
Between them nothing changes, and training is integrated in closed form. Results depend on no real
clock, no order of a dictionary and no shared stream of random numbers: the same seed gives the same
bytes."""

from collections import Counter
from collections.abc import Callable, Sequence

from optimus.jobs import Counts
from optimus.lifecycle import JobRecord
from optimus.models.experiment_design import next_sample
from optimus.models.speed.curve import SpeedTerms
from optimus.rescale.words import PauseReason
from optimus.simulator.cluster import SimulatedCluster, SimulatedJobState
from optimus.simulator.forecasts import GroundTruth
from optimus.simulator.jobs import SimulatedJob, Workload
from optimus.simulator.presets import PreRun, SchedulerConfig
from optimus.simulator.results import Simulation, TimelinePoint
from optimus.simulator.speeds import EmptyCluster
from optimus.simulator.training import Training


class WorkloadError(ValueError):
    """A workload that would never end; the message says why."""


Observer = Callable[[SimulatedCluster], None]
"""Is called with the cluster after every instant."""


def simulate(
    workload: Workload, config: SchedulerConfig, seed: int, watch: Observer | None = None
) -> Simulation:
    """Run a workload to its end; raises ``WorkloadError`` where it would have none."""
    loop = _Loop(workload, config, seed)
    while loop.goes_on:
        loop.step()
        if watch is not None:
            watch(loop.cluster)
    identity = config.name, workload.name, seed
    return Simulation.of(identity, loop.cluster, loop.timeline, loop.scheduler.forecasts)


class _Loop:
    def __init__(self, workload: Workload, config: SchedulerConfig, seed: int) -> None:
        self.cluster = SimulatedCluster(
            workload.nodes, config.leaving_seconds, measures_prices=config.measures_prices
        )
        self.timeline: list[TimelinePoint] = []
        self._config, self._seed = config, seed
        self._empty = EmptyCluster(self.cluster.nodes, config.placement)
        jobs = workload.jobs
        self._arrivals = sorted(jobs, key=lambda each: (-each.job.created_at, each.job.uid))
        self._trainings = {each.job.uid: Training(each, seed) for each in jobs}
        truth = GroundTruth(self._trainings.__getitem__, self._empty, seed)
        forecast_fn = config.forecasts.forecast_fn(truth)
        self.scheduler = config.scheduler(forecast_fn, self._empty, seed)
        self._quiet = 0
        _check(workload, self._empty)

    @property
    def goes_on(self) -> bool:
        """Return whether there is a job that has not ended."""
        return bool(self._arrivals or self.cluster.states)

    def step(self) -> None:
        """One instant."""
        cluster = self.cluster
        arrival = self._arrivals[-1].job.created_at if self._arrivals else float("inf")
        happens_at = min(cluster.next_at, arrival)
        next_action_at = self.scheduler.next_action_at(cluster, happens_at)
        at = min(happens_at, next_action_at)
        self._check_progress(at)
        changed = cluster.advance(at)
        while self._arrivals and self._arrivals[-1].job.created_at <= at:
            changed = True
            self._arrive(self._arrivals.pop())
        if changed or next_action_at <= at:
            self.scheduler.act(cluster)
            self._record_timeline()

    def _arrive(self, truth: SimulatedJob) -> None:
        training, pre_run = self._trainings[truth.job.uid], self._config.pre_run
        if pre_run is not None and pre_run.by_kind:
            _measure_kinds(self.cluster.kinds, training, pre_run, self._empty, self.cluster.now)
        elif pre_run is not None:
            _measure(training, pre_run, self._empty, self.cluster.now)
        record = JobRecord(user_counts=truth.job.counts)
        state = SimulatedJobState(truth, truth.job, training, self.cluster.now, record=record)
        if not self._config.weighs_restarts:
            state.suspended_by, state.pause = "submission", PauseReason.POLICY
        self.cluster.add(state)

    def _record_timeline(self) -> None:
        point = TimelinePoint.of(self.cluster)
        if self.timeline and self.timeline[-1].at == point.at:
            self.timeline.pop()
        self.timeline.append(point)

    def _check_progress(self, at: float) -> None:
        """Ends a simulation in which waiting jobs are never started, or a job always loses all."""
        futile = self.cluster.most_futile
        # Without a checkpoint between so many stops it will not end.
        if futile is not None and futile.training.futile_stops > 100:
            happens = (
                f"under {self._config.name}, {futile.job.key} is stopped before each checkpoint"
            )
            raise WorkloadError(f"{happens} and never ends: let jobs save more often")
        lives = self._arrivals or self.cluster.next_at < float("inf")
        self._quiet = 0 if lives else self._quiet + 1
        # Without a training, moving or arriving job for so long nothing will happen.
        if self._quiet > 200 or at == float("inf"):
            stuck = sorted(self.cluster.states.values(), key=lambda each: str(each.job.key))
            names = ", ".join(str(each.job.key) for each in stuck[:5])
            happens = f"under {self._config.name}, nothing happens any more to {names}"
            asked = [(each.job, each.job.bounds.clamp(each.truth.job.counts)) for each in stuck]
            large = [each for each in asked if self._empty.servers(*each) is None][:1]
            why = [f"; the empty cluster cannot hold {job.key} at {at}" for job, at in large]
            raise WorkloadError(f"{happens}, which have not ended{''.join(why)}")


def _check(workload: Workload, empty: EmptyCluster) -> None:
    if not workload.jobs:
        raise WorkloadError("the workload has no job")
    uid, times = Counter(each.job.uid for each in workload.jobs).most_common(1)[0]
    if times > 1:
        raise WorkloadError(f"{times} jobs have the UID {uid}")
    for each in workload.jobs:
        least = each.job.bounds.minimum
        if empty.servers(each.job, least) is None:
            fits = "does not fit on the empty cluster, even at its minimum"
            raise WorkloadError(f"job {each.job.key} {fits}, {least}")


def _measure(training: Training, pre_run: PreRun, empty: EmptyCluster, at: float) -> None:
    """Measure a job's speed at the most informative counts."""
    job = training.truth.job
    within = job.bounds.up_to(Counts(8, 8))
    fitting = [counts for counts in within if empty.servers(job, counts) is not None]
    for _ in range(pre_run.samples):
        first = job.counts if job.counts in fitting and not training.samples else None
        counts = first or next_sample(
            training.samples, fitting, SpeedTerms(job.mode, job.batch, pre_run.form)
        )
        servers = None if counts is None else empty.servers(job, counts)
        if servers is None:
            break
        training.add_sample(training.measure(servers, pre_run.seconds, at))


def _measure_kinds(
    kinds: Sequence[str], training: Training, pre_run: PreRun, empty: EmptyCluster, at: float
) -> None:
    """Measure a job's speed at its own counts on each kind of nodes."""
    job = training.truth.job
    servers = empty.servers(job, job.bounds.clamp(job.counts))
    if servers is not None:
        for kind in kinds:
            training.add_sample(training.measure(servers, pre_run.seconds, at, kind))
