"""``optimus forecast JOB``: when a job of a cluster meets its goal."""

import argparse
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from optimus.cli.cluster import connected
from optimus.cli.command import Answer
from optimus.cli.what_if import view_of
from optimus.errors import NotReady
from optimus.models.convergence import TimeToGoal
from optimus.models.forecast import Forecast, unlikely_text
from optimus.times import clock, duration

if TYPE_CHECKING:
    from optimus.cli.job_view import ClusterJob


def forecast_of_job(options: argparse.Namespace) -> Answer:
    """The forecast of the job that the options name."""
    with connected(options, "forecast") as cluster:
        return answer_of(view_of(cluster.client, cluster.namespace, str(options.log)))


def answer_of(view: "ClusterJob") -> Answer:
    """The forecast in sentences."""
    forecast, job = view.forecast, view.training_job
    found = forecast if isinstance(forecast, Forecast) and not view.is_over else None
    until = None if found is None else found.time_to_goal
    in_epochs = found is not None and found.remaining_epochs is not None
    value = {
        **view.value(),
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


def _lines(view: "ClusterJob", found: Forecast | None, in_epochs: bool) -> Iterator[str]:
    status, problem = view.status, _problem(view)
    if status.goal:
        now = status.metric or ("" if status.loss is None else f"loss {status.loss:.4g}")
        yield f"goal: {status.goal}{f'; now: {now}' if now else ''}"
    if found is not None and found.goal_met:
        yield "its goal is met"
    elif found is not None and found.time_to_goal is not None:
        unit = "epochs" if in_epochs else "steps"
        yield f"{_expected(found.time_to_goal, unit)}{_done(view)}"
    if view.end is not None:
        left = max(view.end.at - view.now, 0.0)
        yield f"at {view.size}: {view.end.text(view.now)} UTC, in {duration(left)}"
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


def _expected(until: TimeToGoal, unit: str) -> str:
    if until.is_unlikely:
        return f"{unlikely_text(until)}; its run ends after {until.point:.4g} {unit}"
    if until.is_wide:
        return f"it is met after {until.low:.4g} {unit} or later with 90 %: few losses are known"
    between = f"with 80 % between {until.low:.4g} and {until.high:.4g}"
    return f"it is met after {until.point:.4g} {unit}, {between}"


def _done(view: "ClusterJob") -> str:
    percent = view.status.progress_percent
    return "" if percent is None else f"; {percent} % of the work is done"
