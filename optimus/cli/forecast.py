"""``optimus forecast``: the convergence of one running job from its log: the curve, the fit, and
when it gets there."""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from optimus.cli.command import Answer, Command, Progress
from optimus.cli.training_log import TrainingLog, read_training_log
from optimus.errors import NotReady
from optimus.jobs import TargetLoss
from optimus.models.convergence import MEDIAN_OF, LossCurve, LossSeries, TimeToGoal
from optimus.models.convergence.series import learning_rate_drops

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SUMMARY = "when the training that a log tells of will meet a target loss, with an interval"


@dataclass(frozen=True, slots=True)
class LogForecast:
    """The forecast of a log: where the target was ``met`` already, or its ``time_to_goal``."""

    log: TrainingLog
    series: LossSeries
    target: float
    curve: LossCurve | NotReady
    time_to_goal: TimeToGoal | NotReady
    met: float | None
    drops: tuple[float, ...]

    @classmethod
    def of(cls, log: TrainingLog, target: float) -> "LogForecast":
        """The forecast of a log towards a target loss."""
        series = LossSeries.of(log.points)
        curve = LossCurve.fit(log.points)
        time_to_goal = curve if isinstance(curve, NotReady) else curve.until(TargetLoss(target))
        starts = [log.points[drop.index] for drop in learning_rate_drops(log.points)]
        places = [point.epoch if series.in_epochs else point.step for point in starts]
        drops = tuple(float(math.ceil(place) - 1) for place in places if place is not None)
        return cls(log, series, target, curve, time_to_goal, _met(series, target), drops)

    @property
    def loss(self) -> float:
        """The loss now: the last epoch's mean; without epochs the median of the last 20."""
        if self.series.in_epochs:
            return float(self.series.loss[-1])
        return float(np.median(self.series.loss[-MEDIAN_OF:]))


def _met(series: LossSeries, target: float) -> float | None:
    """Where the target was met first: by an epoch's mean, or by the median of 20 points."""
    looks, k = series.complete_loss, series.k
    if not series.in_epochs:
        if len(looks) < MEDIAN_OF:
            return None
        looks = np.median(np.lib.stride_tricks.sliding_window_view(looks, MEDIAN_OF), axis=1)
        k = k[MEDIAN_OF - 1 :]
    low = np.flatnonzero(looks <= target)
    return float(k[low[0]]) if low.size else None


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "log", type=Path, metavar="LOG", help="a log as the trainer prints it, or a CSV epoch,loss"
    )
    parser.add_argument(
        "--target-loss", type=_above_zero, required=True, metavar="X", help="the loss to be met"
    )
    parser.add_argument(
        "--metric", metavar="NAME", help="name of the training loss in the log (default: the usual)"
    )


def _run(options: argparse.Namespace, _: Progress) -> Answer:
    forecast = LogForecast.of(read_training_log(options.log, options.metric), options.target_loss)
    return Answer(_value(forecast), "\n".join(_lines(forecast)), partial(_draw, forecast))


def _value(forecast: LogForecast) -> dict[str, object]:
    time_to_goal = (
        None
        if forecast.met is not None or isinstance(forecast.time_to_goal, NotReady)
        else forecast.time_to_goal
    )
    refused = forecast.met is None and isinstance(forecast.time_to_goal, NotReady)
    return {
        "log": str(forecast.log.file),
        "unit": forecast.series.unit,
        "seen": float(forecast.series.k[-1]),
        "loss": forecast.loss,
        "target_loss": forecast.target,
        "met_at": forecast.met,
        "predicted": None if time_to_goal is None else round(time_to_goal.point, 3),
        "low": None if time_to_goal is None else round(time_to_goal.low, 3),
        "high": None if time_to_goal is None else round(time_to_goal.high, 3),
        "probability_by_twice": None
        if time_to_goal is None
        else round(time_to_goal.probability_by(2 * float(forecast.series.k[-1])), 6),
        "rate_dropped_at": list(forecast.drops),
        "reason": str(forecast.time_to_goal) if refused else None,
    }


