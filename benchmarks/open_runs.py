"""Forecasts without a declared end:
``python -m benchmarks.open_runs [--kept-apart] [--choose]``.

The runs are networks that are trained here (``benchmarks.trained_runs``), formulas with noise,
curves of the paper's own form, and the families ``CHOSEN_ON`` of
``tests/data/curves/published_runs.json`` without what they declare. ``--kept-apart`` takes the
networks of ``runs_kept_apart.json``, on which nothing was chosen.

A forecast is asked for from parts of a run, after some epochs, and 5 epochs after the learning rate
has dropped. What lies behind a drop that nothing announces cannot be foreseen, so the last asks for
targets until the next one. The model is told no rates. For each origin: how many forecasts give no
figure, how often the 80 % interval of the others holds the true epoch, their error as a part of the
run with 95 % of it by a bootstrap over families, and how far ahead the median is as a part of the
true distance. Beside them the paper's curve, the rule "twice the epochs seen", and what is
expected of a run of which nothing is known. ``unmet``: goals of 0.75, 0.5 and 0.25 of a run's least
loss, how likely they are said to be, and how many are called unlikely.

``--choose`` tries each constant at other values, on whole runs and on blocks of epochs as epochs.
The score is the mean pinball loss of the median and the interval's ends, as a part of the run (a
proper score: Gneiting and Raftery 2007), averaged over families; a forecast that is not ready or
says "not reachable" counts as off by half a run. For each constant: the score of each value
relative to that of the product's values, and ``left_out``: each family's score under the value that
is best on all others, relative to the product's. Near 1, choosing the constant on these runs brings
nothing; above, a choice on some families costs others."""

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from statistics import fmean, median
from types import ModuleType
from typing import Final, NamedTuple

import numpy as np

from benchmarks.forecast_questions import questions_after, questions_after_drops, unreachable
from benchmarks.scheduled_runs import (
    AFTER_DROP,
    PARTS,
    TARGETS,
    Run,
    error_interval,
    pinball,
    published_runs,
    runs_kept_apart,
)
from benchmarks.trained_runs import formulas, paper_form, trained
from optimus.cli.evaluate_convergence import ForecastQuestion, questions_at
from optimus.errors import NotReady
from optimus.models.convergence import (
    LossCurve,
    PublishedCurve,
    TimeToGoal,
    TotalPrior,
    courses,
    curve,
    posterior,
    series,
)
from optimus.models.convergence.curve import CurveConstants
from optimus.models.convergence.distribution import USUAL_EPOCHS
from optimus.progress.types import LossPoint

AFTER_EPOCHS: Final = (5, 10, 20, 50)
UNREACHABLE: Final = (0.75, 0.5, 0.25)
UNANSWERED: Final = 0.5
CHOSEN_ON: Final = ("kinetics", "cifar", "imagenet", "pose")
SEED: Final = 7
BLOCKS: Final = (1, 2, 3, 4, 6, 8, 12)
SHORTEST: Final = 15
CONSTANTS: Final[Mapping[str, Sequence[object]]] = {
    "PAST_WINDOWS": ((0.2, 0.6), (0.5, 0.8)),
    "_TEMPER": (0.15, 0.4),
    "INEXACT": (0.001, 0.004),
    "_NO_FLOOR": (0.25, 0.75),
    "_FORM_SPREAD": ((0.5, 1.5), (2.0, 6.0)),
    "_TIMES_NOISE": (5.0, 12.0),
    "_TIMES_SLOPE": (3.0, 12.0),
    "_LEAST_FALL": (0.05, 0.2),
    "_NOISE_RATIO": (0.5, 1.0),
    "USUAL_EPOCHS": tuple(
        TotalPrior(math.log(length), spread)
        for length, spread in ((40, 0.9), (90, 0.9), (60, 0.7), (60, 1.2))
    ),
    "blur": (0.2, 0.45),
    "slower": (2.0, 6.0),
    "by_chance": (0.01, 0.05),
    "doubt": (0.02, 0.1),
    "open_odds": (30.0, 120.0),
}
"""Values besides the product's, about half and twice as large."""
MODULES: Final[Sequence[ModuleType]] = (series, posterior, courses, curve)
OF_CURVE: Final = {each.name for each in fields(CurveConstants)}


class Asked(NamedTuple):
    """One question about a run whose points name no rate."""

    family: str
    points: tuple[LossPoint, ...]
    question: ForecastQuestion


