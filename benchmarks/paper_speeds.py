"""How fast jobs run beside how fast they could run:
``python -m benchmarks.paper_speeds [--seeds 10] [--settings testbed reproduced]``.

The best counts of a job are those at which it is fastest alone on the cluster, placed by theorem 1,
among up to 20 PSs and 24 workers. Printed for each setup, as means over the time in which jobs
train: the true speed as a part of that at the best counts, the part of the time with more tasks
than the best counts have, the tasks, and the tasks of the best counts. JSON on the standard
output."""

import argparse
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product
from typing import Final, NamedTuple

from benchmarks.paper_setups import REFERENCE, SETTINGS, Setting, Setup, Task, mixed, setup
from optimus.jobs import Counts
from optimus.placement.theorem1 import Theorem1
from optimus.simulator.cluster import JobState, Phase, SimulatedCluster
from optimus.simulator.jobs import SimulatedJob
from optimus.simulator.speeds import EmptyCluster, UncontendedSpeed

_ALL_COUNTS: Final = tuple(Counts(*each) for each in product(range(1, 21), range(1, 25)))


class Best(NamedTuple):
    """A job's fastest counts alone on the cluster."""

    tasks: int
    rate: float
    """Epochs per second there."""


@dataclass(slots=True)
class SpeedBesideBest:
    """Watches simulations: adds up what each job that trains has, weighted by time."""

    best: dict[tuple[int, str], Best] = field(default_factory=dict)
    seconds: float = 0.0
    sums: list[float] = field(default_factory=lambda: [0.0] * 4)
    _seed: int = 0
    _at: float = 0.0
    _rows: tuple[tuple[float, ...], ...] = ()

    def begin(self, seed: int) -> None:
        """Another simulation begins."""
        self._seed, self._at, self._rows = seed, 0.0, ()

    def __call__(self, cluster: SimulatedCluster) -> None:
        """Take in the time since the last instant."""
        seconds, self._at = cluster.now - self._at, cluster.now
        for row in self._rows:
            self.seconds += seconds
            self.sums = [total + each * seconds for total, each in zip(self.sums, row, strict=True)]
        empty = EmptyCluster(cluster.nodes, Theorem1())
        training = (each for each in cluster.states.values() if each.phase is Phase.TRAINING)
        self._rows = tuple(self._row(each, empty) for each in training)

    @property
    def means(self) -> dict[str, float]:
        """The figures by name."""
        names = ("speed_of_best", "time_beyond_best", "tasks", "tasks_of_best")
        return {
            name: round(total / self.seconds, 3)
            for name, total in zip(names, self.sums, strict=True)
        }

    def _row(self, state: JobState, empty: EmptyCluster) -> tuple[float, ...]:
        key = self._seed, state.job.uid
        if key not in self.best:
            self.best[key] = best_of(state.truth, empty)
        best, tasks = self.best[key], sum(state.job.counts)
        rate = _rate(state.truth, state.job.counts, state.training.speed)
        return rate / best.rate, float(tasks > best.tasks), tasks, best.tasks


def best_of(truth: SimulatedJob, empty: EmptyCluster) -> Best:
    """The job's fastest counts; of equal ones the fewest tasks."""
    speed = UncontendedSpeed(truth, empty)
    rates = {counts: _rate(truth, counts, speed.at(counts)) for counts in _ALL_COUNTS}
    counts = max(rates, key=lambda each: (rates[each], -sum(each)))
    return Best(sum(counts), rates[counts])


def _rate(truth: SimulatedJob, counts: Counts, steps_per_second: float) -> float:
    return steps_per_second / truth.steps_in_epoch(counts.workers)


def measured(setting: Setting, each: Setup, seeds: Iterable[int]) -> dict[str, float]:
    """The figures of one setup, over all seeds."""
    watch = SpeedBesideBest()
    for seed in seeds:
        watch.begin(seed)
        Task(setting, each, seed).run(watch)
    return watch.means


def main() -> None:
    """Run the settings asked for and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds, from 1 on")
    parser.add_argument(
        "--settings", nargs="+", choices=tuple(SETTINGS), default=["testbed", "reproduced"]
    )
    options = parser.parse_args()
    answer: dict[str, object] = {"seeds": options.seeds}
    for name in options.settings:
        setting = SETTINGS[name]
        setups = (
            *(setup(policy, setting.forecasts) for policy in (REFERENCE, "drf", "tetris")),
            mixed("drf", "theorem1", forecasts=setting.forecasts),
        )
        answer[name] = {
            each.name: measured(setting, each, range(1, options.seeds + 1)) for each in setups
        }
    print(json.dumps(answer, indent=1, allow_nan=False))


if __name__ == "__main__":
    main()
