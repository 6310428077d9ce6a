"""Questions on runs whose end is known, beyond those of ``optimus evaluate convergence``.

``python -m benchmarks.forecast_questions [--after-drop K | --unreachable PART] LOG...`` predicts
from so many epochs after each drop of the learning rate, or asks also for a loss that is never
reached, and prints the table of that command."""

import argparse
import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Final

import numpy as np

from optimus.cli.evaluate_convergence import (
    EvaluatedForecast,
    ForecastQuestion,
    evaluated_runs,
    first_at_most,
    floor,
    lowest_target,
    questions_at,
    questions_from,
    text_of,
)
from optimus.cli.table import percent
from optimus.cli.training_log import TrainingLog, met_at, read_training_log
from optimus.errors import NotReady
from optimus.jobs import ConvergenceThreshold, TargetLoss
from optimus.models.convergence import PublishedCurve
from optimus.models.convergence.series import learning_rate_drops
from optimus.progress.types import NOTHING_DECLARED, Declared, LossPoint

PARTS: Final = (0.3, 0.5)
TARGETS: Final = (0.6, 0.75, 0.9)


def questions_after(
    losses: Sequence[float], epochs: Sequence[int], targets: Sequence[float]
) -> Iterator[ForecastQuestion]:
    """Ask after so many epochs, of a run that has more."""
    for seen in epochs:
        if seen < len(losses):
            yield from questions_from(f"{seen} epochs", seen, losses, targets)


def questions_after_drops(
    points: Sequence[LossPoint], after: int, targets: Sequence[float]
) -> Iterator[ForecastQuestion]:
    """Ask, from so many epochs after each drop of the learning rate, for targets until the next."""
    losses = np.array([point.loss for point in points])
    starts = [drop.index for drop in learning_rate_drops(points)]
    for start, end in pairwise([*starts, len(points)]):
        lowest = lowest_target(losses[start:end])
        for at in targets:
            target = float(lowest[max(floor(at * len(lowest)), 1) - 1])
            true = start + first_at_most(lowest, target)
            if true > start + after and math.isfinite(target):
                yield ForecastQuestion(
                    f"drop+{after}", start + after, len(points), TargetLoss(target), at, true
                )


def unreachable(
    asked: Sequence[ForecastQuestion], losses: Sequence[float], part: float
) -> Iterator[ForecastQuestion]:
    """Ask, from each question's epochs, for a target never reached: a part of the smallest loss."""
    for origin, seen in dict.fromkeys((question.origin, question.seen) for question in asked):
        yield ForecastQuestion(
            origin, seen, len(losses), TargetLoss(part * min(losses)), None, None
        )


def questions_of_threshold(
    points: Sequence[LossPoint],
    parts: Sequence[float],
    fraction: float,
    declared: Declared = NOTHING_DECLARED,
) -> Iterator[ForecastQuestion]:
    """Ask, from each part of the run, when its losses converge by the threshold's rule, judged on
    the whole run; nothing is asked after that epoch."""
    goal, run = ConvergenceThreshold(fraction), len(points)
    found = met_at(points, goal, declared)
    true = None if found is None else int(found)
    for part in parts:
        if true is None or true > floor(part * run):
            yield ForecastQuestion(f"{part:g}", floor(part * run), run, goal, None, true)


def reached_above_never(evaluated: Sequence[EvaluatedForecast]) -> float | None:
    """How often a target that is reached has a higher probability than one that is not."""
    reached = np.array([each.probability for each in evaluated if each.question.true is not None])
    never = np.array([each.probability for each in evaluated if each.question.true is None])
    if not reached.size or not never.size:
        return None
    higher = reached[:, np.newaxis] > never
    return float(np.mean(higher + 0.5 * (reached[:, np.newaxis] == never)))


def paper_error(points: Sequence[LossPoint], question: ForecastQuestion) -> float:
    """The error of the paper's model, as a part of the run."""
    curve = PublishedCurve.fit(points[: question.seen])
    until = curve if isinstance(curve, NotReady) else curve.until(question.goal)
    return question.error(None if isinstance(until, NotReady) else until.point) or 0.0


def asked_of(
    log: TrainingLog, after_drop: int | None, never: float | None
) -> list[ForecastQuestion]:
    """The questions of one log."""
    points = log.epoch_means()
    losses = [point.loss for point in points]
    if after_drop is not None:
        return list(questions_after_drops(points, after_drop, TARGETS))
    asked = list(questions_at(losses, PARTS, TARGETS))
    return asked if never is None else [*asked, *unreachable(asked, losses, never)]


def main() -> None:
    """Evaluate the logs that are named, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG")
    parser.add_argument("--after-drop", type=int, metavar="K")
    parser.add_argument("--unreachable", type=float, metavar="PART")
    options = parser.parse_args()
    asked = [
        (log, question)
        for log in map(read_training_log, options.logs)
        for question in asked_of(log, options.after_drop, options.unreachable)
    ]
    evaluated = evaluated_runs(asked)
    print(text_of(evaluated))
    found = [each for _, each in evaluated]
    known = [each for each in asked if each[1].true is not None]
    paper = percent(fmean(paper_error(log.epoch_means(), question) for log, question in known))
    print(f"error of the paper's model: {paper}")
    separation = reached_above_never(found)
    if separation is not None:
        print(f"a target that is reached has the higher probability: {separation:.0%}")


if __name__ == "__main__":
    main()
