"""``optimus forecast LOG``: when one run meets its goal, from its log so far."""

import argparse
import math
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

import numpy as np

from optimus.cli.command import Answer, BadInput
from optimus.cli.training_log import TrainingLog, met_at, read_metric, read_training_log
from optimus.errors import NotReady
from optimus.jobs import ConvergenceThreshold, LossGoal, TargetLoss, TargetMetric, counted
from optimus.models.convergence import (
    MEDIAN_OF,
    LearningRateSchedule,
    LossCurve,
    LossSeries,
    TimeToGoal,
)
from optimus.models.convergence.series import learning_rate_drops
from optimus.models.forecast import TimeLeft, unlikely_text, when_text
from optimus.models.metric_goal import MetricAsLoss
from optimus.times import duration

_UNBOUNDED = "it rises without a bound: when it reaches its goal cannot be predicted"

Goal = TargetLoss | TargetMetric | ConvergenceThreshold


@dataclass(frozen=True, slots=True)
class LogForecast:
    """The forecast of one log towards one goal."""

    file: Path
    goal: Goal
    metric: MetricAsLoss | None
    """The metric that the goal is about, as losses; ``None``: the training loss."""
    series: LossSeries
    schedule: LearningRateSchedule | None
    """The declared end and learning rates, if any."""
    curve: LossCurve | NotReady
    time_to_goal: TimeToGoal | NotReady
    met: float | None
    """Epochs (steps) after which the goal was met already."""
    drops: tuple[float, ...]
    """Epochs (steps) after which the learning rate dropped."""
    left: TimeLeft | None = None
    """Seconds from its last line on; ``None`` where its speed is not known."""

    @classmethod
    def of(cls, file: Path, goal: Goal, metric: str | None = None) -> "LogForecast":
        """The forecast of a log; ``metric`` is the name of its loss, if it is not a usual one."""
        if isinstance(goal, TargetMetric):
            log, found = read_metric(file, goal)
            met = met_at(log.points, found.goal) if found.is_met else None
            return cls._of(log, goal, found.goal, found, met)
        log = read_training_log(file, metric)
        return cls._of(log, goal, goal, None, met_at(log.points, goal, log.declared))

    @classmethod
    def _of(
        cls,
        log: TrainingLog,
        goal: Goal,
        as_loss: LossGoal,
        metric: MetricAsLoss | None,
        met: float | None,
    ) -> "LogForecast":
        points, schedule = log.points, log.schedule
        series, bounded = LossSeries.of(points), metric is None or metric.bounded
        curve = LossCurve.fit(points, schedule) if bounded else NotReady(_UNBOUNDED)
        if log.diverged:
            curve = NotReady(f"nothing is predicted: {log.diverged}")
        time_to_goal = curve if isinstance(curve, NotReady) else curve.until(as_loss)
        if metric is not None and isinstance(time_to_goal, NotReady) and curve is not time_to_goal:
            time_to_goal = metric.explained(time_to_goal)
        starts = [points[drop.index] for drop in learning_rate_drops(points)]
        places = [point.epoch if series.in_epochs else point.step for point in starts]
        drops = tuple(float(math.ceil(place) - 1) for place in places if place is not None)
        left, seen = None, float(series.k[-1])
        if met is None and isinstance(time_to_goal, TimeToGoal) and log.per_second:
            ends = time_to_goal.low, time_to_goal.point, time_to_goal.high
            left = TimeLeft(*(max(end - seen, 0.0) / log.per_second for end in ends))
        return cls(log.file, goal, metric, series, schedule, curve, time_to_goal, met, drops, left)

    @property
    def value(self) -> float:
        """The loss or metric now: the last epoch's mean; without epochs the median of 20."""
        if self.series.in_epochs:
            loss = float(self.series.loss[-1])
        else:
            loss = float(np.median(self.series.loss[-MEDIAN_OF:]))
        return loss if self.metric is None else self.metric.printed(loss)

    @property
    def declared_end(self) -> float | None:
        """The epochs (steps) after which the run ends, if the forecast rests on them."""
        schedule = None if isinstance(self.curve, NotReady) else self.curve.schedule
        return None if schedule is None else schedule.end

    @property
    def name(self) -> str:
        """What the goal is about."""
        return "loss" if self.metric is None else self.metric.series.name

    @property
    def level(self) -> float | None:
        """The loss that a target is met at; ``None`` for a threshold."""
        if self.metric is not None:
            return self.metric.goal.loss
        return self.goal.loss if isinstance(self.goal, TargetLoss) else None


