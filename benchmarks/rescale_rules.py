"""What the autoscaler's rules about stopping jobs are worth:
``python -m benchmarks.rescale_rules [--jobs 60] [--seeds 10] [--loss-seconds 300] [--only limit]``.

The paper's workload runs under ``optimus`` with all rules, and with one of them replaced by what
was done before it. In the second half one worker is lost every ``--loss-seconds`` on average.
Printed is one line of CSV for each setting, means over the seeds, and the mean difference of the
average completion time to the first line, seed by seed, with its 95 % interval.

A job is *stopped* from the first placement to its end, as long as it does not train. Its *share* is
the part of its time from arrival to end in which it trains; Jain's index of these is 1 where all
jobs have the same."""

import argparse
import csv
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Final

import numpy as np
from numpy.random import Generator

from benchmarks.fairness import jain
from optimus.interval.capacity_plan import Held
from optimus.jobs import Counts, Role
from optimus.rescale.disruption import DEFAULT_LIMITS, UNLIMITED, DisruptionLimits, Limit
from optimus.rescale.machine import Rescale
from optimus.rescale.purpose import RescalePurpose
from optimus.rescale.words import RescaleRecord, Step
from optimus.simulator.cluster import JobState, Phase, SimulatedCluster
from optimus.simulator.engine import simulate
from optimus.simulator.presets import preset, with_loop
from optimus.simulator.results import Simulation
from optimus.simulator.streams import Purpose, stream
from optimus.simulator.summary import Estimate
from optimus.simulator.workload import WORKLOADS

LIFETIME_MOVES: Final = 20
"""As many rescales a job had in its life, before there was a rate."""

Change = Callable[[SimulatedCluster], None]
"""Is called after every instant, and does to the cluster what a rule would not allow."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What replaces a rule; ``measures_prices``: the price of a rescale is measured."""

    measures_prices: bool = True
    limits_lifetime: bool = False
    keeps_growth: bool = False
    loses: bool = False
    shrinks: bool = False
    """Whether a job of which a worker is lost goes on with one worker."""
    limits: DisruptionLimits = UNLIMITED
    """How many jobs may be stopped at once."""


RULES: Final[Mapping[str, Setting]] = {
    "all rules": Setting(),
    "price: 60 s, not measured": Setting(measures_prices=False),
    "20 moves in a lifetime, no rate": Setting(limits_lifetime=True),
    "without a forecast: keeps what it grew to": Setting(keeps_growth=True),
    "all three as before": Setting(False, True, True),
}
LIMITS: Final[Mapping[str, Setting]] = {
    "limit: none": Setting(),
    "limit: 25 %, 50 % of a namespace": Setting(limits=DEFAULT_LIMITS),
    "limit: one job": Setting(limits=DisruptionLimits(Limit(number=1))),
}
LOSSES: Final[Mapping[str, Setting]] = {
    "lost workers: replaced at the same counts": Setting(loses=True),
    "lost workers: shrunk to one worker": Setting(loses=True, shrinks=True),
}


def limit_lifetime(cluster: SimulatedCluster) -> None:
    """No move after so many of them, and any number within an hour."""
    for state in cluster.states.values():
        spent = state.record.rescales >= LIFETIME_MOVES
        state.record = replace(state.record, moves=(math.inf,) * 64 if spent else ())


def keep_growth(cluster: SimulatedCluster) -> None:
    """It is not known which counts a user has set."""
    for state in cluster.states.values():
        state.record = replace(state.record, user_counts=None)


@dataclass(slots=True)
class Losses:
    """Workers that are lost at random; their nodes are there again at once."""

    rng: Generator
    seconds: float
    shrinks: bool
    next_at: float = 0.0

    def __call__(self, cluster: SimulatedCluster) -> None:
        """Lose a worker when it is time."""
        if cluster.now < self.next_at:
            return
        self.next_at = cluster.now + self.rng.exponential(self.seconds)
        running = [
            each
            for each in cluster.states.values()
            if each.phase is Phase.TRAINING and each.rescale is None
        ]
        several = [each for each in running if each.job.counts.workers > 1]
        if several:
            self._lose(cluster, several[int(self.rng.integers(len(several)))])

    def _lose(self, cluster: SimulatedCluster, state: JobState) -> None:
        at, before, why = cluster.now, state.job.counts, "a worker is lost"
        # Neither waits for anything; a recovery does not count as a rescale.
        target, purpose = before, RescalePurpose.RECOVERY
        if self.shrinks:
            target, purpose = Counts(before.ps, 1), RescalePurpose.TAKE_BACK
        record = RescaleRecord(why, at, before, target, why, Step.CHECKPOINT, at, purpose=purpose)
        state.rescale = Rescale(record, needs_checkpoint=False)
        cluster.reserve(state, _held(state, target))


