"""``optimus evaluate speed``: the speed model (Optimus, section 3.2) against measured speeds."""

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from optimus.cli.arguments import whole_number, whole_numbers
from optimus.cli.command import Answer, BadInput, Implementation, Progress
from optimus.cli.speed_evaluation import Draw, Score, distinct_draws, evaluate
from optimus.cli.speed_table import SpeedTable, SpeedTables, read_speed_tables
from optimus.cli.table import percent, table
from optimus.errors import NotReady
from optimus.jobs import TrainingMode
from optimus.models.speed.curve import SpeedForm
from optimus.models.speed.model import NEEDED_COUNTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Draws = Mapping[TrainingMode, Mapping[int, Sequence[Draw]]]
"""By mode and number of samples."""
Scores = Mapping[TrainingMode, Mapping[int, Score]]
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9")
_MARKERS = "osD^v"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    speeds = "speed in steps per second of the whole job; several rows: repeats"
    add("file", type=Path, metavar="FILE.csv", help=speeds)
    samples = "numbers of samples to fit (default 5,10)"
    add("--samples", type=_sample_numbers, default=(5, 10), metavar="N,N", help=samples)
    add("--seed", type=whole_number(0), default=0, metavar="N", help="of the draws (default 0)")
    repeats = "number of draws of one repeat for each sample (default 20)"
    add("--repeats", type=whole_number(1), default=20, metavar="R", help=repeats)
    forms = [form.value for form in SpeedForm]
    shape = "PSs' term: the weighted average, one knee, the paper's w/p (default blend)"
    add("--form", choices=forms, default=SpeedForm.BLEND.value, help=shape)


def _run(options: argparse.Namespace, progress: Progress) -> Answer:
    read = read_speed_tables(options.file)
    draws_of = {each.mode: distinct_draws(each, options.repeats) for each in read.tables}
    work = [(each, number) for each in read.tables for number in range(draws_of[each.mode])]
    draws: dict[TrainingMode, dict[int, list[Draw]]] = {
        each.mode: {samples: [] for samples in options.samples} for each in read.tables
    }
    for each, number in progress(work, "Drawing samples"):
        # A mode's draws are the same whether or not the file holds the other mode.
        generator = np.random.default_rng([options.seed, each.mode is TrainingMode.SYNC, number])
        found = evaluate(each, options.samples, SpeedForm(options.form), generator)
        for samples, draw in zip(options.samples, found, strict=True):
            if isinstance(draw, NotReady):
                raise BadInput(options.file, f"{each.mode}: {draw}")
            draws[each.mode][samples].append(draw)
    scores = {
        mode: {samples: Score.of(each) for samples, each in by_samples.items()}
        for mode, by_samples in draws.items()
    }
    text = "\n".join([_table(draws, scores), "", *_remarks(read, options)])
    return Answer(_value(draws, scores), text, partial(_plot, draws))


def _value(draws: Draws, scores: Scores) -> object:
    return {
        mode.value: {
            str(number): {
                "mean": score.mean,
                "p90": score.p90,
                "chosen_ratio": score.chosen_ratio,
                "samples": [list(counts) for counts in draws[mode][number][0].samples],
            }
            for number, score in by_samples.items()
        }
        for mode, by_samples in scores.items()
    }


def _table(draws: Draws, scores: Scores) -> str:
    headings = ("mode", "samples", "mean error", "90th pct.", "chosen/best")
    rows = []
    for mode, by_samples in scores.items():
        for number, score in by_samples.items():
            samples = draws[mode][number][0].samples
            measured = " ".join(f"{counts.ps}+{counts.workers}" for counts in samples)
            errors = percent(score.mean), percent(score.p90)
            rows.append((mode.value, number, *errors, f"{score.chosen_ratio:.3f}", measured))
    return table("<>>>><", (*headings, "measured (PS+workers; first draw)"), rows)


def _remarks(read: SpeedTables, options: argparse.Namespace) -> list[str]:
    remarks = [_about(each, options) for each in read.tables]
    if read.failed_runs:
        remarks.append(f"{read.failed_runs} failed runs (speed 0) are left out.")
    remarks.extend(
        f"{each.mode.value}: all {len(each.repeats)} are measured, nothing is left to predict."
        for each in read.tables
        if max(options.samples) >= len(each.repeats)
    )
    remarks.append(
        "error: |predicted / measured - 1| at what was not measured for the model; "
        "chosen/best: measured speed at the model's choice / best measured speed."
    )
    return remarks


def _about(speeds: SpeedTable, options: argparse.Namespace) -> str:
    runs = sum(map(len, speeds.repeats.values()))
    draws = distinct_draws(speeds, options.repeats)
    made = f"{draws} draws" if draws > 1 else "1 draw (no counts were measured twice)"
    if draws == options.repeats == 1:
        made = "1 draw"
    counts = f"{len(speeds.repeats)} pairs of counts, {runs} runs"
    return f"{speeds.mode.value}: {counts}; {made}; form {options.form}."


def _plot(draws: Draws, figure: "Figure") -> None:
    """Predicted against measured speeds of the first draw, one panel for each mode."""
    figure.set_size_inches(5.2 * max(len(draws), 1.4), 5.6)
    panels = figure.subplots(1, len(draws), squeeze=False)[0]
    for panel, (mode, by_samples) in zip(panels, draws.items(), strict=True):
        _plot_panel(panel, mode, {number: each[0] for number, each in by_samples.items()})
    title = "Speed at counts that were not measured for the model (line: exact, band: ±10 %)"
    figure.suptitle(title, fontsize=11)


def _plot_panel(panel: "Axes", mode: TrainingMode, draws: Mapping[int, Draw]) -> None:
    every = np.concatenate([np.r_[each.predicted, each.measured] for each in draws.values()])
    ends = np.array([every.min() / 1.12, every.max() * 1.12])
    panel.fill_between(ends, ends * 0.9, ends * 1.1, color="0.92", linewidth=0, zorder=0)
    panel.plot(ends, ends, color="0.55", linewidth=1, zorder=1)
    for index, (number, draw) in enumerate(draws.items()):
        hidden = ~np.array(draw.sampled)
        error = f", mean error {draw.errors.mean():.1%}" if hidden.any() else ""
        style: dict[str, Any] = {"s": 26, "alpha": 0.75, "linewidths": 0}
        style |= {"color": _COLOURS[index % len(_COLOURS)], "label": f"{number} samples{error}"}
        points = draw.measured[hidden], draw.predicted[hidden]
        panel.scatter(*points, marker=_MARKERS[index % len(_MARKERS)], **style)
    panel.set(xlim=ends, ylim=ends, aspect="equal")
    panel.set(xlabel="measured, steps per second", ylabel="predicted, steps per second")
    panel.set_title(mode.value, fontsize=10)
    panel.legend(loc="upper left", fontsize=8, frameon=False)


def _sample_numbers(text: str) -> tuple[int, ...]:
    numbers = whole_numbers(text)
    if min(numbers) < NEEDED_COUNTS:
        needed = f"at least {NEEDED_COUNTS} samples are needed for a model"
        raise argparse.ArgumentTypeError(f"{needed}, not {min(numbers)}")
    return numbers


IMPLEMENTATION: Final = Implementation(_add_arguments, _run)
