"""What is said of a move against what comes:
``python -m benchmarks.calibration [--counts 1+2 2+3] [--seeds 1-6] [--world 2] [--json]``.

The jobs of ``benchmarks.virtual_pairs``, and the 60 of ``benchmarks.simulated_gains`` (setting
``default``), run under ``optimus``. Every few seconds each training job is asked about a move to
the counts, up to twice its own, at which its forecast, or else what is expected of it, says it
is fastest. *Came* is by the job's true end and its true speeds alone on the cluster. Of the moves
so looked at a row has, by the pairs of counts that were measured: the mean chance said, and the
part that would have gained more than the price; the mean saving said and that which comes, in
seconds; the error of the logarithm of the ratio of the two speeds, its mean and standard deviation,
and the deviation said; how likely what was free was said to stay free until the job's end, at the
rate of the last arrivals, and the part that did."""

import argparse
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks.simulated_gains import OURS, SETTINGS
from benchmarks.virtual_pairs import add_cases, managed_config, run_cases, workload
from optimus.errors import NotReady
from optimus.interval.worth import chance_of_saving, last_arrived, loan_until_used
from optimus.jobs import Counts, Job
from optimus.models.expectation import expect_job
from optimus.models.forecast import Forecast, forecast_job
from optimus.models.speed.model import SpeedModel
from optimus.placement.theorem1 import Theorem1
from optimus.resources import total
from optimus.simulator.cluster import SimulatedCluster, SimulatedJobState, SimulatedPhase
from optimus.simulator.engine import simulate
from optimus.simulator.speeds import EmptyCluster, UncontendedSpeed

PAIR_SECONDS: Final = 20.0
WORLD_SECONDS: Final = 300.0
_MOST: Final = 8
_MEASURED: Final = 3
"""Jobs with so many pairs of counts or more are one row."""


class Look(NamedTuple):
    """What is said of one move of one job, and what comes of it."""

    measured: int
    """Pairs of counts at which its speed is known."""
    chance: float
    gained: bool
    said_seconds: float
    came_seconds: float
    ratio_error: float
    """Logarithm of the ratio of the speeds said, less that of the true ones."""
    said_deviation: float
    declared: bool
    """Whether its log declares an end."""
    left_seconds: float
    """What is truly left at its present counts."""
    loan_said: float = 0.0
    """How likely what is free now is said to stay so until its end."""
    loan_lasted: bool = False


class _Lent(NamedTuple):
    """A look, and the submissions after it that use up what is free."""

    look: Look
    at: float
    arrivals: int

    def once_arrived(self, submitted: Sequence[float]) -> Look:
        """The look once it is known when jobs arrived."""
        end = self.at + self.look.left_seconds
        until = sum(self.at < each < end for each in submitted)
        return self.look._replace(loan_lasted=until < self.arrivals)


@dataclass
class Looks:
    """Looks at all training jobs of a simulation every so many seconds."""

    every_seconds: float
    price_seconds: float
    found: list[_Lent] = field(default_factory=list)
    arrived: dict[str, Job] = field(default_factory=dict)
    next_at: float = 0.0

    def __call__(self, cluster: SimulatedCluster) -> None:
        """Look if it is time."""
        if cluster.now < self.next_at:
            return
        self.next_at = cluster.now + self.every_seconds
        cluster.catch_up()
        empty = EmptyCluster(cluster.nodes, Theorem1())
        self.arrived |= {uid: each.job for uid, each in cluster.states.items()}
        free = total(node.allocatable for node in cluster.nodes) - total(cluster.used().values())
        loan = loan_until_used(
            last_arrived(self.arrived.values()), free, cluster.now, self.every_seconds
        )
        for state in cluster.states.values():
            if state.phase is SimulatedPhase.TRAINING and not state.training.is_finished:
                for each in look_at(state, empty, cluster.now, self.price_seconds):
                    said = float(np.mean(loan.quantiles() >= each.left_seconds))
                    look = each._replace(loan_said=said)
                    self.found.append(_Lent(look, cluster.now, loan.arrivals))

    def told(self) -> list[Look]:
        """All looks, once the simulation has ended."""
        submitted = [job.created_at for job in self.arrived.values()]
        return [each.once_arrived(submitted) for each in self.found]


