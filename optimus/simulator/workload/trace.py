"""Jobs from a CSV file, one a line, in any order: ``arrival_seconds,type,mode,threshold,examples``.

``arrival_seconds`` counts from the trace's beginning. ``type`` is one of the nine job types,
``mode`` sync or async.
``threshold``: converged when the loss, divided by its largest value, falls by less than this from
epoch to epoch.
``examples`` of an epoch, may be left out or empty: the type's data set, scaled down where it is
large. The first line names the columns, in any order; lines that are empty or begin with # are
passed over."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from types import MappingProxyType
from typing import Final, NamedTuple

from numpy.random import Generator

from optimus.jobs import TrainingMode
from optimus.simulator.ground_truth.job_types import JOB_TYPES
from optimus.simulator.ground_truth.testbed import nodes
from optimus.simulator.jobs import Workload
from optimus.simulator.workload.random_jobs import JobChoice, WorkloadConfig, build_job

NEEDED: Final = ("arrival_seconds", "type", "mode", "threshold")
COLUMNS: Final = (*NEEDED, "examples")
_TYPES: Final = MappingProxyType({kind.name.lower(): kind for kind in JOB_TYPES})
_LONGEST_SECONDS: Final = 1e9
_MOST_EXAMPLES: Final = 1e9
"""Thirty years, and more examples than any data set: beyond these a simulation would not come to
its end."""
_MODES: Final = MappingProxyType({mode.value: mode for mode in TrainingMode})


class BadTraceError(ValueError):
    """A trace that cannot be read: ``line`` counts from 1, ``expected`` says what should be
    there."""

    def __init__(self, line: int, expected: str) -> None:
        super().__init__(f"line {line}: {expected}")
        self.line = line
        self.expected = expected


class TraceJob(NamedTuple):
    """One line of a trace."""

    arrival_seconds: float
    choice: JobChoice


@dataclass(frozen=True, slots=True)
class TraceWorkload:
    """Implements ``optimus.simulator.jobs.WorkloadMaker``: the first jobs of the trace in order of
    arrival, all at most."""

    name: str
    traced: Sequence[TraceJob]
    config: WorkloadConfig = field(default_factory=WorkloadConfig)

    def __call__(self, jobs: int, rng: Generator) -> Workload:
        """So many jobs of the trace; the generator draws only what a trace does not tell."""
        first = sorted(self.traced, key=_by_arrival)[:jobs]
        seeds = [int(rng.integers(2**32)) for _ in first]
        built = [
            build_job(number, each.arrival_seconds, each.choice, seed, self.config)
            for number, (each, seed) in enumerate(zip(first, seeds, strict=True))
        ]
        return Workload(self.name, tuple(built), nodes(self.config.machines))


def _by_arrival(traced: TraceJob) -> tuple[float, str, str, float, float]:
    kind, mode, threshold, examples = traced.choice
    return traced.arrival_seconds, kind.name, mode, threshold, examples or 0.0


def read_trace(lines: Iterable[str]) -> tuple[TraceJob, ...]:
    """The jobs of a trace; raises ``BadTraceError``."""
    rows = _rows(lines)
    first = next(rows, None)
    if first is None:
        raise BadTraceError(1, f"expected a line with the columns {','.join(COLUMNS)}")
    header = [name.strip().lower() for name in first[1]]
    _check_header(first[0], header)
    traced = tuple(
        _job(line, dict(zip(header, _whole(line, row, header), strict=True))) for line, row in rows
    )
    if not traced:
        raise BadTraceError(first[0] + 1, "expected at least one job after the columns' names")
    return traced


def _rows(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines, start=1):
        text = line.strip().lstrip("\ufeff")
        if text and not text.startswith("#"):
            try:
                yield number, next(csv.reader([text], strict=True))
            except csv.Error as error:
                raise BadTraceError(number, f"expected comma-separated values ({error})") from error


def _check_header(line: int, header: list[str]) -> None:
    lacking = [name for name in NEEDED if name not in header]
    unknown = [name for name in header if name not in COLUMNS]
    if lacking or unknown or len(set(header)) < len(header):
        wrong = (
            f"{', '.join(lacking)} missing"
            if lacking
            else f"not {', '.join(map(repr, unknown or header))}"
        )
        raise BadTraceError(
            line,
            f"expected each of the columns {','.join(COLUMNS)} once, examples optional: {wrong}",
        )


def _whole(line: int, row: list[str], header: list[str]) -> list[str]:
    if len(row) != len(header):
        raise BadTraceError(line, f"expected {len(header)} values, found {len(row)}")
    return [value.strip() for value in row]


def _job(line: int, row: Mapping[str, str]) -> TraceJob:
    kind = _TYPES.get(row["type"].lower())
    if kind is None:
        names = ", ".join(each.name for each in JOB_TYPES)
        raise BadTraceError(line, f"expected a type among {names}, found {row['type']!r}")
    mode = _MODES.get(row["mode"].lower())
    if mode is None:
        raise BadTraceError(line, f"expected the mode sync or async, found {row['mode']!r}")
    arrival = _number(line, row, "arrival_seconds")
    if not 0 <= arrival <= _LONGEST_SECONDS:
        raise BadTraceError(
            line, f"expected an arrival_seconds from 0 to {_LONGEST_SECONDS:g}, found {arrival:g}"
        )
    threshold = _number(line, row, "threshold")
    if not 0 < threshold < 1:
        raise BadTraceError(line, f"expected a threshold between 0 and 1, found {threshold:g}")
    return TraceJob(arrival, JobChoice(kind, mode, threshold, _examples(line, row)))


def _examples(line: int, row: Mapping[str, str]) -> float | None:
    if not row.get("examples"):
        return None
    examples = _number(line, row, "examples")
    if not 0 < examples <= _MOST_EXAMPLES:
        raise BadTraceError(
            line,
            f"expected more than 0 and at most {_MOST_EXAMPLES:g} examples, found {examples:g}",
        )
    return examples


def _number(line: int, row: Mapping[str, str], column: str) -> float:
    try:
        value = float(row[column])
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise BadTraceError(line, f"expected a number as {column}, found {row[column]!r}")
    return value
