"""Evaluates the convergence model on runs whose end is known: predicted against true epochs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from optimus.cli.training_log import met_at
from optimus.errors import NotReady
from optimus.jobs import ConvergenceThreshold, LossGoal, TargetLoss
from optimus.models.convergence import LearningRateSchedule, LossCurve, PublishedCurve, TimeToGoal
from optimus.models.convergence.series import learning_rate_drops
from optimus.progress.types import NOTHING_DECLARED, Declared, LossPoint

_ROUNDING: Final = 1e-9
"""A fraction times a number of epochs may miss a whole number by rounding."""


@dataclass(frozen=True, slots=True)
class ForecastQuestion:
    """Asks, from the first epochs of a run, when a target is met."""

    origin: str
    seen: int
    """Epochs that the models see, of ``run``."""
    run: int
    goal: LossGoal
    at: float | None
    """The target is the lowest that this part of the run meets; ``None``: it is never reached, or
    the goal is a threshold."""
    true: int | None
    """The epoch that met the goal; ``None``: never."""

    @property
    def target(self) -> float | None:
        """The loss to be met."""
        return self.goal.loss if isinstance(self.goal, TargetLoss) else None


@dataclass(frozen=True, slots=True)
class EvaluatedForecast:
    """The models' forecasts for one question; errors are parts of the run, at most 1."""

    question: ForecastQuestion
    time_to_goal: TimeToGoal | None
    """``None``: not reachable."""
    probability: float
    """The probability of meeting the target by the run's end."""
    error: float | None
    """``None`` where the target is never met."""
    paper_error: float | None

    @property
    def covered(self) -> bool:
        """Whether the interval holds the true epoch."""
        found, true = self.time_to_goal, self.question.true
        return found is not None and true is not None and found.low <= true <= found.high

    @property
    def width(self) -> float:
        """The interval's width as a part of the run; a whole run where there is none."""
        found = self.time_to_goal
        return 1.0 if found is None else (found.high - found.low) / self.question.run

    @property
    def twice_error(self) -> float | None:
        """The error of the rule that a target is met at twice the epochs seen."""
        return _error(2.0 * self.question.seen, self.question)


def questions_at(
    losses: Sequence[float], parts: Sequence[float], targets: Sequence[float]
) -> Iterator[ForecastQuestion]:
    """Ask, from each part of the run, for the targets that it meets only later."""
    for part in parts:
        yield from _questions_from(f"{part:g}", _floor(part * len(losses)), losses, targets)


def questions_after(
    losses: Sequence[float], epochs: Sequence[int], targets: Sequence[float]
) -> Iterator[ForecastQuestion]:
    """Ask the same after so many epochs, of a run that has more."""
    for seen in epochs:
        if seen < len(losses):
            yield from _questions_from(f"{seen} epochs", seen, losses, targets)


def _questions_from(
    origin: str, seen: int, losses: Sequence[float], targets: Sequence[float]
) -> Iterator[ForecastQuestion]:
    run, lowest = len(losses), _lowest_target(losses)
    for at in targets:
        target = float(lowest[max(_floor(at * run), 1) - 1])
        true = _first_at_most(lowest, target)
        if true > seen and math.isfinite(target):
            yield ForecastQuestion(origin, seen, run, TargetLoss(target), at, true)


def questions_after_drops(
    points: Sequence[LossPoint], after: int, targets: Sequence[float]
) -> Iterator[ForecastQuestion]:
    """Ask, from so many epochs after each drop of the learning rate, for targets until the next."""
    losses = np.array([point.loss for point in points])
    starts = [drop.index for drop in learning_rate_drops(points)]
    for start, end in pairwise([*starts, len(points)]):
        lowest = _lowest_target(losses[start:end])
        for at in targets:
            target = float(lowest[max(_floor(at * len(lowest)), 1) - 1])
            true = start + _first_at_most(lowest, target)
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
        if true is None or true > _floor(part * run):
            yield ForecastQuestion(f"{part:g}", _floor(part * run), run, goal, None, true)


def predict(
    points: Sequence[LossPoint], schedule: LearningRateSchedule | None, question: ForecastQuestion
) -> EvaluatedForecast:
    """Forecasts of both models, which see nothing after the epochs seen; nor the run's length,
    unless the program declared it with the schedule of its learning rate."""
    seen, goal = points[: question.seen], question.goal
    curve, paper = LossCurve.fit(seen, schedule), PublishedCurve.fit(seen)
    found, any_time = (
        (None, None)
        if isinstance(curve, NotReady)
        else (curve.until(goal), curve.time_to_goal(goal))
    )
    time_to_goal = None if isinstance(found, NotReady) else found
    published = paper if isinstance(paper, NotReady) else paper.until(goal)
    probability = any_time.probability_by(question.run) if any_time else 0.0
    error = _error(time_to_goal.point if time_to_goal else None, question)
    paper_error = _error(None if isinstance(published, NotReady) else published.point, question)
    return EvaluatedForecast(question, time_to_goal, probability, error, paper_error)


def roc_auc(evaluated: Sequence[EvaluatedForecast]) -> float | None:
    """How often a target that is reached has a higher probability than one that is not."""
    reached = np.array([each.probability for each in evaluated if each.question.true is not None])
    never = np.array([each.probability for each in evaluated if each.question.true is None])
    if not reached.size or not never.size:
        return None
    higher = reached[:, np.newaxis] > never
    return float(np.mean(higher + 0.5 * (reached[:, np.newaxis] == never)))


def _error(epoch: float | None, question: ForecastQuestion) -> float | None:
    if question.true is None:
        return None
    return 1.0 if epoch is None else min(abs(epoch - question.true) / question.run, 1.0)


def _lowest_target(losses: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """The lowest target that is met by each epoch: by the means of two epochs in a row."""
    pairs = np.maximum(losses[1:], losses[:-1])
    return np.minimum.accumulate(np.concatenate([[np.inf], pairs]))


def _first_at_most(lowest: NDArray[np.float64], target: float) -> int:
    return int(np.argmax(lowest <= target)) + 1


def _floor(number: float) -> int:
    return math.floor(number + _ROUNDING)
