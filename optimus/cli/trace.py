"""Traces: a CSV file with one job a line, ``arrival_seconds,type,mode,threshold[,examples]``.

``arrival_seconds`` counts from the trace's beginning; ``type`` is one of the nine job types;
``mode`` is sync or async. ``threshold``: converged when the loss, divided by the first epoch's,
falls by less than this from epoch to epoch. ``examples`` of an epoch may be left out or empty: the
type's data set, scaled down where it is large. Lines that begin with # are skipped."""

from pathlib import Path
from types import MappingProxyType
from typing import Final

from optimus.cli.command import BadInput
from optimus.cli.csv_table import CsvRow, read_lines, read_table, split_rows
from optimus.jobs import TrainingMode
from optimus.simulator.ground_truth.job_types import JOB_TYPES
from optimus.simulator.workload import JobChoice, TraceJob

NEEDED: Final = ("arrival_seconds", "type", "mode", "threshold")
COLUMNS: Final = (*NEEDED, "examples")
_TYPES: Final = MappingProxyType({kind.name.lower(): kind for kind in JOB_TYPES})
_MODES: Final = MappingProxyType({mode.value: mode for mode in TrainingMode})
_LONGEST_SECONDS, _MOST_EXAMPLES = 1e9, 1e9
"""Thirty years, and more examples than any data set: a simulation beyond these would not end."""


def read_trace(file: Path) -> tuple[TraceJob, ...]:
    """The jobs of a trace; raises ``BadInput``."""
    lines = ["\n" if line.lstrip().startswith("#") else line for line in read_lines(file)]
    traced = tuple(map(_job, read_table(file, split_rows(file, lines, strict=True), NEEDED)))
    if not traced:
        raise BadInput(file, "at least one job is expected below the header")
    return traced


def _job(row: CsvRow) -> TraceJob:
    unknown = [name for name in row.cells if name not in COLUMNS]
    if unknown:
        raise row.error(f"the columns {','.join(COLUMNS)} are expected, not {unknown[0]!a}")
    arrival = row.number("arrival_seconds", 0, _LONGEST_SECONDS)
    kind, mode = row.choice("type", _TYPES), row.choice("mode", _MODES)
    threshold = row.number("threshold", 0, 1)
    examples = None
    if row.cells.get("examples"):
        examples = row.number("examples", 0, _MOST_EXAMPLES)
    if not 0 < threshold < 1 or examples == 0:
        raise row.error("a threshold between 0 and 1 and more than 0 examples are expected")
    return TraceJob(arrival, JobChoice(kind, mode, threshold, examples))
