"""``optimus evaluate speed``: the speed model (Optimus, section 3.2) against a table of measured
speeds."""

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from optimus.cli.command import Answer, BadInput, Command, Progress
from optimus.cli.speed_evaluation import Judgement, Score, draws_that_differ, judge
from optimus.cli.speed_plot import draw_predictions
from optimus.cli.speed_table import SpeedTable, SpeedTables, read_speed_tables
from optimus.errors import NotReady
from optimus.jobs import TrainingMode
from optimus.models.speed.curve import SpeedForm
from optimus.models.speed.model import NEEDED_COUNTS

Judgements = Mapping[TrainingMode, Mapping[int, Sequence[Judgement]]]

_SUMMARY = (
    "how well the speed model predicts the speeds that it was not shown, of a CSV "
    "mode,ps,workers,speed[,batch]"
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE.csv",
        help="speed in steps per second of the whole job; several rows: repeats",
    )
    parser.add_argument(
        "--samples",
        type=_sample_numbers,
        default=(5, 10),
        metavar="N,N",
        help="fit to so many samples (default 5,10)",
    )
    parser.add_argument(
        "--seed", type=_at_least(0), default=0, metavar="N", help="of the draws (default 0)"
    )
    parser.add_argument(
        "--repeats",
        type=_at_least(1),
        default=20,
        metavar="R",
        help="draws of one repeat for each sample (default 20)",
    )
    parser.add_argument(
        "--form",
        choices=[form.value for form in SpeedForm],
        default=SpeedForm.BLEND.value,
        help=(
            "shape of the PSs' term: the product's average, one knee, the paper's w/p (default "
            "blend)"
        ),
    )


def _run(options: argparse.Namespace, progress: Progress) -> Answer:
    read = read_speed_tables(options.file)
    work = [
        (table, draw)
        for table in read.tables
        for draw in range(draws_that_differ(table, options.repeats))
    ]
    judgements: dict[TrainingMode, dict[int, list[Judgement]]] = {}
    for table, draw in progress(work, "Drawing samples"):
        # A mode's draws stay as they are whether or not the file holds the other mode.
        generator = np.random.default_rng([options.seed, table.mode is TrainingMode.SYNC, draw])
        held = judgements.setdefault(table.mode, {number: [] for number in options.samples})
        for number, judgement in zip(
            options.samples,
            judge(table, options.samples, SpeedForm(options.form), generator),
            strict=True,
        ):
            if isinstance(judgement, NotReady):
                raise BadInput(options.file, f"{table.mode}: {judgement}")
            held[number].append(judgement)
    scores = {
        mode: {number: Score.of(each) for number, each in held.items()}
        for mode, held in judgements.items()
    }
    text = "\n".join([*_lines(judgements, scores), "", *_remarks(read, options)])
    return Answer(
        _value(judgements, scores), text, partial(draw_predictions, judgements=judgements)
    )


def _value(judgements: Judgements, scores: Mapping[TrainingMode, Mapping[int, Score]]) -> object:
    return {
        mode.value: {
            str(number): {
                "mean": score.mean,
                "p90": score.p90,
                "chosen_ratio": score.chosen_ratio,
                "samples": [list(counts) for counts in judgements[mode][number][0].samples],
            }
            for number, score in held.items()
        }
        for mode, held in scores.items()
    }


def _lines(judgements: Judgements, scores: Mapping[TrainingMode, Mapping[int, Score]]) -> list[str]:
    lines = [
        "mode   samples  mean error  90th pct.  chosen/best  measured (PS+workers; first draw)"
    ]
    for mode, held in scores.items():
        for number, score in held.items():
            where = " ".join(
                f"{counts.ps}+{counts.workers}" for counts in judgements[mode][number][0].samples
            )
            errors = f"{_percent(score.mean):>10}  {_percent(score.p90):>9}"
            lines.append(
                f"{mode.value:<5}  {number:>7}  {errors}  {score.chosen_ratio:>11.3f}  {where}"
            )
    return lines


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{part:.1%}"


def _remarks(read: SpeedTables, options: argparse.Namespace) -> list[str]:
    remarks = [_about(table, options) for table in read.tables]
    if read.failed_runs:
        remarks.append(f"{read.failed_runs} failed runs (speed 0) are left out.")
    remarks.extend(
        f"{table.mode.value}: all {len(table.repeats)} are measured, nothing is left to predict."
        for table in read.tables
        if max(options.samples) >= len(table.repeats)
    )
    remarks.append(
        "error: |predicted / measured - 1| at what was not measured for the model; "
        "chosen/best: measured speed at the model's choice / best measured speed."
    )
    return remarks


def _about(table: SpeedTable, options: argparse.Namespace) -> str:
    runs = sum(map(len, table.repeats.values()))
    draws = draws_that_differ(table, options.repeats)
    made = f"{draws} draws" if draws > 1 else "1 draw (no counts were measured twice)"
    if draws == options.repeats == 1:
        made = "1 draw"
    return (
        f"{table.mode.value}: {len(table.repeats)} pairs of counts, {runs} runs; {made}; form "
        f"{options.form}."
    )


def _sample_numbers(text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"numbers joined by commas are expected, as in 5,10, not {text!a}"
        ) from None
    if min(numbers) < NEEDED_COUNTS:
        raise argparse.ArgumentTypeError(
            f"at least {NEEDED_COUNTS} samples are needed for a model, not {min(numbers)}"
        )
    return numbers


def _at_least(least: int) -> "partial[int]":
    return partial(_whole, least)


def _whole(least: int, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(
            f"a whole number of at least {least} is expected, not {text!a}"
        )
    return number


COMMAND = Command(("evaluate", "speed"), _SUMMARY, _add_arguments, _run)
