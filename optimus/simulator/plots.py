"""Plots of simulations: completion times, running tasks, allocations, forecasts beside the truth.

Figures are matplotlib's, handed in by the caller: this module does not import it."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from optimus.simulator.forecasts import LoggedForecast
from optimus.simulator.results import Simulation, TimelinePoint, by_policy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Values = NDArray[np.float64]

_COLOURS: Final = [
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
    "#999999",
]
"""The palette of Okabe and Ito, which colour-blind readers can tell apart."""
_STYLES: Final = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (7, 3)))
_BIN_SECONDS: Final = 300.0
_LEAST_MINUTES: Final = 0.1
"""Forecasts of less are not drawn: on a logarithmic scale they would take most of the picture."""


def completion_and_tasks(figure: "Figure", found: Sequence[Simulation]) -> None:
    """The distribution of completion times beside the tasks that run over time."""
    left, right = figure.subplots(1, 2)
    _completion(left, found)
    _tasks(right, found)
    _legend_above(figure, left)


def completion(figure: "Figure", found: Sequence[Simulation]) -> None:
    """The distribution of completion times, over all jobs of all seeds."""
    axes = figure.subplots()
    _completion(axes, found)
    axes.legend(frameon=False, loc="lower right")


def tasks(figure: "Figure", found: Sequence[Simulation]) -> None:
    """PSs and workers that hold room, over time; the mean over seeds."""
    axes = figure.subplots()
    _tasks(axes, found)
    axes.legend(frameon=False)


def allocations(figure: "Figure", found: Sequence[Simulation]) -> None:
    """PSs and workers over time, one panel for each policy; mean over seeds."""
    groups = by_policy(found)
    columns = math.ceil(math.sqrt(len(groups)))
    rows = -(-len(groups) // columns)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    end = _end(found)
    for axes, (policy, those) in zip(panels.flat, groups.items(), strict=False):
        hours, ps = _over_time(those, lambda point: point.ps, end)
        _, workers = _over_time(those, lambda point: point.workers, end)
        style: dict[str, Any] = {"colors": _COLOURS[:2], "alpha": 0.85, "linewidth": 0}
        axes.stackplot(hours, ps, workers, labels=("PSs", "workers"), **style)
        axes.set_title(policy, fontsize="medium")
        axes.set_xlim(0, end / 3600)
        _tidy(axes)
    for axes in list(panels.flat)[len(groups) :]:
        axes.set_visible(False)
    for axes in panels[:, 0]:
        axes.set_ylabel("tasks")
    for column in range(columns):
        lowest = [axes for axes in panels[:, column] if axes.get_visible()][-1]
        lowest.set_xlabel("hours since the first arrival")
        lowest.tick_params(labelbottom=True)
    _legend_above(figure, panels[0, 0])


def forecasts(figure: "Figure", found: Sequence[Simulation]) -> None:
    """Left: forecast against true remaining times. Right: errors over the jobs' progress."""
    left, right = figure.subplots(1, 2)
    groups = by_policy([each for each in found if each.forecasts])
    if not groups:
        for axes in (left, right):
            axes.set_axis_off()
        left.text(0.5, 0.5, "none of these policies makes forecasts", ha="center", va="center")
        return
    for number, (policy, those) in enumerate(groups.items()):
        _plot_remaining(left, policy, those, number)
        _errors(right, policy, those, number)
    _finish_remaining(left)
    right.axhline(0, color="0.4", linewidth=0.8)
    right.set(xlabel="part of the job's epochs that is done", xlim=(0, 1))
    right.set_ylabel("error of the total of epochs")
    right.yaxis.set_major_formatter(lambda value, _: f"{value:+.0%}" if value else "0")
    right.set_title("convergence: median, and the middle 80 %", fontsize="medium")
    _tidy(right)
    _legend_above(figure, right)


def _completion(axes: "Axes", found: Sequence[Simulation]) -> None:
    for number, (policy, those) in enumerate(by_policy(found).items()):
        minutes = np.sort([job.completion_seconds / 60 for each in those for job in each.jobs])
        part = np.arange(1, len(minutes) + 1) / len(minutes)
        axes.step(np.r_[0, minutes], np.r_[0, part], where="post", label=policy, **_line(number))
    axes.set(xlabel="completion time, minutes", ylabel="part of the jobs", ylim=(0, 1.01))
    axes.set_xlim(left=0)
    _tidy(axes)


def _tasks(axes: "Axes", found: Sequence[Simulation]) -> None:
    for number, (policy, those) in enumerate(by_policy(found).items()):
        hours, running = _over_time(those, lambda point: point.tasks, _end(found))
        axes.plot(hours, running, label=policy, **_line(number))
    axes.set(xlabel="hours since the first arrival", ylabel="running tasks")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    _tidy(axes)


