"""``optimus forecast``: when a job of a cluster meets its goal; of a log see ``log_forecast``."""

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from optimus.cli.arguments import number_between, target_goal
from optimus.cli.cluster import add_arguments, connected
from optimus.cli.command import Answer, Implementation, Progress
from optimus.errors import NotReady
from optimus.times import clock, duration

if TYPE_CHECKING:  # loaded where something is fitted
    from optimus.cli.job_view import ClusterJob
    from optimus.models.convergence import TimeToGoal
    from optimus.models.forecast import Forecast


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    log = (
        "a log as the trainer prints it, or a CSV epoch,loss; also packed (.gz, .xz, .bz2); without"
        " a goal: the name of a job, whose own goal is asked about"
    )
    add("log", type=Path, metavar="LOG|JOB", help=log)
    goal = parser.add_mutually_exclusive_group()
    loss = number_between(0, math.inf, "a loss")
    goal.add_argument("--target-loss", type=loss, metavar="X", help="the loss to be met")
    target = "a goal as in optimus.dl/target, such as 'accuracy>=0.76'"
    goal.add_argument("--target", type=target_goal, metavar="GOAL", help=target)
    threshold = "a fall of an epoch, as in optimus.dl/convergence-threshold"
    goal.add_argument("--threshold", type=number_between(0, 1), metavar="T", help=threshold)
    metric = "name of the training loss in the log (default: the usual)"
    add("--metric", metavar="NAME", help=metric)
    add_arguments(parser)


def _run(options: argparse.Namespace, _: Progress) -> Answer:
    has_goal = (options.target_loss, options.target, options.threshold) != (None, None, None)
    if has_goal or len(options.log.parts) > 1 or options.log.is_file():
        from optimus.cli.log_forecast import forecast_of_log

        return forecast_of_log(options)
    with connected(options, "forecast") as cluster:
        from optimus.cli.job_view import view_of

        return answer_of(view_of(cluster.client, cluster.namespace, str(options.log)))


def answer_of(view: "ClusterJob") -> Answer:
    """The forecast in sentences."""
    forecast, job = view.forecast, view.training_job
    found = None if isinstance(forecast, NotReady) or view.is_over else forecast
    until = None if found is None else found.time_to_goal
    in_epochs = found is not None and found.remaining_epochs is not None
    value = {
        **view.value(),
        "end": view.fitted_end and view.fitted_end.value(),
        "unit": None if found is None else ("epochs" if in_epochs else "steps"),
        "predicted": until and round(until.point, 3),
        "low": until and round(until.low, 3),
        "high": until and round(until.high, 3),
        "goalMet": found is not None and found.goal_met,
        "probability": until and round(until.in_run, 6),
        "expected": found is not None and found.is_expected,
        "declaredEnd": view.status.declared_end or None,
        "problem": _problem(view),
    }
    text = "\n".join([f"{job.kind} {job.key}: {view.phase}", *_lines(view, found, in_epochs)])
    return Answer(value, text)


def _problem(view: "ClusterJob") -> str | None:
    if view.is_over:
        return "it has ended"
    if view.profile is None:
        if not view.is_managed:
            return view.unmanaged_text
        return "it has no TrainingProfile yet; optimus status says more"
    if isinstance(view.forecast, NotReady):
        return str(view.forecast)
    return "its profile stores no training yet" if view.forecast is None else None


def _lines(view: "ClusterJob", found: "Forecast | None", in_epochs: bool) -> Iterator[str]:
    status, problem = view.status, _problem(view)
    if status.goal:
        now = status.metric or ("" if status.loss is None else f"loss {status.loss:.4g}")
        yield f"goal: {status.goal}{f'; now: {now}' if now else ''}"
    if found is not None and found.goal_met:
        yield "its goal is met"
    elif found is not None and found.time_to_goal is not None:
        unit = "epochs" if in_epochs else "steps"
        yield f"{_expected(found.time_to_goal, unit)}{_done(view)}"
    end = view.fitted_end
    if end is not None:
        left = max(end.at - view.now, 0.0)
        yield f"at {view.size}: {end.text(view.now)} UTC, in {duration(left)}"
        if found is not None and view.job is not None and not found.goal_met:
            ps, workers = view.job.counts
            late = view.forecast_at + float(found.late_seconds(ps, workers))
            if math.isfinite(late):
                yield f"with a probability of 90 % by {clock(late, view.now)} UTC"
    elif problem is not None:
        yield f"there is no forecast: {problem}"
    for text in (status.declared_end, status.deadline):
        if text:
            yield text


def _expected(until: "TimeToGoal", unit: str) -> str:
    from optimus.jobs import counted
    from optimus.models.forecast import unlikely_text, when_text

    if until.is_unlikely:
        return f"{unlikely_text(until)}; its run ends after {counted(until.point, unit)}"
    return f"it is met {when_text(until, unit)}"


def _done(view: "ClusterJob") -> str:
    percent = view.status.progress_percent
    return "" if percent is None else f"; {percent} % of the work is done"


IMPLEMENTATION: Final = Implementation(_add_arguments, _run)