class Answer(NamedTuple):
    """The forecast of one question; ``None``: no curve."""

    asked: Asked
    found: TimeToGoal | None

    @property
    def is_shown(self) -> bool:
        """Whether a figure is shown."""
        return self.found is not None and not self.found.is_unlikely

    @property
    def error(self) -> float:
        """As a part of the run, at most 1; 1 where no figure is shown."""
        if self.found is None or not self.is_shown:
            return 1.0
        return _off(self.found.point, self.asked.question)

    @property
    def holds(self) -> bool:
        """Whether the interval holds the true epoch."""
        true = self.asked.question.true
        return (
            self.found is not None
            and true is not None
            and (self.found.low <= true <= self.found.high)
        )

    @property
    def distance(self) -> float:
        """The median's distance as a part of the true one."""
        seen, true = self.asked.question.seen, self.asked.question.true
        return 0.0 if self.found is None else (self.found.point - seen) / ((true or 0) - seen)


@dataclass(slots=True)
class Questions:
    """Everything that is asked, and the fits that answer it."""

    asked: list[Asked] = field(default_factory=list)

    def add(self, family: str, points: Sequence[LossPoint]) -> None:
        """Ask about a run whose points name the rate where it drops."""
        losses = [point.loss for point in points]
        told = tuple(replace(point, learning_rate=None) for point in points)
        questions = [
            *questions_at(losses, PARTS, TARGETS),
            *questions_after(losses, AFTER_EPOCHS, TARGETS),
            *questions_after_drops(points, AFTER_DROP, TARGETS),
        ]
        never = [unreachable(questions, losses, part) for part in UNREACHABLE if min(losses) > 0]
        questions += [each for of_part in never for each in of_part]
        self.asked += [Asked(family, told, each) for each in questions]

    def answers(self, constants: CurveConstants | None = None) -> list[Answer]:
        """Forecasts that see nothing after the epochs seen."""
        fits: dict[tuple[int, int], LossCurve | NotReady] = {}
        found = []
        for each in self.asked:
            key = id(each.points), each.question.seen
            if key not in fits:
                fits[key] = LossCurve.fit(each.points[: each.question.seen])
            fitted = fits[key]
            if isinstance(fitted, LossCurve) and constants is not None:
                fitted = replace(fitted, constants=constants)
            until = (
                None if isinstance(fitted, NotReady) else fitted.time_to_goal(each.question.goal)
            )
            found.append(Answer(each, until))
        return found


def main() -> None:
    """Evaluate, or try every value of every constant, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="networks trained of each type")
    parser.add_argument("--choose", action="store_true", help="try other constants")
    parser.add_argument("--kept-apart", action="store_true", help="runs of other networks")
    options = parser.parse_args()
    questions = Questions()
    runs = other_runs() if options.kept_apart else runs_of(options.runs)
    for number, (family, points) in enumerate(runs):
        if not options.choose:
            questions.add(family, points)
        elif number % 3 == 0:
            questions.add(family, points)
            questions.add(family, in_blocks(points, number))
    found = tried(questions) if options.choose else evaluated(questions.answers())
    print(json.dumps(found, indent=2))


def runs_of(number: int) -> Iterator[tuple[str, Sequence[LossPoint]]]:
    """The runs on which constants were chosen, with their families."""
    for stepped in (False, True):
        for run in trained(SEED, number, stepped=stepped):
            yield "trained, step decay" if stepped else "trained, constant rate", run
    for noise in (0.01, 0.05):
        for run in formulas(SEED, noise):
            yield "formulas", run
    for run in paper_form(SEED, 2 * number):
        yield "the paper's form", run
    for published in published_runs():
        if published.family in CHOSEN_ON:
            yield published.family, with_rates(published)


def other_runs() -> Iterator[tuple[str, Sequence[LossPoint]]]:
    """The runs that were kept apart, with their families."""
    for run in runs_kept_apart():
        yield run.family, with_rates(run)


def with_rates(run: Run) -> tuple[LossPoint, ...]:
    """The run's points with the learning rate, where drops are declared."""
    drops, factor = run.schedule.drops, run.schedule.factor
    if not drops:
        return run.points
    rates = [0.1 * factor ** sum(drop <= n for drop in drops) for n in range(len(run.points))]
    return tuple(
        replace(point, learning_rate=rate) for point, rate in zip(run.points, rates, strict=True)
    )


