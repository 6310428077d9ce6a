"""The constants of the loss curve without a schedule, tried one by one:
``python -m benchmarks.curve_constants [--runs 15]``.

The runs are the recorded logs, networks that are trained here (``benchmarks.trained_runs``),
formulas with noise, and the published runs of ``tests/data/curves/published_runs.json``. What lies
behind a drop of the learning rate that nothing announces cannot be foreseen, so forecasts are asked
for from one drop to the next: at 30 % and 50 % of the first stretch and 5 epochs after each drop,
for targets that lie everywhere in the rest of the stretch. The model is told no rates: it finds the
drops by the losses.

The score is the mean pinball loss of the median and the interval's ends, as a part of the run (a
proper score: Gneiting and Raftery 2007), averaged over families of runs; a forecast that is not
ready or says "not reachable" counts as off by half a run. For each constant: the score of each
value relative to that of the product's values, and ``left_out``: each family's score under the
value that is best on all others, relative to the product's. Near 1, choosing the constant on these
runs brings nothing; above, a choice on some families costs others."""

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from statistics import fmean
from types import ModuleType
from typing import Final

from benchmarks.convergence_model import RECORDED, formulas, trained
from benchmarks.scheduled_runs import AFTER_DROP, CHOSEN_TARGETS, RUNS, Run, pinball
from optimus.cli.convergence_evaluation import ForecastQuestion, questions_after_drops, questions_at
from optimus.cli.training_log import read_training_log
from optimus.errors import NotReady
from optimus.models.convergence import (
    LossCurve,
    TotalPrior,
    courses,
    curve,
    posterior,
    series,
)
from optimus.models.convergence.curve import CurveConstants
from optimus.models.convergence.series import learning_rate_drops
from optimus.progress.types import LossPoint

PARTS: Final = (0.3, 0.5)
UNANSWERED: Final = 0.5
CONSTANTS: Final[Mapping[str, Sequence[object]]] = {
    "PAST_WINDOWS": ((0.2, 0.6), (0.3, 0.6), (0.5, 0.8)),
    "_TEMPER": (0.05, 0.1, 0.25, 0.5),
    "INEXACT": (0.001, 0.002, 0.006, 0.01),
    "_NO_FLOOR": (0.25, 0.75),
    "_FORM_SPREAD": ((0.5, 1.5), (2.0, 6.0)),
    "_TIMES_NOISE": (5.0, 12.0),
    "_TIMES_SLOPE": (3.0, 12.0),
    "_LEAST_FALL": (0.05, 0.2),
    "_NOISE_RATIO": (0.5, 1.0),
    "USUAL_EPOCHS": tuple(
        TotalPrior(math.log(median), spread)
        for median, spread in ((40, 0.9), (90, 0.9), (60, 0.7), (60, 1.2))
    ),
    "blur": (0.3, 0.45, 0.8),
    "slower": (-0.3, 0.1, 0.25),
    "slower_first": (0.0, 3.0, 6.0),
    "by_chance": (0.01, 0.05),
    "doubt": (0.05, 0.2),
}
"""Values besides the product's, about half and twice as large."""
MODULES: Final[Sequence[ModuleType]] = (series, posterior, courses, curve)
OF_CURVE: Final = {each.name for each in fields(CurveConstants)}


@dataclass(slots=True)
class Family:
    """Runs of one origin, and what is asked of each."""

    name: str
    asked: list[tuple[Sequence[LossPoint], ForecastQuestion]] = field(default_factory=list)

    def add(self, points: Sequence[LossPoint]) -> None:
        """Ask about a run whose points name the rate: in each stretch of a constant one."""
        drops = learning_rate_drops(points)
        first = [point.loss for point in points[: drops[0].index if drops else None]]
        questions = (
            *questions_at(first, PARTS, CHOSEN_TARGETS),
            *questions_after_drops(points, AFTER_DROP, CHOSEN_TARGETS),
        )
        told = tuple(replace(point, learning_rate=None) for point in points)
        self.asked += [(told, question) for question in questions]

    def score(self, constants: CurveConstants) -> float:
        """The mean pinball loss; stretches without a question have none."""
        fits: dict[tuple[int, int], LossCurve | NotReady] = {}
        losses = []
        for points, question in self.asked:
            key = id(points), question.seen
            if key not in fits:
                fits[key] = LossCurve.fit(points[: question.seen])
            fitted = fits[key]
            found = (
                fitted
                if isinstance(fitted, NotReady)
                else replace(fitted, constants=constants).until(question.goal)
            )
            losses.append(UNANSWERED if isinstance(found, NotReady) else pinball(found, question))
        return fmean(losses)


