"""``optimus evaluate convergence``: the convergence model (Optimus, section 3.1) on past logs."""

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from optimus.cli.arguments import fractions, number_between, whole_number
from optimus.cli.command import Answer, BadInput, Implementation, Progress
from optimus.cli.convergence_evaluation import (
    EvaluatedForecast,
    ForecastQuestion,
    predict,
    questions_after_drops,
    questions_at,
    questions_of_threshold,
    roc_auc,
    unreachable,
)
from optimus.cli.table import percent, table
from optimus.cli.training_log import TrainingLog, read_training_log

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEAST_EPOCHS: Final = 10
_DIGITS: Final = 6
_TOP: Final = 2.0
_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9")

Evaluated = Sequence[tuple[TrainingLog, EvaluatedForecast]]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    parts: dict[str, Any] = {"type": fractions, "metavar": "PART,PART"}
    log = "a log as the trainer prints it, or a CSV epoch,loss; also packed (.gz, .xz, .bz2)"
    add("logs", nargs="+", type=Path, metavar="LOG", help=log)
    at = "predict from these parts of a run, with nothing after them known (default 0.3,0.5)"
    add("--at", default=(0.3, 0.5), help=at, **parts)
    target = "targets: the smallest loss up to these parts of a run (default 0.6,0.75,0.9)"
    add("--target-at", default=(0.6, 0.75, 0.9), help=target, **parts)
    drop = (
        "instead of --at: predict from K epochs after each drop of the learning rate, "
        "targets until the next one"
    )
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--after-drop", type=whole_number(1), metavar="K", help=drop)
    never = "ask also for a target that is never reached: this part of the run's smallest loss"
    add("--unreachable", type=number_between(0, 1), metavar="PART", help=never)
    threshold = (
        "instead of targets: when the losses converge by this threshold, as in the annotation "
        "optimus.dl/convergence-threshold"
    )
    instead.add_argument("--threshold", type=number_between(0, 1), metavar="T", help=threshold)
    metric = (
        "name of the training loss in the logs (default: the usual); one that rises, such as "
        "accuracy, is judged by its error"
    )
    add("--metric", metavar="NAME", help=metric)
    schedule = "predict without the end and the learning rates that the logs declare at their top"
    add("--no-schedule", action="store_true", help=schedule)


def _run(options: argparse.Namespace, progress: Progress) -> Answer:
    asked = [
        (log, question)
        for log in map(partial(_read, metric=options.metric), options.logs)
        for question in _questions(log, options)
    ]
    if not asked:
        expected = "runs with a target in their hidden part are expected"
        if options.threshold is not None:
            expected = f"runs that converge by {options.threshold:g} in their hidden part, or not"
            expected = f"{expected} at all, are expected"
        elif options.after_drop is not None:
            after = f"more than {options.after_drop} epochs after it"
            expected = f"a drop of the learning rate with {after} is expected"
        raise BadInput(options.logs[0], expected)
    runs = {
        log.file: (
            log.epoch_means(),
            log.schedule if log.in_epochs and not options.no_schedule else None,
        )
        for log, _ in asked
    }
    work = progress(asked, "Predicting")
    evaluated = [(log, predict(*runs[log.file], question)) for log, question in work]
    values = [_value(*each) for each in evaluated]
    return Answer(values, _text(evaluated), partial(_plot, evaluated))


def _read(file: Path, metric: str | None) -> TrainingLog:
    log = read_training_log(file, metric)
    known = len(log.epoch_means())
    if known < _LEAST_EPOCHS:
        unit = "completed epochs" if log.in_epochs else "losses"
        raise BadInput(file, f"at least {_LEAST_EPOCHS} {unit} are expected, {known} found")
    return log


def _questions(log: TrainingLog, options: argparse.Namespace) -> list[ForecastQuestion]:
    means = log.epoch_means()
    losses = [point.loss for point in means]
    if options.threshold is not None:
        if not log.in_epochs:
            raise BadInput(log.file, "a threshold needs epochs, which this log does not show")
        return list(questions_of_threshold(means, options.at, options.threshold, log.declared))
    if options.after_drop is None:
        asked = list(questions_at(losses, options.at, options.target_at))
    else:
        asked = list(questions_after_drops(means, options.after_drop, options.target_at))
    if options.unreachable is not None:
        asked.extend(unreachable(asked, losses, options.unreachable))
    return asked