def _lines(forecast: LogForecast) -> Sequence[str]:
    unit, seen = forecast.series.unit, float(forecast.series.k[-1])
    lines = [f"{forecast.log.file.name}: {seen:g} {unit} seen, the loss is {forecast.loss:.4g}"]
    if forecast.drops:
        lines.append(
            f"the learning rate dropped after {', '.join(f'{each:g}' for each in forecast.drops)} "
            f"{unit}"
        )
    if forecast.met is not None:
        lines.append(f"the target {forecast.target:g} was met after {forecast.met:g} {unit}")
    elif isinstance(forecast.time_to_goal, NotReady):
        lines.append(str(forecast.time_to_goal))
    else:
        found = forecast.time_to_goal
        lines.append(
            f"the target {forecast.target:g} is met after {found.point:.4g} {unit}, with 80 % "
            f"between {found.low:.4g} "
            f"and {found.high:.4g}; by {2 * seen:g} {unit} with "
            f"{found.probability_by(2 * seen):.0%}"
        )
    return lines


def _draw(forecast: LogForecast, figure: "Figure") -> None:
    series, curve, found = forecast.series, forecast.curve, forecast.time_to_goal
    panel = figure.subplots()
    unit, seen = series.unit, float(series.k[-1])
    panel.plot(
        series.k,
        series.loss,
        ".",
        markersize=4,
        color="0.35",
        label="epoch means" if series.in_epochs else "losses",
    )
    end = 1.5 * seen
    if isinstance(found, TimeToGoal) and forecast.met is None:
        end = max(end, min(found.high * 1.05, 6 * seen))
    if isinstance(curve, LossCurve):
        past, ahead = (
            np.linspace(max(curve.start, series.k[0]), seen, 200),
            np.linspace(seen, end, 200),
        )
        panel.plot(past, curve.predict(past), color="#0072b2", linewidth=1.5, label="fit")
        panel.plot(
            ahead,
            curve.predict(ahead),
            color="#0072b2",
            linewidth=1.5,
            linestyle="--",
            label="forecast",
        )
        panel.fill_between(
            ahead,
            *curve.band(ahead),
            color="#0072b2",
            alpha=0.15,
            linewidth=0,
            label="80 % of the losses",
        )
    panel.axhline(
        forecast.target, color="#d55e00", linewidth=1, label=f"target {forecast.target:g}"
    )
    for place, drop in enumerate(forecast.drops):
        panel.axvline(
            drop,
            color="0.6",
            linewidth=1,
            linestyle=":",
            label="the learning rate drops" if place == 0 else None,
        )
    if forecast.met is not None:
        title = f"met after {forecast.met:g} {unit}"
        panel.plot([forecast.met], [forecast.target], "o", color="#d55e00")
    elif isinstance(found, TimeToGoal):
        title = (
            f"met after {found.point:.4g} {unit}, with 80 % between {found.low:.4g} and "
            f"{found.high:.4g}"
        )
        panel.errorbar(
            [found.point],
            [forecast.target],
            xerr=[[found.point - found.low], [found.high - found.point]],
            fmt="o",
            color="#d55e00",
            capsize=4,
        )
    else:
        title = "no forecast yet" if isinstance(curve, NotReady) else "not reachable at this rate"
    panel.set_title(f"{forecast.log.file.name}: {forecast.target:g} {title}", fontsize=11)
    panel.set_yscale("log")
    panel.set_xlim(0, end)
    panel.set_xlabel(unit)
    panel.set_ylabel("training loss")
    panel.legend(frameon=False, fontsize=9)


def _above_zero(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"a loss above 0 is expected, not {text!r}")
    return value


COMMAND = Command(("forecast",), _SUMMARY, _add_arguments, _run)
