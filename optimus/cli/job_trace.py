"""Anybody's jobs: a CSV file with a header, or JSON lines with the same names, one job a line.

``submit_time`` is needed, and an amount of work: ``duration_seconds``, ``steps``, ``epochs`` or a
``goal``. All else has a default; docs/simulator.md has the table. Cells may be empty."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar

from optimus.cli.command import BadInput
from optimus.cli.csv_table import CsvRow, read_lines, read_table, split_rows
from optimus.jobs import (
    ConvergenceThreshold,
    CountBounds,
    Counts,
    JobKey,
    LossGoal,
    RescaleRule,
    TargetLoss,
    TrainingMode,
)
from optimus.resources import CPU, MEMORY, Resources
from optimus.simulator.ground_truth.job_types import JOB_TYPES
from optimus.simulator.results import GPU
from optimus.simulator.trace_workload import SubmittedJob

Value = TypeVar("Value")

COLUMNS: Final = (
    *("submit_time", "name", "namespace", "kind", "type", "mode", "ps", "workers", "min_ps"),
    *("max_ps", "min_workers", "max_workers", "ps_cpu", "ps_memory_gib", "ps_gpu", "worker_cpu"),
    *("worker_memory_gib", "worker_gpu", "duration_seconds", "steps", "steps_per_second"),
    *("epochs", "steps_per_epoch", "goal", "deadline_seconds", "priority", "workload", "rescale"),
)
AMOUNTS: Final = ("duration_seconds", "steps", "epochs", "goal")
"""At least one of these is needed."""
JSON_SUFFIXES: Final = frozenset({".jsonl", ".ndjson", ".json"})

TYPES: Final = MappingProxyType({kind.name.lower(): kind for kind in JOB_TYPES})
_KINDS: Final = MappingProxyType({kind.lower(): kind for kind in ("TFJob", "MXJob")})
_MODES: Final = MappingProxyType({mode.value: mode for mode in TrainingMode})
_RULES: Final = MappingProxyType(
    {rule.value: rule for rule in (RescaleRule.ANY, RescaleRule.NEVER)}
)
_GIB: Final = 2**30
_LONGEST_SECONDS: Final = 1e9
_MOST_REPLICAS, _MOST_EPOCHS, _MOST_PRIORITY = 10_000, 10_000, 2e9
_MOST_AMOUNT, _MOST_STEPS = 1e6, 1e12
_REQUESTS: Final = {"cpu": (CPU, 1000), "memory_gib": (MEMORY, _GIB), "gpu": (GPU, 1)}
_GOALS: Final[Mapping[str, Callable[[float], LossGoal]]] = MappingProxyType(
    {"loss<=": TargetLoss, "threshold=": ConvergenceThreshold}
)


def read_job_trace(file: Path) -> tuple[SubmittedJob, ...]:
    """The jobs of a trace in the general form; raises ``BadInput``."""
    rows = list(_json_rows(file) if file.suffix.lower() in JSON_SUFFIXES else _csv_rows(file))
    if not rows:
        raise BadInput(file, "at least one job is expected")
    times = _submit_times(rows)
    jobs = tuple(map(_job, range(len(rows)), rows, times))
    check_names(file, jobs)
    return jobs


def check_names(file: Path, jobs: Sequence[SubmittedJob]) -> None:
    """Raises ``BadInput`` where two jobs have the same namespace and name, or one has a name that
    cannot be written into a file of results."""
    seen = set[JobKey]()
    for job in jobs:
        if not f"{job.key}{job.workload or ''}".isprintable():
            raise BadInput(file, f"names that can be printed are expected, found {str(job.key)!a}")
        if job.key in seen:
            raise BadInput(file, f"each job once is expected, {job.key} is repeated")
        seen.add(job.key)


def check_duration(row: CsvRow, seconds: float) -> None:
    """Raises ``BadInput`` where a job would train for longer than any simulation."""
    if seconds > _LONGEST_SECONDS:
        most = f"at most {_LONGEST_SECONDS:g} s of training are expected"
        raise row.error(f"{most}, and its steps at its speed take {seconds:.4g} s")


def _seconds_of(text: str) -> float | None:
    """Seconds since 1970 of an instant as in ISO 8601; without a zone it is UTC."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp()


def _csv_rows(file: Path) -> Iterator[CsvRow]:
    lines = ["\n" if line.lstrip().startswith("#") else line for line in read_lines(file)]
    yield from read_table(file, split_rows(file, lines, strict=True), ("submit_time",))


def _json_rows(file: Path) -> Iterator[CsvRow]:
    """One object a line. Numbers, texts and null are the same as in a cell."""
    for number, line in enumerate(read_lines(file), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict) or not all(map(_is_plain, values.values())):
            expected = "a JSON object of numbers and texts is expected on each line"
            raise BadInput(file, expected, number)
        cells = {key: "" if each is None else str(each).strip() for key, each in values.items()}
        yield CsvRow(file, number, cells)


def _is_plain(value: object) -> bool:
    return value is None or (isinstance(value, str | int | float) and not isinstance(value, bool))


def _submit_times(rows: Sequence[CsvRow]) -> list[float]:
    """Seconds as they are; instants from the first of them on."""
    texts = [row.cells.get("submit_time", "") for row in rows]
    instants = [_seconds_of(text) if "-" in text[1:] else None for text in texts]
    given = [instant for instant in instants if instant is not None]
    if len(given) == len(rows):
        first = min(given)
        return [each - first for each in given]
    return [_seconds(row) for row in rows]


