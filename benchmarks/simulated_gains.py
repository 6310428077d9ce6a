"""``optimus`` to the paper's algorithm, and to jobs that nobody moves, in settings of every kind:
``python -m benchmarks.simulated_gains [--settings default ...] [--seeds 10] [--truth FILE]``.

A row of CSV is printed for each setting: the average completion time (JCT) of the other and of
``optimus``; its ratio with the 95 % interval, seed by seed; the ratios of the 95th percentile and
of the makespan; the 95th percentile and the largest of the jobs' own ratios, means over the seeds.
Jobs of ``optimus`` take ten seconds to save when they are stopped, those of the paper none; in the
setting ``checkpoints`` the paper's save every 300 s and lose what they trained since. In each
setting each job has an image of its own first, then jobs of one type and mode have one. ``--truth``
names the speeds of the setting ``measured``, as ``optimus simulate`` reads them."""

import argparse
import csv
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.measured_truth import read_measured
from benchmarks.paper_setups import FEW_JOBS, JOBS, REPRODUCED
from optimus.errors import NotReady
from optimus.jobs import Goal, Job, TrainingMode
from optimus.models.expectation import EPOCHS_LEFT
from optimus.models.forecast import Forecast, forecast_job
from optimus.progress.types import TrainingProgress
from optimus.simulator.engine import Observer, simulate
from optimus.simulator.forecasts import FittedForecasts
from optimus.simulator.ground_truth.assignment import AssignmentRule
from optimus.simulator.ground_truth.measured import MeasuredTruths
from optimus.simulator.jobs import Checkpoints, SimulatedJob, Workload
from optimus.simulator.presets import FIXED, PreRun, SchedulerConfig, preset, with_loop
from optimus.simulator.stops import Stops
from optimus.simulator.streams import Purpose, stream
from optimus.simulator.summary import Estimate
from optimus.simulator.training import Training
from optimus.simulator.user_counts import UserCounts
from optimus.simulator.workload import (
    Arrivals,
    RandomWorkload,
    WorkloadConfig,
    at_intervals,
    uniform,
)

WRONG: Final = 0.3
"""By so much speeds and epochs are wrong; so many of the jobs are killed."""
OURS: Final = "optimus"

Change = Callable[[Workload, int], Workload]
"""What else is different with a seed."""


Adapt = Callable[[SchedulerConfig], SchedulerConfig]


def as_configured(config: SchedulerConfig) -> SchedulerConfig:
    """The configuration as it is."""
    return config


def as_drawn(workload: Workload, _: int) -> Workload:
    """The workload as it is."""
    return workload


def measured(truths: MeasuredTruths, workload: Workload, _: int) -> Workload:
    """The workload with measured speeds."""
    return truths.apply(workload)


def with_wrong_speeds(workload: Workload, _: int) -> Workload:
    """A speed is measured wrong from a start to the next."""
    jobs = (replace(each, speed_noise=WRONG) for each in workload.jobs)
    return replace(workload, jobs=tuple(jobs))


def with_kills(workload: Workload, seed: int) -> Workload:
    """Three in ten jobs end at a random point of their training."""
    rng = np.random.default_rng(seed)

    def killed(simulated: SimulatedJob) -> SimulatedJob:
        is_killed, part = rng.random() < WRONG, rng.random()
        end = Training(simulated, seed).end_epochs
        return replace(simulated, most_epochs=max(int(end * part), 1)) if is_killed else simulated

    return replace(workload, jobs=tuple(map(killed, workload.jobs)))


def wrong_epochs(
    job: Job, progress: TrainingProgress, goal: Goal | None = None
) -> Forecast | NotReady:
    """The forecast with too much or too little work left, always the same for a job."""
    forecast = forecast_job(job, progress, goal)
    if isinstance(forecast, NotReady):
        return forecast
    sign = 1 if zlib.crc32(job.uid.encode()) % 2 else -1
    return replace(forecast, remaining_steps=forecast.remaining_steps * (1 + sign * WRONG))


def with_pre_run(usual: SchedulerConfig) -> SchedulerConfig:
    """The same configuration with the paper's pre-run instead of profiling runs."""
    driver = usual.loop.driver
    interval = replace(driver.interval, profiling=replace(driver.interval.profiling, runs=0))
    return replace(with_loop(usual, driver=replace(driver, interval=interval)), pre_run=PreRun())


def with_published_forecasts(usual: SchedulerConfig) -> SchedulerConfig:
    """The same configuration on equal terms with the published policies: where ours fits its
    forecasts, a pre-run instead of profiling runs, and the same epochs left of a job without a
    fit."""
    forecasts = usual.forecasts
    if not (usual.weighs_restarts and isinstance(forecasts, FittedForecasts)):
        return usual
    forecasts = replace(forecasts, epochs_left=EPOCHS_LEFT)
    return replace(with_pre_run(usual), forecasts=forecasts)


