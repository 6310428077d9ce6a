"""``optimus evaluate convergence``: the convergence model (Optimus, section 3.1) on past logs.

From a part of each run it is predicted when targets are met that the run meets later, with nothing
after that part known but what the program declared."""

import argparse
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Final

import numpy as np
from numpy.typing import NDArray

from optimus.cli.arguments import joined, number_between
from optimus.cli.command import Answer, BadInput, Implementation, Progress
from optimus.cli.table import percent, table
from optimus.cli.training_log import TrainingLog, read_training_log
from optimus.errors import NotReady
from optimus.jobs import LossGoal, TargetLoss
from optimus.models.convergence import LearningRateSchedule, LossCurve, TimeToGoal
from optimus.progress.types import LossPoint

_LEAST_EPOCHS: Final = 10
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
    """The target is the lowest that this part of the run meets; ``None``: it is another goal."""
    true: int | None
    """The epoch that met the goal; ``None``: never."""

    def error(self, epoch: float | None) -> float | None:
        """How far off an epoch is, as a part of the run; 1 for none, or for more than a run."""
        if self.true is None:
            return None
        return 1.0 if epoch is None else min(abs(epoch - self.true) / self.run, 1.0)


@dataclass(frozen=True, slots=True)
class EvaluatedForecast:
    """The model's forecast for one question."""

    question: ForecastQuestion
    time_to_goal: TimeToGoal | None
    """``None``: not reachable."""
    probability: float
    """The probability of meeting the target by the run's end."""

    @property
    def error(self) -> float | None:
        """``None`` where the target is never met."""
        found = self.time_to_goal
        return self.question.error(None if found is None else found.point)

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


Evaluated = Sequence[tuple[TrainingLog, EvaluatedForecast]]


def questions_at(
    losses: Sequence[float], parts: Sequence[float], targets: Sequence[float]
) -> Iterator[ForecastQuestion]:
    """Ask, from each part of the run, for the targets that it meets only later."""
    for part in parts:
        yield from questions_from(f"{part:g}", floor(part * len(losses)), losses, targets)


def questions_from(
    origin: str, seen: int, losses: Sequence[float], targets: Sequence[float]
) -> Iterator[ForecastQuestion]:
    """Ask, after so many epochs, for the smallest losses up to these parts of the run."""
    run, lowest = len(losses), lowest_target(losses)
    for at in targets:
        target = float(lowest[max(floor(at * run), 1) - 1])
        true = first_at_most(lowest, target)
        if true > seen and math.isfinite(target):
            yield ForecastQuestion(origin, seen, run, TargetLoss(target), at, true)


def predict(
    points: Sequence[LossPoint], schedule: LearningRateSchedule | None, question: ForecastQuestion
) -> EvaluatedForecast:
    """A forecast that sees nothing after the epochs seen; nor the run's length, unless the program
    declared it with the schedule of its learning rate."""
    curve, found, probability = LossCurve.fit(points[: question.seen], schedule), None, 0.0
    if not isinstance(curve, NotReady):
        until = curve.until(question.goal)
        found = None if isinstance(until, NotReady) else until
        any_time = curve.time_to_goal(question.goal)
        probability = any_time.probability_by(question.run) if any_time else 0.0
    return EvaluatedForecast(question, found, probability)


def lowest_target(losses: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """The lowest target that is met by each epoch: by the means of two epochs in a row."""
    pairs = np.maximum(losses[1:], losses[:-1])
    return np.minimum.accumulate(np.concatenate([[np.inf], pairs]))


def first_at_most(lowest: NDArray[np.float64], target: float) -> int:
    """The first epoch, counted from 1, by which the target is met."""
    return int(np.argmax(lowest <= target)) + 1


def floor(number: float) -> int:
    """The whole number below, or the one that only rounding has missed."""
    return math.floor(number + _ROUNDING)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add, parts = parser.add_argument, joined(number_between(0, 1))
    log = "a log as the trainer prints it, or a CSV epoch,loss; also packed (.gz, .xz, .bz2)"
    add("logs", nargs="+", type=Path, metavar="LOG", help=log)
    at = "predict from these parts of a run, with nothing after them known (default 0.3,0.5)"
    add("--at", type=parts, metavar="PART,PART", default=(0.3, 0.5), help=at)
    target = "targets: the smallest loss up to these parts of a run (default 0.6,0.75,0.9)"
    add("--target-at", type=parts, metavar="PART,PART", default=(0.6, 0.75, 0.9), help=target)
    metric = "name of the training loss in the logs (default: the usual); one that rises, such as "
    metric += "accuracy, is judged by its error"
    add("--metric", metavar="NAME", help=metric)


def _run(options: argparse.Namespace, progress: Progress) -> Answer:
    asked = []
    for file in options.logs:
        log = read_training_log(file, options.metric)
        losses = [point.loss for point in log.epoch_means()]
        if len(losses) < _LEAST_EPOCHS:
            unit = "completed epochs" if log.in_epochs else "losses"
            expected = f"at least {_LEAST_EPOCHS} {unit} are expected, {len(losses)} found"
            raise BadInput(file, expected)
        asked += [(log, each) for each in questions_at(losses, options.at, options.target_at)]
    if not asked:
        raise BadInput(options.logs[0], "runs with a target in their hidden part are expected")
    evaluated = evaluated_runs(progress(asked, "Predicting"))
    return Answer([_value(*each) for each in evaluated], text_of(evaluated))


def evaluated_runs(asked: Iterable[tuple[TrainingLog, ForecastQuestion]]) -> Evaluated:
    """Each question answered on its log."""
    return [
        (log, predict(log.epoch_means(), log.schedule if log.in_epochs else None, question))
        for log, question in asked
    ]


def _value(log: TrainingLog, evaluated: EvaluatedForecast) -> dict[str, object]:
    question, found = evaluated.question, evaluated.time_to_goal
    return {
        "log": str(log.file),
        "seen_epochs": question.seen,
        "run_epochs": question.run,
        "target_at": question.at,
        "target_loss": question.goal.loss if isinstance(question.goal, TargetLoss) else None,
        "true_epoch": question.true,
        "predicted_epoch": found and round(found.point, 6),
        "low": found and round(found.low, 6),
        "high": found and round(found.high, 6),
        "probability": round(evaluated.probability, 6),
        "error": evaluated.error,
    }


def text_of(evaluated: Evaluated) -> str:
    """The means by the part of the run that was seen."""
    by_origin: dict[str, list[EvaluatedForecast]] = {}
    for _, each in evaluated:
        if each.question.true is not None:
            by_origin.setdefault(each.question.origin, []).append(each)
    means = [
        (
            origin,
            len(known),
            percent(fmean(each.error or 0.0 for each in known)),
            percent(fmean(each.covered for each in known)),
            percent(fmean(each.width for each in known)),
            sum(each.time_to_goal is None for each in known),
        )
        for origin, known in by_origin.items()
    ]
    measures = ("from", "targets", "error", "in 80 % interval", "its width", "not reachable")
    return (
        f"{table('<>>>>>', measures, means)}\n"
        "Errors and widths are means, as parts of the run; an answer of not reachable counts as "
        "an error of 100 %. --json: each prediction"
    )


IMPLEMENTATION: Final = Implementation(_add_arguments, _run)