def _seconds(row: CsvRow) -> float:
    try:
        return row.number("submit_time", 0, _LONGEST_SECONDS)
    except BadInput:
        many = "seconds from 0 to 1e+09, or in all lines instants like 2026-01-31T12:00:00Z,"
        raise row.error(f"{many} are expected as submit_time") from None


def _job(index: int, row: CsvRow, submit_seconds: float) -> SubmittedJob:
    cells = row.cells
    unknown = [name for name in cells if name not in COLUMNS]
    if unknown:
        raise row.error(f"the columns {','.join(COLUMNS)} are expected, not {unknown[0]!a}")
    if not any(cells.get(name) for name in AMOUNTS):
        raise row.error(f"one of {', '.join(AMOUNTS)} is expected: how much work the job has")
    bounds = _bounds(row)
    counts = bounds.clamp(Counts(_whole(row, "ps") or 1, _whole(row, "workers") or 1))
    deadline = _number(row, "deadline_seconds", _LONGEST_SECONDS)
    job = SubmittedJob(
        key=JobKey(cells.get("namespace") or "default", cells.get("name") or f"job-{index:05}"),
        submit_seconds=submit_seconds,
        kind=_choice(row, "kind", _KINDS) or "TFJob",
        job_type=_choice(row, "type", TYPES),
        mode=_choice(row, "mode", _MODES) or TrainingMode.SYNC,
        counts=counts,
        bounds=bounds,
        ps=_requests(row, "ps"),
        worker=_requests(row, "worker"),
        duration_seconds=_number(row, "duration_seconds", _LONGEST_SECONDS),
        steps=_number(row, "steps", _MOST_STEPS),
        steps_per_second=_number(row, "steps_per_second", _MOST_STEPS),
        epochs=_whole(row, "epochs", _MOST_EPOCHS),
        steps_per_epoch=_number(row, "steps_per_epoch", _MOST_STEPS),
        loss_goal=_goal(row),
        finish_by_seconds=None if deadline is None else submit_seconds + deadline,
        priority=int(row.number("priority", -_MOST_PRIORITY, _MOST_PRIORITY))
        if cells.get("priority")
        else 0,
        workload=cells.get("workload") or None,
        rescale=_choice(row, "rescale", _RULES) or RescaleRule.ANY,
    )
    return _consistent(row, job)


def _consistent(row: CsvRow, job: SubmittedJob) -> SubmittedJob:
    """The job, unless two of its values contradict each other."""
    amounts = job.duration_seconds, job.steps, job.steps_per_second
    if None not in amounts:
        raise row.error("two of duration_seconds, steps and steps_per_second are expected")
    if job.steps is not None and job.steps_per_second is not None:
        check_duration(row, job.steps / job.steps_per_second)
    if job.epochs is not None and job.steps_per_epoch is not None and amounts[:2] != (None, None):
        more = "beside duration_seconds or steps"
        raise row.error(f"one of epochs and steps_per_epoch is expected {more}")
    return job


def _bounds(row: CsvRow) -> CountBounds:
    least = [_whole(row, name) for name in ("min_ps", "min_workers")]
    most = [_whole(row, name) for name in ("max_ps", "max_workers")]
    for low, high in zip(least, most, strict=True):
        if high is not None and (low or 1) > high:
            raise row.error("a minimum of replicas of at most their maximum is expected")
    given = [each is not None for each in least]
    return CountBounds(least[0] or 1, most[0], least[1] or 1, most[1], *given)


def _requests(row: CsvRow, role: str) -> Resources | None:
    """Return what one replica requests; ``None`` where no amount is given."""
    found = {
        resource: math.ceil((_number(row, f"{role}_{name}", _MOST_AMOUNT, 0) or 0) * units)
        for name, (resource, units) in _REQUESTS.items()
    }
    return Resources(found) if any(found.values()) else None


def _goal(row: CsvRow) -> LossGoal | None:
    text = "".join(row.cells.get("goal", "").split())
    if not text:
        return None
    for begin, goal in _GOALS.items():
        if text.startswith(begin):
            most = 1.0 if goal is ConvergenceThreshold else _MOST_AMOUNT
            value = row.number("goal", 0, most, text.removeprefix(begin))
            if value > 0:
                return goal(value)
    raise row.error(f"a goal like loss<=0.5 or threshold=0.02 is expected, found {text[:40]!a}")


def _choice(row: CsvRow, column: str, values: Mapping[str, Value]) -> Value | None:
    return row.choice(column, values) if row.cells.get(column) else None


def _number(row: CsvRow, column: str, most: float, least: float | None = None) -> float | None:
    """A number above 0, or of at least ``least``; ``None`` where the cell is empty."""
    if not row.cells.get(column):
        return None
    value = row.number(column, least or 0, most)
    if value == 0 and least is None:
        raise row.error(f"a number above 0 is expected as {column}")
    return value


def _whole(row: CsvRow, column: str, most: int = _MOST_REPLICAS) -> int | None:
    """A whole number of at least 1; ``None`` where the cell is empty."""
    value = _number(row, column, most)
    if value is not None and not value.is_integer():
        raise row.error(f"a whole number is expected as {column}")
    return None if value is None else int(value)
