"""What it is worth that lost workers are put back:
``python -m benchmarks.rescale_rules [--jobs 60] [--seeds 10] [--loss-seconds 300]``.

The paper's workload runs under ``optimus``, and one worker is lost every ``--loss-seconds`` on
average: it is put back by a restart of its job, or the job goes on with one worker. Printed is one
line of CSV for each, means over the seeds, and the mean difference of the average completion time
to the first line, seed by seed, with its 95 % interval.

A job is *stopped* from the first placement to its end, as long as it does not train. Its *share* is
the part of its time from arrival to end in which it trains; Jain's index of these is 1 where all
jobs have the same."""

import argparse
import csv
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final

import numpy as np
from numpy.random import Generator

from benchmarks.fairness import jain
from optimus.interval.capacity_plan import Held
from optimus.jobs import Counts, Role
from optimus.rescale.machine import Rescale
from optimus.rescale.purpose import RescalePurpose
from optimus.rescale.words import RescaleRecord, Step
from optimus.simulator.cluster import JobState, Phase, SimulatedCluster
from optimus.simulator.engine import simulate
from optimus.simulator.presets import preset
from optimus.simulator.results import Simulation
from optimus.simulator.streams import Purpose, stream
from optimus.simulator.summary import Estimate
from optimus.simulator.workload import WORKLOADS

LOST: Final[Mapping[str, bool]] = {
    "replaced at the same counts": False,
    "shrunk to one worker": True,
}
"""What becomes of a job's other workers -> whether the job goes on with one."""


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


def run(seed: int, jobs: int, loss_seconds: float, *, shrinks: bool) -> dict[str, float]:
    """The figures of one simulation."""
    config = replace(preset("optimus"), measures_prices=True)
    losses = Losses(stream(seed, Purpose.STRAGGLING, "lost workers"), loss_seconds, shrinks)
    workload = WORKLOADS["uniform"](jobs, stream(seed, Purpose.WORKLOAD))
    return figures(simulate(workload, config, seed, losses))


def figures(found: Simulation) -> dict[str, float]:
    """Means over the jobs."""
    times = [each.completion_seconds for each in found.jobs]
    stops = [each.finished_at - each.placed_at - each.trained_seconds for each in found.jobs]
    return {
        "average JCT s": fmean(times),
        "p95 JCT s": float(np.percentile(times, 95)),
        "stopped s": fmean(stops),
        "restarts": fmean(each.restarts for each in found.jobs),
        "Jain of shares": jain(
            [each.trained_seconds / each.completion_seconds for each in found.jobs]
        ),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1, help="the first of them")
    parser.add_argument("--loss-seconds", type=float, default=300.0)
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.seeds)
    writer = csv.writer(sys.stdout)
    first: list[float] = []
    for name, shrinks in LOST.items():
        rows = [run(seed, options.jobs, options.loss_seconds, shrinks=shrinks) for seed in seeds]
        times = [row["average JCT s"] for row in rows]
        if not first:
            writer.writerow(["lost workers", *rows[0], "difference s", "from", "to"])
            first = times
        apart = Estimate.of([time - usual for time, usual in zip(times, first, strict=True)])
        means = [fmean(row[key] for row in rows) for key in rows[0]]
        ends = (each or 0.0 for each in (apart.mean, apart.low, apart.high))
        writer.writerow([name, *(f"{value:.3f}" for value in [*means, *ends])])
        sys.stdout.flush()


if __name__ == "__main__":
    main()