def main() -> None:
    """Try every value of every constant and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15, help="networks trained of each type")
    families = list(families_of(parser.parse_args().runs))
    own = [family.score(CurveConstants()) for family in families]
    found = {}
    for name, values in CONSTANTS.items():
        print(f"\r{name:20}", end="", file=sys.stderr)
        scores = {str(value_of(name)): own}
        for value in values:
            scores[str(value)] = scores_with(name, value, families)
        found[name] = compared(scores, own)
    print(file=sys.stderr)
    questions = {family.name: len(family.asked) for family in families}
    scored = dict(zip(questions, (round(score, 4) for score in own), strict=True))
    print(json.dumps({"questions": questions, "scores": scored, "constants": found}, indent=2))


def families_of(runs: int) -> Iterator[Family]:
    """All families with at least one question."""
    families: dict[str, Family] = {}

    def add(name: str, points: Sequence[LossPoint]) -> None:
        families.setdefault(name, Family(name)).add(points)

    for log in sorted(RECORDED.glob("*.log")):
        add("recorded logs", read_training_log(log).epoch_means())
    for stepped in (False, True):
        for run in trained(7, runs, stepped=stepped):
            add("trained, step decay" if stepped else "trained, constant rate", run)
    for noise in (0.01, 0.05):
        for run in formulas(7, noise):
            add("formulas", run)
    for published in map(Run.of, json.loads(RUNS.read_text())):
        add(published.family, with_rates(published))
    return (family for family in families.values() if family.asked)


def with_rates(run: Run) -> tuple[LossPoint, ...]:
    """The run's points with the learning rate, where drops are declared."""
    drops, factor = run.schedule.drops, run.schedule.factor
    if not drops:
        return run.points
    rates = [0.1 * factor ** sum(drop <= n for drop in drops) for n in range(len(run.points))]
    return tuple(
        replace(point, learning_rate=rate) for point, rate in zip(run.points, rates, strict=True)
    )


def value_of(name: str) -> object:
    """The product's value."""
    if name in OF_CURVE:
        return getattr(CurveConstants(), name)
    return next(getattr(module, name) for module in MODULES if hasattr(module, name))


def scores_with(name: str, value: object, families: Sequence[Family]) -> list[float]:
    """Each family's score where a constant has another value."""
    if name in OF_CURVE:
        constants = replace(CurveConstants(), **{name: value})  # type: ignore[arg-type]
        return [family.score(constants) for family in families]
    own = value_of(name)
    _set(name, value)
    try:
        return [family.score(CurveConstants()) for family in families]
    finally:
        _set(name, own)


def _set(name: str, value: object) -> None:
    for module in MODULES:
        if hasattr(module, name):
            setattr(module, name, value)
    for cache in (courses._tables, posterior._weighted_past):  # noqa: SLF001 - of the constants
        cache.cache_clear()


def compared(scores: Mapping[str, Sequence[float]], own: Sequence[float]) -> dict[str, object]:
    """Each value's score over that of the product's values, and that of families left out."""
    usual = fmean(own)

    def best_without(left_out: int) -> str:
        def score(value: str) -> float:
            return fmean(each for n, each in enumerate(scores[value]) if n != left_out)

        return min(scores, key=score)

    left_out = [scores[best_without(n)][n] for n in range(len(own))]
    return {
        "product": next(iter(scores)),
        "relative": {value: round(fmean(each) / usual, 4) for value, each in scores.items()},
        "left_out": round(fmean(left_out) / usual, 4),
        "chosen": sorted({best_without(n) for n in range(len(own))}),
    }


if __name__ == "__main__":
    main()
