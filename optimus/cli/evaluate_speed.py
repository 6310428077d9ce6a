"""``optimus evaluate speed``: the speed model (Optimus, section 3.2) against measured speeds."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from optimus.cli.arguments import whole_number, whole_numbers
from optimus.cli.command import Answer, BadInput, Implementation, Progress
from optimus.cli.speed_evaluation import Draw, Score, distinct_draws, evaluate
from optimus.cli.speed_table import SpeedTable, read_speed_tables
from optimus.cli.table import percent, table
from optimus.errors import NotReady
from optimus.jobs import TrainingMode
from optimus.models.speed.curve import SpeedForm
from optimus.models.speed.model import NEEDED_COUNTS

_REPEATS: Final = 20
"""Draws of one repeat for each counts, where counts were measured several times."""
_MEANING: Final = (
    "error: |predicted / measured - 1| at what was not measured for the model; "
    "chosen/best: measured speed at the model's choice / best measured speed."
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    speeds = "speed in steps per second of the whole job; several rows: repeats"
    add("file", type=Path, metavar="FILE.csv", help=speeds)
    samples = "numbers of samples to fit (default 5,10)"
    add("--samples", type=_sample_numbers, default=(5, 10), metavar="N,N", help=samples)
    add("--seed", type=whole_number(0), default=0, metavar="N", help="of the draws (default 0)")


def _run(options: argparse.Namespace, progress: Progress) -> Answer:
    read = read_speed_tables(options.file)
    value: dict[str, dict[str, object]] = {}
    rows, remarks = [], []
    for each in progress(read.tables, "Drawing samples"):
        by_samples = _drawn(each, options)
        for number, draws in by_samples.items():
            score, samples = Score.of(draws), draws[0].samples
            measured = " ".join(f"{p}+{w}" if p else f"{w}" for p, w in samples)
            errors = percent(score.mean), percent(score.p90)
            rows.append((each.name, number, *errors, f"{score.chosen_ratio:.3f}", measured))
            value.setdefault(each.name, {})[str(number)] = {
                "mean": score.mean,
                "p90": score.p90,
                "chosen_ratio": score.chosen_ratio,
                "samples": [list(counts) for counts in samples],
            }
        remarks.append(_about(each))
        if max(options.samples) >= len(each.repeats):
            all_of = f"all {len(each.repeats)} are measured, nothing is left to predict"
            remarks.append(f"{each.name}: {all_of}.")
    if read.failed_runs:
        remarks.append(f"{read.failed_runs} failed runs (speed 0) are left out.")
    if read.on_more_servers:
        remarks.append(f"{read.on_more_servers} runs on more servers than needed are left out.")
    headings = ("mode", "samples", "mean error", "90th pct.", "chosen/best", "measured, first draw")
    text = "\n".join([table("<>>>><", headings, rows), "", *remarks, _MEANING])
    return Answer(value, text)


def _drawn(speeds: SpeedTable, options: argparse.Namespace) -> dict[int, list[Draw]]:
    """The draws by the number of samples."""
    found: dict[int, list[Draw]] = {samples: [] for samples in options.samples}
    for number in range(distinct_draws(speeds, _REPEATS)):
        # A mode's draws are the same whether or not the file holds the other mode.
        seed = [options.seed, speeds.mode is TrainingMode.SYNC, number]
        draws = evaluate(speeds, options.samples, SpeedForm.BLEND, np.random.default_rng(seed))
        for samples, draw in zip(options.samples, draws, strict=True):
            if isinstance(draw, NotReady):
                raise BadInput(options.file, f"{speeds.name}: {draw}")
            found[samples].append(draw)
    return found


def _about(speeds: SpeedTable) -> str:
    runs, draws = sum(map(len, speeds.repeats.values())), distinct_draws(speeds, _REPEATS)
    made = f"{draws} draws" if draws > 1 else "1 draw (no counts were measured twice)"
    return f"{speeds.name}: {len(speeds.repeats)} pairs of counts, {runs} runs; {made}."


def _sample_numbers(text: str) -> Sequence[int]:
    numbers = whole_numbers(text)
    if min(numbers) < NEEDED_COUNTS:
        needed = f"at least {NEEDED_COUNTS} samples are needed for a model"
        raise argparse.ArgumentTypeError(f"{needed}, not {min(numbers)}")
    return numbers


IMPLEMENTATION: Final = Implementation(_add_arguments, _run)
