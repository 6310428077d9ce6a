"""``optimus evaluate convergence``: the convergence model (Optimus, section 3.1) against training
logs of the past."""

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Final

from optimus.cli.command import Answer, BadInput, Command, Progress
from optimus.cli.convergence_evaluation import (
    EvaluatedForecast,
    Question,
    predict,
    questions_after_drops,
    questions_at,
    separation,
    unreachable,
)
from optimus.cli.convergence_plot import draw_predictions
from optimus.cli.training_log import TrainingLog, read_training_log

_SUMMARY = (
    "how well the convergence model foretells when logs of past training met a loss, from "
    "their beginnings"
)
_LEAST_EPOCHS: Final = 10
_DIGITS: Final = 6

Judged = tuple[TrainingLog, EvaluatedForecast]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "logs",
        nargs="+",
        type=Path,
        metavar="LOG",
        help="a log as the trainer prints it, or a CSV epoch,loss",
    )
    parser.add_argument(
        "--at",
        type=_fractions,
        default=(0.3, 0.5),
        metavar="PART,PART",
        help="predict from these parts of a run, with nothing after them known (default 0.3,0.5)",
    )
    parser.add_argument(
        "--target-at",
        type=_fractions,
        default=(0.6, 0.75, 0.9),
        metavar="PART,PART",
        help="targets: the smallest loss up to these parts of a run (default 0.6,0.75,0.9)",
    )
    parser.add_argument(
        "--after-drop",
        type=_at_least_one,
        metavar="K",
        help=(
            "instead of --at: predict from K epochs after each drop of the learning rate, "
            "targets until the next one"
        ),
    )
    parser.add_argument(
        "--unreachable",
        type=_fraction,
        metavar="PART",
        help="ask also for a target that is never reached: this part of the run's smallest loss",
    )
    parser.add_argument(
        "--metric",
        metavar="NAME",
        help="name of the training loss in the logs (default: the usual)",
    )


def _run(options: argparse.Namespace, progress: Progress) -> Answer:
    asked = [
        (log, question)
        for log in map(partial(_read, metric=options.metric), options.logs)
        for question in _questions(log, options)
    ]
    if not asked:
        expected = "runs with a target in their hidden part are expected"
        if options.after_drop is not None:
            expected = (
                f"a drop of the learning rate with more than {options.after_drop} epochs "
                "after it is expected"
            )
        raise BadInput(options.logs[0], expected)
    means = {log.file: log.epoch_means() for log, _ in asked}
    judged = [
        (log, predict(means[log.file], question)) for log, question in progress(asked, "Predicting")
    ]
    return Answer(
        [_value(*each) for each in judged],
        "\n".join(_lines(judged)),
        partial(draw_predictions, judged),
    )


def _read(file: Path, metric: str | None) -> TrainingLog:
    log = read_training_log(file, metric)
    known = len(log.epoch_means())
    if known < _LEAST_EPOCHS:
        unit = "completed epochs" if log.in_epochs else "losses"
        raise BadInput(file, f"at least {_LEAST_EPOCHS} {unit} are expected, {known} found")
    return log


def _questions(log: TrainingLog, options: argparse.Namespace) -> list[Question]:
    means = log.epoch_means()
    losses = [point.loss for point in means]
    if options.after_drop is None:
        asked = list(questions_at(losses, options.at, options.target_at))
    else:
        asked = list(questions_after_drops(means, options.after_drop, options.target_at))
    if options.unreachable is not None:
        asked.extend(unreachable(asked, losses, options.unreachable))
    return asked


def _value(log: TrainingLog, prediction: EvaluatedForecast) -> dict[str, object]:
    question, time_to_goal = prediction.question, prediction.time_to_goal
    return {
        "log": str(log.file),
        "origin": question.origin,
        "seen_epochs": question.seen,
        "run_epochs": question.run,
        "target_at": question.at,
        "target_loss": question.target,
        "true_epoch": question.true,
        "predicted_epoch": _rounded(None if time_to_goal is None else time_to_goal.point),
        "low": _rounded(None if time_to_goal is None else time_to_goal.low),
        "high": _rounded(None if time_to_goal is None else time_to_goal.high),
        "probability": _rounded(prediction.probability),
        "error": _rounded(prediction.error),
        "paper_error": _rounded(prediction.paper_error),
    }


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, _DIGITS)


def _lines(judged: Sequence[Judged]) -> Iterator[str]:
    width = max(len(log.file.name) for log, _ in judged)
    yield (
        f"{'log':<{width}}  origin  seen    run  target at    true  predicted  80 % interval    "
        " error  paper's"
    )
    for log, prediction in judged:
        question, time_to_goal = prediction.question, prediction.time_to_goal
        told = f"{'not reachable':>24}    "
        if time_to_goal is not None:
            interval = f"{time_to_goal.low:.1f} - {time_to_goal.high:.1f}"
            told = f"{time_to_goal.point:>9.1f}  {interval:<17}"
        yield (
            f"{log.file.name:<{width}}  {question.origin:<6}  {question.seen:>4}  "
            f"{question.run:>5}  "
            f"{'-' if question.at is None else f'{question.at:g}':>9}  "
            f"{'never' if question.true is None else question.true:>6}  {told} "
            f"{_percent(prediction.error)}  {_percent(prediction.paper_error)}"
        )
    yield ""
    yield (
        "from    targets    error  paper's  2 x seen  interval holds  its width  not reachable  "
        "reached above never"
    )
    for origin in dict.fromkeys(prediction.question.origin for _, prediction in judged):
        yield _sum_up(
            origin, [prediction for _, prediction in judged if prediction.question.origin == origin]
        )
    yield (
        "Errors and widths are means, as parts of the run; an answer of not reachable counts as "
        "an error of 100 %."
    )


def _sum_up(origin: str, predictions: Sequence[EvaluatedForecast]) -> str:
    known = [each for each in predictions if each.question.true is not None]
    means = [
        fmean(error for error in each if error is not None)
        for each in zip(
            *((each.error, each.paper_error, each.twice_error) for each in known), strict=True
        )
    ]
    apart = separation(predictions)
    return (
        f"{origin:<6}  {len(known):>7}  {_percent(means[0])}  {_percent(means[1])}  "
        f"{_percent(means[2]):>8}  "
        f"{fmean(each.held for each in known):>14.0%}  "
        f"{_percent(fmean(each.width for each in known)):>9}  "
        f"{sum(each.time_to_goal is None for each in known):>13}  "
        f"{'-' if apart is None else f'{apart:.0%}':>19}"
    )


def _percent(part: float | None) -> str:
    return f"{'-' if part is None else f'{part:.1%}':>7}"


def _fractions(text: str) -> tuple[float, ...]:
    return tuple(_fraction(part) for part in text.split(","))


def _fraction(text: str) -> float:
    try:
        part = float(text)
    except ValueError:
        part = -1.0
    if not 0 < part < 1:
        raise argparse.ArgumentTypeError(f"parts between 0 and 1 are expected, not {text!r}")
    return part


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a number of epochs from 1 on is expected, not {text!r}")
    return int(text)


COMMAND = Command(("evaluate", "convergence"), _SUMMARY, _add_arguments, _run)
