"""What managing jobs is worth in the simulator, in seconds of real time:
``python -m benchmarks.virtual_pairs [--counts 1+2 2+3 5+5] [--seeds 1-20] [--truth] [--json]``.

The six jobs of ``benchmarks.live_jobs`` run twice on virtual time: under ``optimus``, and at their
users' counts. As in ``benchmarks.live_worth`` settings are a tenth of the product's; a job starts
within 4 s and restarts within 4 to 9 s, and as many jobs are stopped at once as the product allows.
With ``--truth`` the policy knows each job's speed alone on the cluster, and its end.

A row is a mean over the seeds: the mean completion time of the managed jobs divided by that of the
untouched ones, with its 95 % interval (Student's t); the jobs that end more than 5 % later than
untouched; the most that a job ends later, as a ratio; what each job of a seed does is in the JSON.
"""

import argparse
import json
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from autoscaler.settings import Settings
from benchmarks.live_jobs import (
    FASTER,
    NODES,
    PlannedJob,
    Saving,
    epoch_losses,
    planned_jobs,
    step_seconds,
)
from benchmarks.simulated_gains import Adapt, as_configured
from examples.light.costs import Costs
from examples.light.problem import INITIAL_LOSS
from optimus.interval import IntervalConfig, ProfilingConfig
from optimus.interval.driver import DriverConfig
from optimus.jobs import (
    Batch,
    BatchScope,
    Counts,
    Goal,
    Job,
    JobKey,
    ReplicaSpec,
    RescaleRule,
    TargetEpochs,
    TargetLoss,
    TrainingMode,
    default_workload,
)
from optimus.nodes import Node
from optimus.rescale.disruption import DEFAULT_LIMITS
from optimus.resources import Resources
from optimus.simulator.engine import simulate
from optimus.simulator.forecasts import FittedForecasts, ForecastSource, TrueForecasts
from optimus.simulator.ground_truth.testbed import SPEED_NOISE
from optimus.simulator.jobs import SimulatedJob, Workload
from optimus.simulator.presets import SchedulerConfig, preset, with_loop
from optimus.simulator.summary import Estimate

_Case = TypeVar("_Case")
_Found = TypeVar("_Found")

LATE: Final = 1.05
"""A job that takes so many times as long as untouched is late."""

MEAN_SECONDS: Final = 300.0
_MIB: Final = 2**20
_NODE: Final = Resources({"cpu": int(NODES[0].removesuffix("m")), "memory": 2**34, "pods": 110})
_PS: Final = ReplicaSpec(Resources({"cpu": 500, "memory": 64 * _MIB, "pods": 1}))
_WORKER: Final = ReplicaSpec(Resources({"cpu": 1000, "memory": 64 * _MIB, "pods": 1}))
_BATCH: Final = 64
_START_SECONDS: Final = 4.0
_RESTART_SECONDS: Final = (4.0, 5.0, 6.0, 7.0, 8.0, 9.0)
_LEAVING_SECONDS: Final = 1.0
_TICK_SECONDS: Final = 0.5
_ASYNC_NOISE: Final = 0.01


@dataclass(frozen=True)
class StatedSpeed:
    """The speed that a job's stated costs give; implements ``simulator.jobs.TrueSpeed``."""

    costs: Costs
    synchronous: bool

    def steps_per_second(
        self, servers: tuple[Counts, ...], straggling: tuple[float, ...] = (), /
    ) -> float:
        """The steps of the whole job in a second, wherever its replicas are."""
        ps, workers = (sum(each) for each in zip(*servers, strict=True))
        slowest = min(straggling, default=1.0)
        return slowest / step_seconds(self.costs, ps, workers, self.synchronous)


@dataclass(frozen=True)
class StatedLoss:
    """The losses of the light jobs' problem; implements ``simulator.jobs.TrueLoss``."""

    losses: tuple[float, ...]

    def after(self, epochs: float, /) -> float:
        """The mean loss of the epoch that ends after so many epochs."""
        return float(np.interp(epochs, range(1, len(self.losses) + 1), self.losses))