def _held(state: JobState, counts: Counts) -> Iterable[Held]:
    left = {Role.PS: counts.ps, Role.WORKER: counts.workers}
    for pod in state.pods:
        assert pod.replica is not None
        if left.get(pod.replica.role, 1) > 0:
            left[pod.replica.role] = left.get(pod.replica.role, 1) - 1
            yield Held(pod.replica, pod.node, pod.resources)


@dataclass(slots=True)
class Stopped:
    """The most jobs that were stopped for rescales at one instant, of those that run."""

    share: float = 0.0

    def __call__(self, cluster: SimulatedCluster) -> None:
        """Look at the cluster."""
        states = [each for each in cluster.states.values() if each.is_placed]
        stopped = sum(each.is_stopped for each in states)
        if len(states) >= 4:
            self.share = max(self.share, stopped / len(states))


def run(setting: Setting, jobs: int, seed: int, loss_seconds: float) -> dict[str, float]:
    """The figures of one simulation."""
    config = replace(preset("optimus"), measures_prices=setting.measures_prices)
    config = with_loop(config, disruption=setting.limits)
    stopped = Stopped()
    changes: list[Change] = [stopped]
    if setting.limits_lifetime:
        changes.append(limit_lifetime)
    if setting.keeps_growth:
        changes.append(keep_growth)
    if setting.loses:
        rng = stream(seed, Purpose.STRAGGLING, "lost workers")
        changes.append(Losses(rng, loss_seconds, setting.shrinks))

    def watch(cluster: SimulatedCluster) -> None:
        for change in changes:
            change(cluster)

    workload = WORKLOADS["uniform"](jobs, stream(seed, Purpose.WORKLOAD))
    return figures(simulate(workload, config, seed, watch), stopped.share)


def figures(found: Simulation, stopped_share: float) -> dict[str, float]:
    """Means over the jobs."""
    times = [each.completion_seconds for each in found.jobs]
    stops = [each.finished_at - each.placed_at - each.trained_seconds for each in found.jobs]
    return {
        "average JCT s": fmean(times),
        "p95 JCT s": float(np.percentile(times, 95)),
        "stopped s": fmean(stops),
        "restarts": fmean(each.restarts for each in found.jobs),
        "stopped at once": stopped_share,
        "Jain of shares": jain(
            [each.trained_seconds / each.completion_seconds for each in found.jobs]
        ),
    }


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1, help="the first of them")
    parser.add_argument("--loss-seconds", type=float, default=300.0)
    parser.add_argument("--only", default="", help="settings whose names contain this")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.seeds)
    writer = csv.writer(sys.stdout)
    for table in (RULES, LIMITS, LOSSES):
        settings = {name: each for name, each in table.items() if options.only in name}
        first: list[float] = []
        for name, setting in settings.items():
            one = partial(run, setting, options.jobs, loss_seconds=options.loss_seconds)
            each_seed = [one(seed) for seed in seeds]
            if not first:
                writer.writerow(["setting", *each_seed[0], "difference s", "from", "to"])
                first = [each["average JCT s"] for each in each_seed]
            differences = [
                each["average JCT s"] - usual for each, usual in zip(each_seed, first, strict=True)
            ]
            difference = Estimate.of(differences)
            means = [fmean(each[key] for each in each_seed) for key in each_seed[0]]
            ends = (difference.mean, difference.low, difference.high)
            shown = [f"{value:.3f}" for value in [*means, *(each or 0.0 for each in ends)]]
            writer.writerow([name, *shown])
            sys.stdout.flush()


if __name__ == "__main__":
    main()
