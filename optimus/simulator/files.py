"""Results as files: the same results give the same bytes, on every machine.

JSON is sorted by key; CSV has fixed columns in a fixed order, one line for each job, point or
forecast. Seconds are written with 3 decimals, everything else with as many digits as tell it apart.
"""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from optimus.simulator.results import Simulation
from optimus.simulator.summary import PolicySummary, summarise

JOB_COLUMNS = (
    "policy",
    "seed",
    "job",
    "kind",
    "mode",
    "arrived_at",
    "placed_at",
    "finished_at",
    "completion_seconds",
    "trained_seconds",
    "epochs",
    "restarts",
    "profiling_runs",
    "pauses",
)
TIMELINE_COLUMNS = (
    "policy",
    "seed",
    "at",
    "training",
    "idle",
    "waiting",
    "ps",
    "workers",
    "ps_cpu",
    "worker_cpu",
    "gpus",
)
FORECAST_COLUMNS = (
    "policy",
    "seed",
    "job",
    "at",
    "progress",
    "remaining_seconds",
    "true_remaining_seconds",
    "total_epochs",
    "true_epochs",
    "steps_per_second",
    "true_steps_per_second",
)


def results(found: Sequence[Simulation]) -> dict[str, object]:
    """The figures of all policies: plain lists, dicts, numbers and strings, with ``None`` for what
    is not known."""
    seeds = sorted({each.seed for each in found})
    return {
        "workload": found[0].workload,
        "jobs": len(found[0].jobs),
        "seeds": seeds,
        "ratios_to": found[0].policy,
        "policies": {each.policy: _policy(each) for each in summarise(found)},
    }


def _policy(summary: PolicySummary) -> dict[str, object]:
    return {
        "figures": {name: asdict(estimate) for name, estimate in summary.figures.items()},
        "ratios": {name: asdict(estimate) for name, estimate in summary.ratios.items()},
    }


def write(found: Sequence[Simulation], folder: Path) -> tuple[Path, ...]:
    """Write results.json, jobs.csv, timeline.csv and forecasts.csv; returns their paths."""
    texts = {
        "results.json": json.dumps(results(found), indent=2, sort_keys=True, allow_nan=False)
        + "\n",
        "jobs.csv": _csv(JOB_COLUMNS, (row for each in found for row in _jobs(each))),
        "timeline.csv": _csv(TIMELINE_COLUMNS, (row for each in found for row in _timeline(each))),
        "forecasts.csv": _csv(
            FORECAST_COLUMNS, (row for each in found for row in _forecasts(each))
        ),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return tuple(folder / name for name in texts)


def _csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


def _jobs(found: Simulation) -> Iterable[Sequence[object]]:
    for job in found.jobs:
        seconds = (
            job.arrived_at,
            job.placed_at,
            job.finished_at,
            job.completion_seconds,
            job.trained_seconds,
        )
        counts = (job.epochs, job.restarts, job.profiling_runs, job.pauses)
        yield (
            found.policy,
            found.seed,
            job.uid,
            job.kind,
            job.mode,
            *map(_seconds, seconds),
            *counts,
        )


def _timeline(found: Simulation) -> Iterable[Sequence[object]]:
    for point in found.timeline:
        at, *counts = asdict(point).values()
        yield found.policy, found.seed, _seconds(at), *counts


def _forecasts(found: Simulation) -> Iterable[Sequence[object]]:
    ends = {job.uid: job.finished_at for job in found.jobs}
    for forecast in found.forecasts:
        seconds = (forecast.remaining_seconds, ends[forecast.uid] - forecast.at)
        yield (
            found.policy,
            found.seed,
            forecast.uid,
            _seconds(forecast.at),
            f"{forecast.progress:.6f}",
            *map(_seconds, seconds),
            f"{forecast.total_epochs:.3f}",
            forecast.true_epochs,
            f"{forecast.steps_per_second:.6g}",
            f"{forecast.true_steps_per_second:.6g}",
        )


def _seconds(value: float) -> str:
    return f"{value:.3f}"
