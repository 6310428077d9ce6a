"""Policies on the same jobs under assumptions that ``optimus simulate`` does not offer.

``python -m benchmarks.simulated_options NAME [--policies NAME,...] [--jobs N] [--seeds N]
[--workloads N] [--look-seconds N]`` prints the table of that command under one of these:

- ``usual``: none, the reference;
- ``pre-run``: every policy has the paper's pre-run, and no profiling runs;
- ``equal-terms``: beside that, the same epochs left of a job without a fit;
- ``truth``: remaining times and speeds are known;
- ``alone``: jobs learn nothing from those that ended;
- ``quarter``: at most a quarter of the jobs is stopped for rescales at once;
- ``costless``: starts and stops take no time, no worker straggles, and measures are exact."""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from optimus.cli.arguments import whole_number
from optimus.cli.simulate import USUAL_POLICIES, Comparison, summary_table
from optimus.rescale.disruption import DisruptionLimits, Limit
from optimus.simulator.forecasts import FittedForecasts, TrueForecasts
from optimus.simulator.presets import (
    EPOCHS_LEFT,
    PreRun,
    SchedulerConfig,
    with_loop,
)
from optimus.simulator.stops import Stops
from optimus.simulator.workload import WORKLOADS

_QUARTER: Final = DisruptionLimits(Limit(percent=25.0))
Adjust = Callable[[SchedulerConfig], SchedulerConfig]


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


def _looking(adjust: Adjust | None, seconds: float, config: SchedulerConfig) -> SchedulerConfig:
    return with_loop(config if adjust is None else adjust(config), look_seconds=seconds)


ASSUMPTIONS: Final[Mapping[str, Adjust | None]] = {
    "usual": None,
    "pre-run": with_pre_run,
    "equal-terms": with_published_forecasts,
    "truth": None,
    "alone": partial(with_loop, uses_earlier_runs=False),
    "quarter": partial(with_loop, disruption=_QUARTER),
    "costless": None,
}


def compared(name: str, jobs: int, workloads: int = 0, look_seconds: float = 0.0) -> Comparison:
    """What is the same for every policy and seed under one of the assumptions."""
    usual = WORKLOADS["uniform"]
    return Comparison(
        maker=replace(usual, config=replace(usual.config, families=workloads)),
        jobs=jobs,
        forecasts=TrueForecasts() if name == "truth" else FittedForecasts(),
        stops=Stops(costless=name == "costless"),
        adjust=partial(_looking, ASSUMPTIONS[name], look_seconds),
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    add, count = parser.add_argument, whole_number(1)
    add("name", choices=tuple(ASSUMPTIONS))
    add("--policies", default=",".join(USUAL_POLICIES))
    add("--jobs", type=count, default=60)
    add("--seeds", type=count, default=3)
    add("--workloads", type=whole_number(0), default=0)
    add("--look-seconds", type=float, default=0.0)
    options = parser.parse_args()
    comparison = compared(options.name, options.jobs, options.workloads, options.look_seconds)
    policies, seeds = options.policies.split(","), range(1, options.seeds + 1)
    print(summary_table([comparison.run((each, seed)) for each in policies for seed in seeds]))


if __name__ == "__main__":
    main()