def in_blocks(points: Sequence[LossPoint], number: int) -> tuple[LossPoint, ...]:
    """The same run with blocks of epochs as epochs, of one of the sizes that leave enough."""
    sizes = [size for size in BLOCKS if len(points) // size >= SHORTEST] or [1]
    size = sizes[number % len(sizes)]
    count = len(points) // size
    means = np.array([each.loss for each in points[: count * size]]).reshape(count, size).mean(1)
    return tuple(
        LossPoint(float(loss), n + 1.0, learning_rate=points[n * size].learning_rate)
        for n, loss in enumerate(means)
    )


def evaluated(answers: Sequence[Answer]) -> dict[str, object]:
    """Figures by origin over all families, and by family over the parts of a run."""
    origins = dict.fromkeys(each.asked.question.origin for each in answers)
    families = dict.fromkeys(each.asked.family for each in answers)
    parts = {f"{part:g}" for part in PARTS}
    of_parts = [each for each in answers if each.asked.question.origin in parts]
    return {
        **{
            origin: summary([each for each in answers if each.asked.question.origin == origin])
            for origin in origins
        },
        "families": {
            family: summary([each for each in of_parts if each.asked.family == family])
            for family in families
        },
    }


def summary(answers: Sequence[Answer]) -> dict[str, object]:
    """Means over the forecasts of goals that are met, and of those that are not."""
    met = [each for each in answers if each.asked.question.true is not None]
    unmet = [each.found for each in answers if each.asked.question.true is None and each.found]
    shown = [each for each in met if each.is_shown]
    if not shown:
        return {"predictions": len(met), "no_figure": 1.0}
    families = dict.fromkeys(each.asked.family for each in shown)
    return {
        "predictions": len(met),
        "no_figure": round(1 - len(shown) / len(met), 4),
        "interval_holds": round(fmean(each.holds for each in shown), 4),
        "true_is_later": round(
            fmean(
                (each.asked.question.true or 0) > each.found.high for each in shown if each.found
            ),
            4,
        ),
        "error": round(fmean(each.error for each in shown), 4),
        "error_interval": error_interval(
            [[each.error for each in shown if each.asked.family == name] for name in families]
        ),
        "median_distance": round(median(each.distance for each in shown), 4),
        "interval_width": round(
            median(
                (each.found.high - each.found.low) / each.asked.question.run
                for each in shown
                if each.found
            ),
            4,
        ),
        "all_errors": round(fmean(each.error for each in met), 4),
        **_baselines([each.asked for each in shown]),
        "unmet_said": round(fmean(each.in_run for each in unmet), 4) if unmet else None,
        "unmet_unlikely": round(fmean(each.is_unlikely for each in unmet), 4) if unmet else None,
    }


def _baselines(asked: Sequence[Asked]) -> dict[str, float]:
    """Errors on the questions that get a figure."""
    papers: dict[tuple[int, int], PublishedCurve | NotReady] = {}
    for each in asked:
        key = id(each.points), each.question.seen
        if key not in papers:
            papers[key] = PublishedCurve.fit(each.points[: each.question.seen])

    def paper(each: Asked) -> float:
        fitted = papers[id(each.points), each.question.seen]
        found = fitted if isinstance(fitted, NotReady) else fitted.until(each.question.goal)
        return 1.0 if isinstance(found, NotReady) else _off(found.point, each.question)

    def usual(each: Asked) -> float:
        return _off(USUAL_EPOCHS.after(float(each.question.seen)).point, each.question)

    return {
        "paper": round(fmean(paper(each) for each in asked), 4),
        "twice": round(fmean(_off(2.0 * each.question.seen, each.question) for each in asked), 4),
        "usual_run": round(fmean(usual(each) for each in asked), 4),
    }


def _off(epoch: float, question: ForecastQuestion) -> float:
    return min(abs(epoch - (question.true or 0)) / question.run, 1.0)


class Scores:
    """Each family's mean pinball loss."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._answers = [each for each in answers if each.asked.question.true is not None]

    @cached_property
    def families(self) -> dict[str, float]:
        """By family."""
        losses: dict[str, list[float]] = {}
        for each in self._answers:
            loss = UNANSWERED
            if each.found is not None and each.is_shown:
                loss = min(pinball(each.found, each.asked.question), UNANSWERED)
            losses.setdefault(each.asked.family, []).append(loss)
        return {family: fmean(of_family) for family, of_family in losses.items()}


def tried(questions: Questions) -> dict[str, object]:
    """The scores of every value of every constant."""
    own = list(Scores(questions.answers()).families.values())
    found = {}
    for name, values in CONSTANTS.items():
        print(f"\r{name:20}", end="", file=sys.stderr)
        scores = {str(value_of(name)): own}
        for value in values:
            scores[str(value)] = scores_with(name, value, questions)
        found[name] = compared(scores, own)
    print(file=sys.stderr)
    return {"score": fmean(own), "constants": found}


def value_of(name: str) -> object:
    """The product's value."""
    if name in OF_CURVE:
        return getattr(CurveConstants(), name)
    return next(getattr(module, name) for module in MODULES if hasattr(module, name))


def scores_with(name: str, value: object, questions: Questions) -> list[float]:
    """Each family's score where a constant has another value."""
    if name in OF_CURVE:
        constants = replace(CurveConstants(), **{name: value})  # type: ignore[arg-type]
        return list(Scores(questions.answers(constants)).families.values())
    own = value_of(name)
    _set(name, value)
    try:
        return list(Scores(questions.answers()).families.values())
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