def _plot_remaining(axes: "Axes", policy: str, those: Sequence[Simulation], number: int) -> None:
    pairs = np.array([pair for each in those for pair in _remaining(each)]).reshape(-1, 2)
    style: dict[str, Any] = {"s": 7, "alpha": 0.35, "linewidths": 0, "rasterized": True}
    colour = _COLOURS[number % len(_COLOURS)]
    axes.scatter(pairs[:, 1] / 60, pairs[:, 0] / 60, color=colour, label=policy, **style)


def _remaining(found: Simulation) -> list[tuple[float, float]]:
    ends = {job.uid: job.finished_at for job in found.jobs}
    pairs = [(each.remaining_seconds, ends[each.uid] - each.at) for each in found.forecasts]
    return [pair for pair in pairs if min(pair) > _LEAST_MINUTES * 60 and max(pair) < np.inf]


def _finish_remaining(axes: "Axes") -> None:
    axes.set(
        xscale="log", yscale="log", xlabel="actual minutes left", ylabel="predicted minutes left"
    )
    low = _LEAST_MINUTES
    high = max(axes.get_xlim()[1], axes.get_ylim()[1])
    axes.plot([low, high], [low, high], color="0.4", linewidth=0.8, zorder=0)
    axes.set(xlim=(low, high), ylim=(low, high))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_title("remaining time", fontsize="medium")
    _tidy(axes)


def _errors(axes: "Axes", policy: str, those: Sequence[Simulation], number: int) -> None:
    forecasts = [forecast for each in those for forecast in each.forecasts]
    middles, low, median, high = _bands(forecasts)
    colour = _COLOURS[number % len(_COLOURS)]
    axes.fill_between(middles, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(middles, median, marker="o", markersize=3, label=policy, **_line(number))


def _bands(forecasts: Sequence[LoggedForecast]) -> tuple[Values, Values, Values, Values]:
    """By tenths of the progress: 10 %, 50 % and 90 % of the errors in each tenth that has any."""
    tenths: dict[int, list[float]] = {}
    for forecast in forecasts:
        tenth = min(int(forecast.progress * 10), 9)
        tenths.setdefault(tenth, []).append(forecast.convergence_error)
    kept = sorted(tenths)
    low, median, high = np.array([np.percentile(tenths[each], (10, 50, 90)) for each in kept]).T
    return np.array([(each + 0.5) / 10 for each in kept]), low, median, high


def _end(found: Sequence[Simulation]) -> float:
    """Seconds until the last of all has ended, in whole bins."""
    return math.ceil(max(each.makespan_seconds for each in found) / _BIN_SECONDS) * _BIN_SECONDS


def _over_time(
    those: Sequence[Simulation], value: Callable[[TimelinePoint], float], end: float
) -> tuple[Values, Values]:
    """The mean of a value in bins of five minutes, over simulations; at the bins' middles, in
    hours."""
    edges = np.asarray(np.arange(0, end + _BIN_SECONDS / 2, _BIN_SECONDS), dtype=np.float64)
    means = np.mean([_binned(each, value, edges) for each in those], axis=0)
    return (edges[:-1] + edges[1:]) / 7200, np.asarray(means, dtype=np.float64)


def _binned(found: Simulation, value: Callable[[TimelinePoint], float], edges: Values) -> Values:
    """The value's mean over time between each two edges: differences of its integral."""
    starts = np.array([point.at for point in found.timeline]) - found.began_at
    values = np.array([value(point) for point in found.timeline], dtype=np.float64)
    knots = np.append(starts, max(edges[-1], starts[-1] + 1.0))
    integral = np.concatenate([[0.0], np.cumsum(values * np.diff(knots))])
    return np.asarray(np.diff(np.interp(edges, knots, integral)) / np.diff(edges), dtype=np.float64)


def _line(number: int) -> dict[str, Any]:
    return {
        "color": _COLOURS[number % len(_COLOURS)],
        "linestyle": _STYLES[number % len(_STYLES)],
        "linewidth": 1.6,
    }


def _legend_above(figure: "Figure", axes: "Axes") -> None:
    handles, labels = axes.get_legend_handles_labels()
    columns = min(len(labels), 6)
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, frameon=False)


def _tidy(axes: "Axes") -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)


PLOTS: Final = {
    "jct": completion,
    "tasks": tasks,
    "allocations": allocations,
    "forecasts": forecasts,
}
"""The four plots of ``--output``, by the name of their file."""

PICTURES: Final = tuple(f"{name}.png" for name in PLOTS)
