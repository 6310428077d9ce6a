"""Predictions of the convergence model on runs whose end is known: what was seen, asked, foretold,
and true."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from optimus.errors import NotReady
from optimus.jobs import TargetLoss
from optimus.models.convergence import LossCurve, PublishedCurve, TimeToGoal
from optimus.models.convergence.series import learning_rate_drops
from optimus.progress.types import LossPoint

_ROUNDING: Final = 1e-9
"""A fraction times a number of epochs may miss a whole number by rounding."""


@dataclass(frozen=True, slots=True)
class Question:
    """From ``seen`` epochs of a run of ``run``: when is ``target`` met? In truth at ``true``,
    ``None``: never.

    ``at`` is where the target was taken from: the part of the run (of the segment after a drop),
    ``None`` for one that the run never reaches.
    """

    origin: str
    seen: int
    run: int
    target: float
    at: float | None
    true: int | None


@dataclass(frozen=True, slots=True)
class EvaluatedForecast:
    """What the models answered. ``time_to_goal`` is ``None`` where it says not reachable; ``error``
    where there is no truth.

    ``probability`` is that of meeting the target by the run's end. Errors are parts of the run, at
    most 1."""

    question: Question
    time_to_goal: TimeToGoal | None
    probability: float
    error: float | None
    paper_error: float | None

    @property
    def held(self) -> bool:
        """Whether the interval holds the truth."""
        true = self.question.true
        return (
            self.time_to_goal is not None
            and true is not None
            and self.time_to_goal.low <= true <= self.time_to_goal.high
        )

    @property
    def width(self) -> float:
        """The interval's width as a part of the run; a whole run where there is none."""
        return (
            1.0
            if self.time_to_goal is None
            else (self.time_to_goal.high - self.time_to_goal.low) / self.question.run
        )

    @property
    def twice_error(self) -> float | None:
        """The error of the rule that a target is met at twice the epochs seen."""
        return _error(2.0 * self.question.seen, self.question)


def questions_at(
    losses: Sequence[float], parts: Sequence[float], targets: Sequence[float]
) -> Iterator[Question]:
    """From each part of the run: the targets that its running minimum meets only later."""
    run, lowest = len(losses), np.minimum.accumulate(losses)
    for part in parts:
        for at in targets:
            target = float(lowest[max(_floor(at * run), 1) - 1])
            true = _first_at_most(lowest, target)
            if true > _floor(part * run):
                yield Question(f"{part:g}", _floor(part * run), run, target, at, true)


def questions_after_drops(
    points: Sequence[LossPoint], after: int, targets: Sequence[float]
) -> Iterator[Question]:
    """From so many epochs after each drop of the learning rate: targets inside the segment until
    the next one."""
    losses = np.array([point.loss for point in points])
    starts = [drop.index for drop in learning_rate_drops(points)]
    for start, end in pairwise([*starts, len(points)]):
        lowest = np.minimum.accumulate(losses[start:end])
        for at in targets:
            target = float(lowest[max(_floor(at * len(lowest)), 1) - 1])
            true = start + _first_at_most(lowest, target)
            if true > start + after:
                yield Question(f"drop+{after}", start + after, len(points), target, at, true)


def unreachable(
    asked: Sequence[Question], losses: Sequence[float], part: float
) -> Iterator[Question]:
    """A target that the run never reaches, at that part of its smallest loss, from where each
    question is asked."""
    for origin, seen in dict.fromkeys((question.origin, question.seen) for question in asked):
        yield Question(origin, seen, len(losses), part * min(losses), None, None)


def predict(points: Sequence[LossPoint], question: Question) -> EvaluatedForecast:
    """Ask both models, which see nothing after the epochs seen, nor how long the run is."""
    seen, goal = points[: question.seen], TargetLoss(question.target)
    curve, paper = LossCurve.fit(seen), PublishedCurve.fit(seen)
    answer = curve if isinstance(curve, NotReady) else curve.until(goal)
    foreseen = None if isinstance(curve, NotReady) else curve.time_to_goal(goal)
    published = paper if isinstance(paper, NotReady) else paper.until(goal)
    time_to_goal = None if isinstance(answer, NotReady) else answer
    return EvaluatedForecast(
        question,
        time_to_goal,
        0.0 if foreseen is None else foreseen.probability_by(question.run),
        _error(None if time_to_goal is None else time_to_goal.point, question),
        _error(None if isinstance(published, NotReady) else published.point, question),
    )


def separation(predictions: Sequence[EvaluatedForecast]) -> float | None:
    """How often a target that was reached has the higher probability than one that was not (the
    area under the ROC)."""
    reached = np.array([each.probability for each in predictions if each.question.true is not None])
    never = np.array([each.probability for each in predictions if each.question.true is None])
    if not reached.size or not never.size:
        return None
    higher = reached[:, np.newaxis] > never
    return float(np.mean(higher + 0.5 * (reached[:, np.newaxis] == never)))


def _error(epoch: float | None, question: Question) -> float | None:
    if question.true is None:
        return None
    return 1.0 if epoch is None else min(abs(epoch - question.true) / question.run, 1.0)


def _first_at_most(lowest: NDArray[np.float64], target: float) -> int:
    return int(np.argmax(lowest <= target)) + 1


def _floor(number: float) -> int:
    return math.floor(number + _ROUNDING)
