"""``optimus forecast``: when one run meets a target loss, from its log so far."""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from optimus.cli.arguments import number_between
from optimus.cli.command import Answer, Command, Progress
from optimus.cli.training_log import TrainingLog, read_training_log
from optimus.errors import NotReady
from optimus.jobs import TargetLoss
from optimus.models.convergence import MEDIAN_OF, LossCurve, LossSeries, TimeToGoal
from optimus.models.convergence.series import learning_rate_drops

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SUMMARY = "when a training run will meet a target loss, with an interval, from its log so far"
_BLUE, _RED = "#0072b2", "#d55e00"


@dataclass(frozen=True, slots=True)
class LogForecast:
    """The forecast of one log."""

    log: TrainingLog
    series: LossSeries
    target: float
    curve: LossCurve | NotReady
    time_to_goal: TimeToGoal | NotReady
    met: float | None
    """Epochs (steps) after which the target was met already."""
    drops: tuple[float, ...]
    """Epochs (steps) after which the learning rate dropped."""

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
    means, k = series.complete_loss, series.k
    if not series.in_epochs:
        if len(means) < MEDIAN_OF:
            return None
        means = np.median(np.lib.stride_tricks.sliding_window_view(means, MEDIAN_OF), axis=1)
        k = k[MEDIAN_OF - 1 :]
    low = np.flatnonzero(means <= target)
    return float(k[low[0]]) if low.size else None


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    log = "a log as the trainer prints it, or a CSV epoch,loss"
    add("log", type=Path, metavar="LOG", help=log)
    add(
        "--target-loss",
        type=number_between(0, math.inf, "a loss"),
        required=True,
        metavar="X",
        help="the loss to be met",
    )
    metric = "name of the training loss in the log (default: the usual)"
    add("--metric", metavar="NAME", help=metric)


def _run(options: argparse.Namespace, _: Progress) -> Answer:
    forecast = LogForecast.of(read_training_log(options.log, options.metric), options.target_loss)
    return Answer(_value(forecast), "\n".join(_lines(forecast)), partial(_plot, forecast))


def _value(forecast: LogForecast) -> dict[str, object]:
    found, seen, met = forecast.time_to_goal, float(forecast.series.k[-1]), forecast.met
    known = found if met is None and isinstance(found, TimeToGoal) else None
    return {
        "log": str(forecast.log.file),
        "unit": forecast.series.unit,
        "seen": seen,
        "loss": forecast.loss,
        "target_loss": forecast.target,
        "met_at": met,
        "predicted": known and round(known.point, 3),
        "low": known and round(known.low, 3),
        "high": known and round(known.high, 3),
        "probability_by_twice": known and round(known.probability_by(2 * seen), 6),
        "rate_dropped_at": list(forecast.drops),
        "reason": str(found) if met is None and isinstance(found, NotReady) else None,
    }


def _lines(forecast: LogForecast) -> Sequence[str]:
    unit, seen, found = forecast.series.unit, float(forecast.series.k[-1]), forecast.time_to_goal
    lines = [f"{forecast.log.file.name}: {seen:g} {unit} seen, the loss is {forecast.loss:.4g}"]
    if forecast.drops:
        drops = ", ".join(f"{each:g}" for each in forecast.drops)
        lines.append(f"the learning rate dropped after {drops} {unit}")
    if forecast.met is not None:
        lines.append(f"the target {forecast.target:g} was met after {forecast.met:g} {unit}")
    elif isinstance(found, NotReady):
        lines.append(str(found))
    else:
        lines.append(
            f"the target {forecast.target:g} is met {_interval(found, unit)}; "
            f"by {2 * seen:g} {unit} with {found.probability_by(2 * seen):.0%}"
        )
    return lines


def _interval(found: TimeToGoal, unit: str) -> str:
    between = f"between {found.low:.4g} and {found.high:.4g}"
    return f"after {found.point:.4g} {unit}, with 80 % {between}"


def _plot(forecast: LogForecast, figure: "Figure") -> None:
    series, curve, found = forecast.series, forecast.curve, forecast.time_to_goal
    panel = figure.subplots()
    unit, seen = series.unit, float(series.k[-1])
    label = "epoch means" if series.in_epochs else "losses"
    panel.plot(series.k, series.loss, ".", markersize=4, color="0.35", label=label)
    end = 1.5 * seen
    if isinstance(found, TimeToGoal) and forecast.met is None:
        end = max(end, min(found.high * 1.05, 6 * seen))
    if isinstance(curve, LossCurve):
        past = np.linspace(max(curve.start, series.k[0]), seen, 200)
        ahead = np.linspace(seen, end, 200)
        panel.plot(past, curve.predict(past), color=_BLUE, linewidth=1.5, label="fit")
        panel.plot(ahead, curve.predict(ahead), "--", color=_BLUE, linewidth=1.5, label="forecast")
        band = curve.band(ahead)
        label = "80 % of the losses"
        panel.fill_between(ahead, *band, color=_BLUE, alpha=0.15, linewidth=0, label=label)
    panel.axhline(forecast.target, color=_RED, linewidth=1, label=f"target {forecast.target:g}")
    for index, drop in enumerate(forecast.drops):
        drops = "the learning rate drops" if index == 0 else None
        panel.axvline(drop, color="0.6", linewidth=1, linestyle=":", label=drops)
    if forecast.met is not None:
        title = f"met after {forecast.met:g} {unit}"
        panel.plot([forecast.met], [forecast.target], "o", color=_RED)
    elif isinstance(found, TimeToGoal):
        title = f"met {_interval(found, unit)}"
        errors = [[found.point - found.low], [found.high - found.point]]
        panel.errorbar(
            [found.point], [forecast.target], xerr=errors, fmt="o", color=_RED, capsize=4
        )
    else:
        title = "no forecast yet" if isinstance(curve, NotReady) else "not reachable at this rate"
    panel.set_title(f"{forecast.log.file.name}: {forecast.target:g} {title}", fontsize=11)
    panel.set(yscale="log", xlim=(0, end), xlabel=unit, ylabel="training loss")
    panel.legend(frameon=False, fontsize=9)


COMMAND = Command(("forecast",), _SUMMARY, _add_arguments, _run)