@dataclass(frozen=True, slots=True)
class Setting:
    """Jobs, what is known of them, and the policy that ``optimus`` is compared with."""

    jobs: int = JOBS
    arrivals: Arrivals = uniform
    config: WorkloadConfig = field(default_factory=WorkloadConfig)
    forecasts: FittedForecasts = field(default_factory=FittedForecasts)
    equal_terms: bool = False
    other: str = "optimus-paper"
    theirs: Stops = field(default_factory=Stops)
    """What stopping a job of the other costs; ours takes ten seconds to save."""
    counts: UserCounts | None = None
    """At which the users submit their jobs; ``None``: 1 PS and 1 worker."""
    change: Change = as_drawn

    def run(
        self,
        policy: str,
        seed: int,
        *,
        by_image: bool,
        adapt: Adapt = as_configured,
        watch: Observer | None = None,
    ) -> "Outcome":
        """One simulation; ``adapt`` changes the configuration of its policy."""
        drawn = RandomWorkload("paper", self.arrivals, replace(self.config, by_image=by_image))
        workload = drawn(self.jobs, stream(seed, Purpose.WORKLOAD))
        ours = policy == OURS
        if self.counts is not None:
            workload = self.counts.of(workload)
        stops = Stops(save_seconds=10.0) if ours else self.theirs
        config = replace(preset(policy, self.forecasts), measures_prices=ours)
        if self.equal_terms:
            config = with_published_forecasts(config)
        found = simulate(stops.of(self.change(workload, seed)), adapt(config), seed, watch)
        times = np.array([each.completion_seconds for each in found.jobs])
        return Outcome(times, found.makespan_seconds)


class Outcome(NamedTuple):
    """The completion times of one simulation's jobs in order of their arrival, and its makespan, in
    seconds."""

    times: NDArray[np.float64]
    makespan: float

    def to(self, other: "Outcome") -> tuple[float, ...]:
        """The ratios of a row."""
        of_jobs = self.times / other.times
        p95, other_p95 = (float(np.percentile(each.times, 95)) for each in (self, other))
        return (
            float(self.times.mean() / other.times.mean()),
            p95 / other_p95,
            self.makespan / other.makespan,
            float(np.percentile(of_jobs, 95)),
            float(of_jobs.max()),
        )


_REPRODUCED: Final = Setting(
    FEW_JOBS, REPRODUCED.arrivals, replace(REPRODUCED.config, assignment=AssignmentRule.PAA)
)
_WRONG_EPOCHS: Final = FittedForecasts(fit=wrong_epochs)

SETTINGS: Final[Mapping[str, Setting]] = {
    "fixed 1 + 1": Setting(other=FIXED),
    "fixed sensible": Setting(other=FIXED, counts=UserCounts.SENSIBLE),
    "fixed best": Setting(other=FIXED, counts=UserCounts.BEST),
    "default": Setting(),
    "interval-starts": Setting(arrivals=at_intervals),
    "reproduced": _REPRODUCED,
    "checkpoints": Setting(theirs=Stops(Checkpoints(every_seconds=300.0))),
    "54% load": Setting(120),
    "interval-starts, equal terms": Setting(arrivals=at_intervals, equal_terms=True),
    "reproduced, equal terms": replace(_REPRODUCED, equal_terms=True),
    "measured": Setting(config=WorkloadConfig(mode=TrainingMode.SYNC)),
    "wrong speeds and epochs": Setting(forecasts=_WRONG_EPOCHS, change=with_wrong_speeds),
    "heavy tails": Setting(config=WorkloadConfig(size_spread=1.2)),
    "kills": Setting(change=with_kills),
    "97% load": Setting(215),
    "65 nodes": Setting(5 * JOBS, config=WorkloadConfig(machines=5)),
    "260 nodes": Setting(20 * JOBS, config=WorkloadConfig(machines=20)),
}


_COLUMNS: Final = (
    *("setting", "images", "other s", "optimus s", "ratio", "from", "to"),
    *("p95", "makespan", "job p95", "job max"),
)


def main() -> None:
    """Run the settings that were asked for, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1, help="the first of them")
    parser.add_argument("--settings", nargs="+", choices=tuple(SETTINGS), default=tuple(SETTINGS))
    parser.add_argument("--truth", type=Path, help="speeds of the setting measured")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.seeds)
    writer = csv.writer(sys.stdout)
    writer.writerow(_COLUMNS)
    for name in options.settings:
        setting = SETTINGS[name]
        if name == "measured":
            if options.truth is None:
                continue
            truths = read_measured(options.truth)
            setting = replace(setting, change=partial(measured, truths))
        others = [setting.run(setting.other, seed, by_image=False) for seed in seeds]
        for by_image in (False, True):
            ours = list(map(partial(setting.run, OURS, by_image=by_image), seeds))
            writer.writerow([name, "recur" if by_image else "own", *_row(others, ours)])
            sys.stdout.flush()


def _row(others: list[Outcome], ours: list[Outcome]) -> list[str]:
    ratios = [one.to(other) for one, other in zip(ours, others, strict=True)]
    jct = Estimate.of([each[0] for each in ratios])
    seconds = (np.mean([each.times.mean() for each in those]) for those in (others, ours))
    ends = (jct.mean, jct.low, jct.high)
    rest = np.mean(ratios, axis=0)[1:]
    return [
        *(f"{each:.0f}" for each in seconds),
        *(f"{each or float('nan'):.3f}" for each in (*ends, *rest)),
    ]


if __name__ == "__main__":
    main()