class Pair(NamedTuple):
    """One seed at one pair of counts: completion times in order of arrival, in seconds."""

    counts: Counts
    seed: int
    managed: tuple[float, ...]
    untouched: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The mean completion time, managed to untouched."""
        return sum(self.managed) / sum(self.untouched)

    @property
    def job_ratios(self) -> tuple[float, ...]:
        """The same of each job."""
        return tuple(a / b for a, b in zip(self.managed, self.untouched, strict=True))


Row = Mapping[str, Any]
"""The figures of a row by name, as the JSON has them."""


def simulated(planned: PlannedJob) -> SimulatedJob:
    """A planned job as the simulator runs it. Its accuracy is a function of its loss: a target of
    one is simulated as the loss at which it is met."""
    job, synchronous = planned.job, planned.is_synchronous
    notes = job.annotations or {}
    per_epoch = float(notes["optimus.dl/steps-per-epoch"])
    epochs = round(planned.steps / per_epoch)
    losses = epoch_losses(planned.steps, float(job.flags["--learning-rate"]), round(per_epoch))
    submitted = Job(
        key=JobKey("pairs", job.name),
        uid=job.name,
        kind=job.kind,
        created_at=planned.arrives_at,
        counts=Counts(job.ps, job.workers),
        ps=_PS,
        worker=_WORKER,
        mode=TrainingMode.SYNC if synchronous else TrainingMode.ASYNC,
        batch=Batch(_BATCH, BatchScope.JOB if synchronous else BatchScope.WORKER),
        steps_per_epoch=per_epoch,
        goal=_goal(notes),
        finish_by=planned.arrives_at + planned.slack_seconds if planned.slack_seconds else None,
        rescale=RescaleRule.ANY,
        saves_on_stop=True,
        workload=notes.get("optimus.dl/workload", default_workload(job.name)),
    )
    return SimulatedJob(
        job=submitted,
        kind=job.kind,
        speed=StatedSpeed(planned.costs, synchronous),
        loss=StatedLoss(losses),
        steps_per_epoch=per_epoch,
        most_epochs=epochs,
        goal_at=1.0,
        speed_noise=SPEED_NOISE,
        loss_noise=0.0 if synchronous else _ASYNC_NOISE,
        start_seconds=_START_SECONDS,
        restart_seconds=_RESTART_SECONDS,
    )


def _goal(notes: Mapping[str, str]) -> Goal:
    if "optimus.dl/target-epochs" in notes:
        return TargetEpochs(float(notes["optimus.dl/target-epochs"]))
    if "optimus.dl/target-loss" in notes:
        return TargetLoss(float(notes["optimus.dl/target-loss"]))
    accuracy = float(notes["optimus.dl/target"].removeprefix("accuracy>="))
    return TargetLoss(INITIAL_LOSS * (1.0 - accuracy))


def workload(seed: int, counts: Counts, mean_seconds: float = MEAN_SECONDS) -> Workload:
    """The six jobs of a seed, on the nodes of the live clusters."""
    planned = planned_jobs(seed, (counts.ps, counts.workers), mean_seconds, Saving(True, 3600.0))
    nodes = tuple(Node(f"node-{at}", _NODE) for at in range(len(NODES)))
    return Workload("pairs", tuple(map(simulated, planned)), nodes)


@cache
def faster_driver(measures: bool = True) -> DriverConfig:
    """The product's settings, divided as on the live clusters."""
    usual = Settings()
    interval = IntervalConfig(
        rescale_seconds=usual.rescale_cost_seconds / FASTER,
        hysteresis_fraction=usual.least_gain_percent / 100,
        cooldown_seconds=usual.rescale_spacing_seconds / FASTER,
        moves_per_hour=round(usual.moves_per_hour * FASTER),
        profiling=ProfilingConfig(
            runs=usual.profiling_samples - 1,
            steady_seconds=usual.profiling_seconds / FASTER,
            first_steady_seconds=usual.profiling_seconds / FASTER / 2,
            run_limit_seconds=5 * usual.profiling_seconds / FASTER,
        ),
    )
    return DriverConfig(
        interval=interval,
        interval_seconds=usual.interval_seconds / FASTER,
        early_interval_seconds=usual.early_interval_seconds / FASTER,
        measures=measures,
    )


def managed_config(*, truth: bool = False) -> SchedulerConfig:
    """How the six jobs are managed."""
    forecasts: ForecastSource = TrueForecasts() if truth else FittedForecasts()
    usual = with_loop(
        preset("optimus", forecasts),
        driver=faster_driver(measures=not truth),
        tick_seconds=_TICK_SECONDS,
        disruption=DEFAULT_LIMITS,
    )
    return replace(usual, leaving_seconds=_LEAVING_SECONDS, measures_prices=True)