def forecast_of_log(options: argparse.Namespace) -> Answer:
    """The forecast of the log, towards the goal of the options.

    Raises:
        BadInput: the options have no goal, or the log cannot be read."""
    goal: Goal | None = options.target
    if options.target_loss is not None:
        goal = TargetLoss(options.target_loss)
    elif options.threshold is not None:
        goal = ConvergenceThreshold(options.threshold)
    if goal is None:
        needed = "--target-loss, --target or --threshold is needed"
        raise BadInput(options.log, f"{needed}: a log does not say what its goal is")
    forecast = LogForecast.of(options.log, goal, options.metric)
    return Answer(_value(forecast), "\n".join(_lines(forecast)))


def _value(forecast: LogForecast) -> dict[str, object]:
    found, seen, met = forecast.time_to_goal, float(forecast.series.k[-1]), forecast.met
    known = found if met is None and isinstance(found, TimeToGoal) else None
    goal, metric = forecast.goal, forecast.metric
    about: dict[str, object] = {"metric": forecast.name, "value": forecast.value}
    if metric is None:
        about |= {"loss": forecast.value, "target_loss": forecast.level}
    else:
        about |= {
            "target": metric.printed(metric.goal.loss),
            "evaluated": metric.series.evaluated,
            "rises": metric.bound is not None,
            "bound": metric.bound if metric.bounded else None,
        }
    if isinstance(goal, ConvergenceThreshold):
        about["threshold"] = goal.fraction
    return {
        "log": str(forecast.file),
        "unit": forecast.series.unit,
        "seen": seen,
        **about,
        "met_at": met,
        "predicted": known and round(known.point, 3),
        "low": known and round(known.low, 3),
        "high": known and round(known.high, 3),
        "remaining_seconds": forecast.left and asdict(forecast.left),
        "probability_by_twice": known and round(known.probability_by(2 * seen), 6),
        "rate_dropped_at": list(forecast.drops),
        "declared_end": forecast.declared_end,
        "probability_by_end": known
        and forecast.declared_end
        and round(known.probability_by(forecast.declared_end), 6),
        "reason": str(found) if met is None and isinstance(found, NotReady) else None,
    }


def _lines(forecast: LogForecast) -> Sequence[str]:
    unit, seen, found = forecast.series.unit, float(forecast.series.k[-1]), forecast.time_to_goal
    what = "the loss" if forecast.metric is None else str(forecast.metric)
    lines = [f"{forecast.file.name}: {counted(seen, unit)} seen, {what} is {forecast.value:.4g}"]
    if forecast.drops:
        *before, last = forecast.drops
        drops = ", ".join([*(f"{drop:g}" for drop in before), counted(last, unit)])
        lines.append(f"the learning rate dropped after {drops}")
    if forecast.met is not None:
        lines.append(f"{_goal_text(forecast)} was met after {counted(forecast.met, unit)}")
    elif isinstance(found, NotReady):
        lines.append(str(found))
    elif found.is_unlikely:
        lines.append(
            f"{_goal_text(forecast)}: {unlikely_text(found)}; its run ends after "
            f"{counted(found.point, unit)}"
        )
    else:
        end = forecast.declared_end
        by = counted(2 * seen, unit)
        by = by if end is None else f"the declared end, {counted(end, unit)},"
        chance = found.probability_by(2 * seen if end is None else end)
        lines.append(
            f"{_goal_text(forecast)} is met {when_text(found, unit)}; by {by} with {chance:.0%}"
        )
    if forecast.left is not None:
        low, middle, high = map(duration, astuple(forecast.left))
        lines.append(
            f"at the speed that it shows, in {middle} ({low} to {high}) from its last line"
        )
    return lines


def _goal_text(forecast: LogForecast) -> str:
    """The goal with its figure as the log prints it."""
    if isinstance(forecast.goal, ConvergenceThreshold):
        return f"the threshold {forecast.goal.fraction:g}"
    if forecast.metric is None:
        return f"the target {forecast.level:g}"
    sign = "<=" if forecast.metric.bound is None else ">="
    target = forecast.metric.printed(forecast.metric.goal.loss)
    return f"the target {forecast.name} {sign} {target:.6g}"