def _value(log: TrainingLog, evaluated: EvaluatedForecast) -> dict[str, object]:
    question, time_to_goal = evaluated.question, evaluated.time_to_goal
    return {
        "log": str(log.file),
        "origin": question.origin,
        "seen_epochs": question.seen,
        "run_epochs": question.run,
        "target_at": question.at,
        "target_loss": question.target,
        "threshold": getattr(question.goal, "fraction", None),
        "true_epoch": question.true,
        "predicted_epoch": time_to_goal and _rounded(time_to_goal.point),
        "low": time_to_goal and _rounded(time_to_goal.low),
        "high": time_to_goal and _rounded(time_to_goal.high),
        "probability": _rounded(evaluated.probability),
        "error": _rounded(evaluated.error),
        "paper_error": _rounded(evaluated.paper_error),
    }


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, _DIGITS)


def _text(evaluated: Evaluated) -> str:
    headings = ("log", "origin", "seen", "run", "target at", "true", "predicted", "80 % interval")
    rows = (_row(*each) for each in evaluated)
    predictions = table("<<>>>>><>>", (*headings, "error", "paper's"), rows)
    measures = ("error", "paper's", "2 x seen", "coverage", "width", "not reachable")
    by_origin: dict[str, list[EvaluatedForecast]] = {}
    for _, each in evaluated:
        by_origin.setdefault(each.question.origin, []).append(each)
    headings, rows = (
        ("from", "targets", *measures),
        (_summary_row(*item) for item in by_origin.items()),
    )
    summary = table("<>>>>>>>>", (*headings, "reached above never"), rows)
    return (
        f"{predictions}\n\n{summary}\n"
        "Errors and widths are means, as parts of the run; an answer of not reachable counts as "
        "an error of 100 %."
    )


def _row(log: TrainingLog, each: EvaluatedForecast) -> Sequence[object]:
    question, found = each.question, each.time_to_goal
    return (
        *(log.file.name, question.origin, question.seen, question.run),
        "-" if question.at is None else f"{question.at:g}",
        "never" if question.true is None else question.true,
        "not reachable" if found is None else f"{found.point:.1f}",
        "" if found is None else f"{found.low:.1f} - {found.high:.1f}",
        percent(each.error),
        percent(each.paper_error),
    )


def _summary_row(origin: str, evaluated: Sequence[EvaluatedForecast]) -> Sequence[object]:
    known = [each for each in evaluated if each.question.true is not None]
    if not known:
        return (origin, 0, *"-----", 0, "-")
    errors = zip(*((each.error, each.paper_error, each.twice_error) for each in known), strict=True)
    separation = roc_auc(evaluated)
    return (
        origin,
        len(known),
        *(percent(fmean(error for error in each if error is not None)) for each in errors),
        f"{fmean(each.covered for each in known):.0%}",
        percent(fmean(each.width for each in known)),
        sum(each.time_to_goal is None for each in known),
        "-" if separation is None else f"{separation:.0%}",
    )


def _plot(evaluated: Evaluated, figure: "Figure") -> None:
    """Predicted over true epoch, both as parts of the run, one panel for each origin."""
    known = [(log.file, each) for log, each in evaluated if each.question.true is not None]
    origins = list(dict.fromkeys(each.question.origin for _, each in known))
    files = list(dict.fromkeys(file for file, _ in known))
    figure.set_size_inches(4.6 * max(len(origins), 1.5), 5.2)
    panels = figure.subplots(1, len(origins), squeeze=False, sharey=True)[0]
    for panel, origin in zip(panels, origins, strict=True):
        panel.plot([0, 1], [0, 1], color="0.6", linewidth=1, zorder=0)
        for index, file in enumerate(files):
            of_file = [each for of, each in known if (of, each.question.origin) == (file, origin)]
            style: dict[str, Any] = {"color": _COLOURS[index % len(_COLOURS)], "label": file.name}
            for n, each in enumerate(of_file):
                run, found = each.question.run, each.time_to_goal
                true = (each.question.true or 0) / run
                if found is None or found.point > _TOP * run:
                    panel.plot(true, 0.97 * _TOP, "x" if found is None else "^", **style)
                else:
                    # Targets of one run may be met at the same epoch: they are drawn side by side.
                    x, y = true + 0.006 * (n - 1), found.point / run
                    errors = [[y - found.low / run], [max(found.high / run - y, 0)]]
                    sizes = {"elinewidth": 1, "capsize": 2, "markersize": 5}
                    panel.errorbar(x, y, yerr=errors, fmt="o", **sizes, **style)
                style["label"] = None
        panel.set_xlim(0, 1)
        panel.set_ylim(0, _TOP)
        unit = "of the run" if origin[0].isdigit() else "epochs"
        panel.set_title(f"seen: {origin} {unit}", fontsize=10)
        panel.set_xlabel("target met, part of the run")
        panel.legend(loc="upper left", fontsize=7, frameon=False)
    panels[0].set_ylabel("predicted, part of the run (at the top: ▲ later, x not reachable)")
    figure.suptitle("When a loss is met: predictions with their 80 % intervals", fontsize=11)


IMPLEMENTATION: Final = Implementation(_add_arguments, _run)
