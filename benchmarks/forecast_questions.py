"""Questions on runs whose end is known, beyond those of ``optimus evaluate convergence``."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from optimus.cli.evaluate_convergence import (
    EvaluatedForecast,
    ForecastQuestion,
    first_at_most,
    floor,
    lowest_target,
    questions_from,
)
from optimus.errors import NotReady
from optimus.jobs import TargetLoss
from optimus.models.convergence import PublishedCurve
from optimus.models.convergence.series import learning_rate_drops
from optimus.progress.types import LossPoint


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