def look_at(
    state: SimulatedJobState, empty: EmptyCluster, at: float, price_seconds: float
) -> list[Look]:
    """What is said of the fastest move of a job; none where no larger counts are faster."""
    progress, now, training = state.progress(at), state.job.counts, state.training
    forecast = forecast_job(state.job, progress)
    if isinstance(forecast, NotReady):
        forecast = expect_job(state.job, progress, forecast)
    if not isinstance(forecast, Forecast) or forecast.goal_met:
        return []
    most = Counts(*(min(2 * each, _MOST) for each in now))
    then = min(state.job.bounds.up_to(most), key=forecast.at, default=now)
    left, after = forecast.at(now), forecast.at(then)
    truth = UncontendedSpeed(training.truth, empty)
    if then == now or not math.isfinite(left + after) or min(map(truth.at, (now, then))) <= 0:
        return []
    steps = (training.end_epochs - training.epochs) * training.truth.steps_per_epoch
    true_left, true_after = steps / truth.at(now), steps / truth.at(then)
    came, deviation = true_left - true_after, 0.0
    if isinstance(forecast.speed, SpeedModel):
        deviation = float(forecast.speed.ratio_uncertainty(now, *then)[0])
    return [
        Look(
            len({each.counts for each in progress.samples}),
            chance_of_saving(forecast, now, then, price_seconds),
            came > price_seconds,
            left - after,
            came,
            math.log(left / after) - math.log(true_left / true_after),
            deviation,
            progress.declared.epochs is not None,
            true_left,
        )
    ]


def row(looks: Sequence[Look]) -> dict[str, float]:
    """What some looks say together."""
    errors = [each.ratio_error for each in looks]
    return {
        "looks": len(looks),
        "chance": float(np.mean([each.chance for each in looks])),
        "gained": float(np.mean([each.gained for each in looks])),
        "saving said, s": float(np.mean([each.said_seconds for each in looks])),
        "came, s": float(np.mean([each.came_seconds for each in looks])),
        "ratio's error": float(np.mean(errors)),
        "its deviation": float(np.std(errors)),
        "deviation said": float(np.mean([each.said_deviation for each in looks])),
        "loan lasts": float(np.mean([each.loan_said for each in looks])),
        "lasted": float(np.mean([each.loan_lasted for each in looks])),
    }


def rows(name: str, looks: Iterable[Look]) -> dict[str, dict[str, float]]:
    """A row for each number of measured pairs, each fifth of the chance, and for jobs whose logs
    declare an end, or none."""
    kinds = dict[str, list[Look]]()
    for each in looks:
        number = min(each.measured, _MEASURED)
        more = " or more" if number == _MEASURED else ""
        fifth = min(int(5 * each.chance), 4) / 5
        end = "declared end" if each.declared else "no declared end"
        for kind in (f"{number}{more} measured", f"said {fifth:.1f} to {fifth + 0.2:.1f}", end):
            kinds.setdefault(f"{name}, {kind}", []).append(each)
    return {kind: row(kinds[kind]) for kind in sorted(kinds)}


def of_pair(case: tuple[Counts, int]) -> list[Look]:
    """The looks of the six jobs of a seed."""
    (counts, seed), config = case, managed_config()
    looks = Looks(PAIR_SECONDS, config.loop.driver.interval.rescale_seconds)
    simulate(workload(seed, counts), config, seed, looks)
    return looks.told()


def of_world(seed: int) -> list[Look]:
    """The looks of one seed of the world."""
    looks = Looks(WORLD_SECONDS, 60.0)
    SETTINGS["default"].run(OURS, seed, by_image=False, watch=looks)
    return looks.told()


def main() -> None:
    """Look at all jobs, and print what was said and what came."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_cases(parser, ("1+2", "2+3"), "1-6")
    parser.add_argument("--world", type=int, default=2, metavar="SEEDS")
    given = parser.parse_args()
    of_pairs = run_cases(product(given.counts, given.seeds), of_pair, given.processes)
    of_worlds = run_cases(range(1, given.world + 1), of_world, given.processes)
    pairs, worlds = (list(chain.from_iterable(each)) for each in (of_pairs, of_worlds))
    answer: Mapping[str, Mapping[str, Any]] = {**rows("pairs", pairs), **rows("world", worlds)}
    if given.json:
        print(json.dumps(answer, indent=1, allow_nan=False))
        return
    print(f"{'':28}", *next(iter(answer.values()), {}), sep=" | ")
    for name, found in answer.items():
        print(f"{name:28}", *(f"{each:.2f}" for each in found.values()), sep=" | ")


if __name__ == "__main__":
    main()