def run_pair(
    case: tuple[Counts, int],
    *,
    truth: bool = False,
    mean_seconds: float = MEAN_SECONDS,
    adapt: Adapt = as_configured,
) -> Pair:
    """Run the jobs of one seed, submitted at these counts, managed and untouched."""
    (counts, seed), config = case, adapt(managed_config(truth=truth))
    return Pair(
        counts,
        seed,
        _seconds(workload(seed, counts, mean_seconds), config, seed),
        _untouched(counts, seed, mean_seconds),
    )


@cache
def _untouched(counts: Counts, seed: int, mean_seconds: float) -> tuple[float, ...]:
    config = with_loop(managed_config(), moves=False)
    return _seconds(workload(seed, counts, mean_seconds), config, seed)


def _seconds(jobs: Workload, config: SchedulerConfig, seed: int) -> tuple[float, ...]:
    return tuple(each.completion_seconds for each in simulate(jobs, config, seed).jobs)


def run_cases(
    cases: Iterable[_Case], run: Callable[[_Case], _Found], processes: int
) -> Iterator[_Found]:
    """Run all cases on so many processes; what is found comes in their order."""
    if processes == 1:
        yield from map(run, cases)
        return
    with closing(multiprocessing.get_context("spawn").Pool(processes)) as pool:
        yield from pool.imap(run, cases)


def row(pairs: Sequence[Pair]) -> Row:
    """What the pairs of one pair of counts say together."""
    found = Estimate.of([each.ratio for each in pairs])
    of_jobs = [ratio for each in pairs for ratio in each.job_ratios]
    return {
        "managed / untouched": found.mean,
        "interval": [found.low, found.high],
        "managed, s": float(np.mean([each.managed for each in pairs])),
        "untouched, s": float(np.mean([each.untouched for each in pairs])),
        "jobs": len(of_jobs),
        "jobs more than 5 % late": sum(each > LATE for each in of_jobs),
        "worst": max(of_jobs),
        "seeds": {str(each.seed): [round(one, 3) for one in each.job_ratios] for each in pairs},
    }


def _line(name: str, found: Row) -> str:
    ends = " .. ".join("-" if each is None else f"{each:.3f}" for each in found["interval"])
    late = f"{found['jobs more than 5 % late']} of {found['jobs']}"
    seconds = f"{found['managed, s']:10.0f}  {found['untouched, s']:12.0f}"
    ratio = found["managed / untouched"]
    return f"{name:6}  {ratio:8.3f}  {ends:>16}  {late:>9}  {found['worst']:6.2f}  {seconds}"


def counts_of(text: str) -> Counts:
    """Counts as a user writes them: 2+3."""
    ps, _, workers = text.partition("+")
    return Counts(int(ps), int(workers))


def seeds_of(text: str) -> tuple[int, ...]:
    """Seeds as a user writes them: 7, or 1-20."""
    first, _, last = text.partition("-")
    return tuple(range(int(first), int(last or first) + 1))


def add_cases(parser: argparse.ArgumentParser, counts: Sequence[str], seeds: str) -> None:
    """The options that say which pairs are run."""
    usual = [counts_of(each) for each in counts]
    parser.add_argument("--counts", nargs="+", type=counts_of, default=usual, metavar="PS+WORKERS")
    parser.add_argument("--seeds", type=seeds_of, default=seeds_of(seeds), metavar="FIRST-LAST")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", action="store_true")


def main() -> None:
    """Run the pairs that were asked for, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_cases(parser, ("1+2", "2+3", "5+5"), "1-20")
    parser.add_argument("--seconds", type=float, default=MEAN_SECONDS, help="mean length of a job")
    parser.add_argument("--truth", action="store_true", help="true speeds and ends are known")
    given = parser.parse_args()
    run = partial(run_pair, truth=given.truth, mean_seconds=given.seconds)
    pairs = list(run_cases(product(given.counts, given.seeds), run, given.processes))
    rows = {
        f"{ps}+{workers}": row([each for each in pairs if each.counts == (ps, workers)])
        for ps, workers in given.counts
    }
    if given.json:
        print(json.dumps(rows, indent=1, allow_nan=False))
        return
    print("counts  managed / untouched  from .. to    late       worst  managed, s  untouched, s")
    for name, each in rows.items():
        print(_line(name, each))


if __name__ == "__main__":
    main()
