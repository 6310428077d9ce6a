"""Results as files: the same results give the same bytes, on every machine.

JSON is sorted by key; CSV has fixed columns in a fixed order, one line for each job, point or
forecast. Seconds are written with 3 decimals."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from optimus.simulator.results import Simulation
from optimus.simulator.summary import summarise

JOB_COLUMNS = (
    *("policy", "seed", "job", "kind", "mode", "arrived_at", "placed_at", "finished_at"),
    *("completion_seconds", "trained_seconds", "epochs", "restarts", "profiling_runs", "pauses"),
    "lost_seconds",
)
TIMELINE_COLUMNS = (
    *("policy", "seed", "at", "training", "idle", "waiting", "ps", "workers"),
    *("ps_cpu", "worker_cpu", "gpus", "price_per_hour"),
)
FORECAST_COLUMNS = (
    *("policy", "seed", "job", "at", "progress", "remaining_seconds", "true_remaining_seconds"),
    *("total_epochs", "true_epochs", "steps_per_second", "true_steps_per_second"),
)
FILES = ("results.json", "jobs.csv", "timeline.csv", "forecasts.csv")
Rows = Iterator[Sequence[object]]


def results(found: Sequence[Simulation]) -> dict[str, object]:
    """The figures of all policies as plain values; ``None`` for what is not known."""
    return {
        "workload": found[0].workload,
        "jobs": len(found[0].jobs),
        "seeds": sorted({each.seed for each in found}),
        "ratios_to": found[0].policy,
        "policies": {
            each.policy: {
                "figures": {name: asdict(estimate) for name, estimate in each.figures.items()},
                "ratios": {name: asdict(estimate) for name, estimate in each.ratios.items()},
            }
            for each in summarise(found)
        },
    }


def write(found: Sequence[Simulation], folder: Path) -> tuple[Path, ...]:
    """Write results.json, jobs.csv, timeline.csv and forecasts.csv; returns their paths."""
    figures = json.dumps(results(found), indent=2, sort_keys=True, allow_nan=False)
    texts = (
        f"{figures}\n",
        _csv(JOB_COLUMNS, found, _jobs),
        _csv(TIMELINE_COLUMNS, found, _timeline),
        _csv(FORECAST_COLUMNS, found, _forecasts),
    )
    for name, text in zip(FILES, texts, strict=True):
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return tuple(folder / name for name in FILES)


def _csv(
    columns: Sequence[str], found: Iterable[Simulation], rows: Callable[[Simulation], Rows]
) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows((each.policy, each.seed, *row) for each in found for row in rows(each))
    return text.getvalue()


def _jobs(found: Simulation) -> Rows:
    for job in found.jobs:
        instants = job.arrived_at, job.placed_at, job.finished_at
        seconds = map(_seconds, (*instants, job.completion_seconds, job.trained_seconds))
        counts = job.epochs, job.restarts, job.profiling_runs, job.pauses
        yield job.uid, job.kind, job.mode, *seconds, *counts, _seconds(job.lost_seconds)


def _timeline(found: Simulation) -> Rows:
    for point in found.timeline:
        at, *counts = asdict(point).values()
        yield _seconds(at), *counts


def _forecasts(found: Simulation) -> Rows:
    ends = {job.uid: job.finished_at for job in found.jobs}
    for forecast in found.forecasts:
        yield (
            forecast.uid,
            _seconds(forecast.at),
            f"{forecast.progress:.6f}",
            _seconds(forecast.remaining_seconds),
            _seconds(ends[forecast.uid] - forecast.at),
            f"{forecast.total_epochs:.3f}",
            forecast.true_epochs,
            f"{forecast.steps_per_second:.6g}",
            f"{forecast.true_steps_per_second:.6g}",
        )


def _seconds(value: float) -> str:
    return f"{value:.3f}"
