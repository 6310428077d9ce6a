"""What fairness costs and brings: ``python -m benchmarks.fairness [--jobs 60] [--seeds 3]
[--closer 1] [--truth]``.

The jobs of the paper's workload belong to three namespaces: of six jobs in a row four are of
``large``, one of ``middle`` and one of ``small``. The finish-time ratio of a job is its completion
time divided by that in a run of its namespace alone on a third of the nodes, with the same seed.
The index of Jain is that of the namespaces' mean inverse ratios: 1 where all fare alike. Printed is
one line of CSV for each setting, means over the seeds.
"""

import argparse
import csv
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Final

import numpy as np

from optimus.allocation.fairness import Fairness
from optimus.interval import IntervalConfig
from optimus.interval.driver import DriverConfig
from optimus.jobs import JobKey
from optimus.simulator.engine import simulate
from optimus.simulator.forecasts import FittedForecasts, TrueForecasts
from optimus.simulator.jobs import SimulatedJob, Workload
from optimus.simulator.presets import SchedulerConfig, preset
from optimus.simulator.scheduler import LoopConfig
from optimus.simulator.streams import Purpose, stream
from optimus.simulator.workload import WORKLOADS

NAMESPACES: Final = ("large", "large", "large", "large", "middle", "small")
NAMES: Final = ("large", "middle", "small")
SETTINGS: Final[Mapping[str, Fairness]] = {
    "log": Fairness(),
    "0": Fairness(0.0),
    "1": Fairness(1.0),
    "2": Fairness(2.0),
    "4": Fairness(4.0),
    "log, small weighs 4": Fairness(namespaces={"small": 4.0}),
    "1, small weighs 4": Fairness(1.0, {"small": 4.0}),
}
"""``fairness`` and ``namespace-weights``."""


def scheduler(fairness: Fairness, *, truth: bool) -> SchedulerConfig:
    """The product as on a cluster, with this objective."""
    usual = preset("optimus", TrueForecasts() if truth else FittedForecasts())
    driver = DriverConfig(interval=IntervalConfig(fairness=fairness), measures=not truth)
    return replace(usual, loop=LoopConfig(driver=driver))


def workload(jobs: int, seed: int, closer: float) -> Workload:
    """The paper's workload, its jobs in namespaces by the order of their arrival, which come so
    many times closer to each other."""
    drawn = WORKLOADS["uniform"](jobs, stream(seed, Purpose.WORKLOAD))
    in_order = sorted(drawn.jobs, key=lambda each: (each.job.created_at, each.job.uid))

    def in_namespace(each: SimulatedJob, namespace: str) -> SimulatedJob:
        key = JobKey(namespace, each.job.key.name)
        arrives_at = each.job.created_at / closer
        return replace(each, job=replace(each.job, key=key, created_at=arrives_at))

    names = (NAMESPACES[number % len(NAMESPACES)] for number in range(len(in_order)))
    moved = tuple(in_namespace(*pair) for pair in zip(in_order, names, strict=True))
    return replace(drawn, jobs=moved)


def alone(whole: Workload, seed: int, *, truth: bool) -> dict[str, float]:
    """Completion seconds by UID where each namespace has a third of the nodes for itself."""
    seconds: dict[str, float] = {}
    for number, name in enumerate(NAMES):
        own = tuple(each for each in whole.jobs if each.job.key.namespace == name)
        part = replace(whole, jobs=own, nodes=whole.nodes[number :: len(NAMES)])
        found = simulate(part, scheduler(Fairness(), truth=truth), seed)
        seconds |= {each.uid: each.completion_seconds for each in found.jobs}
    return seconds


def jain(values: Sequence[float]) -> float:
    """Jain's index of fairness."""
    return sum(values) ** 2 / (len(values) * sum(each * each for each in values))


def figures(
    whole: Workload, seconds: Mapping[str, float], isolated: Mapping[str, float]
) -> dict[str, float]:
    """Averages over jobs, and ratios by namespace."""
    of = {each.job.uid: each.job.key.namespace for each in whole.jobs}
    ratios: dict[str, list[float]] = {name: [] for name in NAMES}
    for uid, each in seconds.items():
        ratios[of[uid]].append(each / isolated[uid])
    means = {name: fmean(each) for name, each in ratios.items()}
    by_name = {f"ratio {name}": mean for name, mean in means.items()}
    every = [each for some in ratios.values() for each in some]
    return {
        "average JCT s": fmean(seconds.values()),
        "p95 JCT s": float(np.percentile(list(seconds.values()), 95)),
        **by_name,
        "p95 ratio": float(np.percentile(every, 95)),
        "Jain": jain([fmean(1 / each for each in ratios[name]) for name in NAMES]),
    }


def rows(
    jobs: int, seeds: Iterable[int], closer: float, *, truth: bool
) -> dict[str, dict[str, float]]:
    """The figures by setting, means over seeds."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in SETTINGS}
    for seed in seeds:
        whole = workload(jobs, seed, closer)
        isolated = alone(whole, seed, truth=truth)
        for name, fairness in SETTINGS.items():
            run = simulate(whole, scheduler(fairness, truth=truth), seed)
            seconds = {each.uid: each.completion_seconds for each in run.jobs}
            found[name].append(figures(whole, seconds, isolated))
    return {
        name: {key: fmean(each[key] for each in each_seed) for key in each_seed[0]}
        for name, each_seed in found.items()
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1, help="the first of them")
    parser.add_argument("--closer", type=float, default=1.0, help="arrivals, so many times")
    parser.add_argument("--truth", action="store_true", help="true forecasts, not fitted ones")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.seeds)
    table = rows(options.jobs, seeds, options.closer, truth=options.truth)
    writer = csv.writer(sys.stdout)
    writer.writerow(["fairness", *next(iter(table.values()))])
    for name, each in table.items():
        writer.writerow([name, *(f"{value:.3f}" for value in each.values())])


if __name__ == "__main__":
    main()
