"""What each rule of the product is worth:
``python -m benchmarks.ablation [--counts 1+2 2+3] [--seeds 1-6] [--world 2] [--rules ...]``.

One rule at a time is off, in the pairs of ``benchmarks.virtual_pairs`` and in the world of
``benchmarks.simulated_gains`` (60 jobs of the setting ``default``, so many seeds). A figure is the
mean completion time without the rule divided by that with it, the mean of the seeds' ratios: above
1 the rule was worth something. ``late`` counts the jobs of the pairs that end more than 5 % later
than untouched ones without the rule; the row ``as shipped`` has those with all rules."""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from benchmarks.simulated_gains import OURS, SETTINGS, Adapt, as_configured
from benchmarks.virtual_pairs import LATE, Pair, add_cases, run_cases, run_pair
from optimus.interval.driver import DriverConfig
from optimus.jobs import Counts
from optimus.rescale.disruption import UNLIMITED
from optimus.simulator.presets import SchedulerConfig, with_loop

SHIPPED: Final = "as shipped"
_NEVER_SECONDS: Final = 1e9
_NO_CAP: Final = 64


def loop(config: SchedulerConfig, **changes: Any) -> SchedulerConfig:
    """The configuration with these settings of ``LoopConfig``."""
    return with_loop(config, **changes)


def driver(config: SchedulerConfig, **changes: Any) -> SchedulerConfig:
    """The configuration with these settings of ``DriverConfig``."""
    return loop(config, driver=replace(config.loop.driver, **changes))


def interval(config: SchedulerConfig, **changes: Any) -> SchedulerConfig:
    """The configuration with these settings of ``IntervalConfig``."""
    return driver(config, interval=replace(config.loop.driver.interval, **changes))


def profiling(config: SchedulerConfig, **changes: Any) -> SchedulerConfig:
    """The configuration with these settings of ``ProfilingConfig``."""
    usual = config.loop.driver.interval.profiling
    return interval(config, profiling=replace(usual, **changes))


def without_early_intervals(config: SchedulerConfig) -> SchedulerConfig:
    """Counts are decided at regular intervals alone."""
    seconds = config.loop.driver.interval_seconds
    return driver(config, early_interval_seconds=seconds, young_interval_seconds=seconds)


def without_young_intervals(config: SchedulerConfig) -> SchedulerConfig:
    """Young jobs bring no interval forward by more than others."""
    usual: DriverConfig = config.loop.driver
    return driver(config, young_interval_seconds=usual.early_interval_seconds)


RULES: Final[Mapping[str, Adapt]] = MappingProxyType(
    {
        SHIPPED: as_configured,
        "growth by expectation": partial(driver, expects=False),
        "measuring": partial(driver, measures=False),
        "profiling runs": partial(profiling, runs=0),
        "growth limit": partial(profiling, max_replicas=_NO_CAP),
        "age limit of profiling": partial(profiling, trained_limit_seconds=_NEVER_SECONDS),
        "least gain": partial(interval, hysteresis_fraction=0.0),
        "cooldown": partial(interval, cooldown_seconds=0.0, young_cooldown_seconds=0.0),
        "cap of moves": partial(interval, moves_per_hour=_NO_CAP),
        "useless growth taken back": partial(interval, takes_back=False),
        "logarithm of remaining time": partial(interval, fairness=None),
        "early intervals": without_early_intervals,
        "young intervals": without_young_intervals,
        "earlier runs": partial(loop, uses_earlier_runs=False),
        "disruption budget": partial(loop, disruption=UNLIMITED),
    }
)
"""How each rule is switched off, by what it is called."""


def pair_figures(of_rule: Sequence[Pair], shipped: Sequence[Pair]) -> dict[str, Any]:
    """What a rule is worth in pairs of the same seeds, and who is late without it."""
    ratios = [
        sum(one.managed) / sum(other.managed) for one, other in zip(of_rule, shipped, strict=True)
    ]
    of_jobs = [ratio for each in of_rule for ratio in each.job_ratios]
    return {
        "worth": float(np.mean(ratios)),
        "late": sum(each > LATE for each in of_jobs),
        "jobs": len(of_jobs),
        "worst": max(of_jobs),
    }


def run_case(case: tuple[str, Counts, int]) -> Pair:
    """One pair without the rule that is named."""
    rule, counts, seed = case
    return run_pair((counts, seed), adapt=RULES[rule])


def run_world(case: tuple[str, int]) -> float:
    """The mean completion time of one seed of the world without the rule that is named."""
    rule, seed = case
    setting = SETTINGS["default"]
    found = setting.run(OURS, seed, by_image=False, adapt=RULES[rule])
    return float(found.times.mean())


def main() -> None:
    """Switch the rules off that were asked for, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_cases(parser, ("1+2", "2+3"), "1-6")
    parser.add_argument("--world", type=int, default=0, metavar="SEEDS", help="0: not run")
    parser.add_argument("--rules", nargs="+", choices=tuple(RULES), default=tuple(RULES))
    given = parser.parse_args()
    rules = list(dict.fromkeys([SHIPPED, *given.rules]))
    cases = list(product(rules, given.counts, given.seeds))
    pairs = dict(zip(cases, run_cases(cases, run_case, given.processes), strict=True))
    worlds = list(product(rules, range(1, given.world + 1)))
    seconds = dict(zip(worlds, run_cases(worlds, run_world, given.processes), strict=True))
    answer = dict[str, dict[str, Any]]()
    for rule in rules:
        found = {
            f"{ps}+{workers}": pair_figures(
                *(
                    [pairs[each, (ps, workers), seed] for seed in given.seeds]
                    for each in (rule, SHIPPED)
                )
            )
            for ps, workers in given.counts
        }
        ratios = [seconds[rule, at] / seconds[SHIPPED, at] for _, at in worlds[: given.world]]
        world = {"world": {"worth": float(np.mean(ratios))}} if ratios else {}
        answer[rule] = {**found, **world}
    if given.json:
        print(json.dumps(answer, indent=1, allow_nan=False))
        return
    for rule, figures in answer.items():
        cells = (_cell(name, each) for name, each in figures.items())
        print(f"{rule:28}", *cells, sep="  ")


def _cell(name: str, found: Mapping[str, Any]) -> str:
    if "late" not in found:
        return f"{name} {found['worth']:.3f}"
    late = f"late {found['late']} of {found['jobs']}, worst {found['worst']:.2f}"
    return f"{name} {found['worth']:.3f} ({late})"


if __name__ == "__main__":
    main()
