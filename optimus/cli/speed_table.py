"""Tables of measured speeds: ``mode,ps,workers,speed[,batch]``, one row for each run.

Of training without PSs: ``mode,workers,servers,speed[,batch]`` with the mode ``all-reduce``. The
speed model predicts for the fewest servers, so that other runs of as many workers are left out.

The speed is the job's training steps per second: in sync training the workers' common rate, in
async training their sum. The speeds of single workers, joined by ``;`` (column ``speed`` or
``steps_per_s``), are averaged or summed. A speed of 0, of any worker, is a failed run and left out,
as the speed model does."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Final

from optimus.cli.command import BadInput
from optimus.cli.csv_table import CsvRow, read_lines, read_table, split_rows
from optimus.jobs import Batch, BatchScope, Counts, TrainingMode
from optimus.models.speed.curve import SPEEDS, Processes, SpeedForm, SpeedTerms

FEWEST_COUNTS: Final = 4
"""Three to fit a model to, and one to compare it with."""
_COLUMNS: Final = ("mode", "ps", "workers", "speed")
_ALL_REDUCE: Final = "all-reduce"
_WITHOUT_PS: Final = ("mode", "workers", "servers", "speed")
_SPEED_OF_WORKERS: Final = "steps_per_s"
_MODES: Final = {prefix + mode.value: mode for mode in TrainingMode for prefix in ("", "dist_")}
_MOST: Final = 1_000_000
_LARGEST_BATCH: Final = 1e12


@dataclass(frozen=True, slots=True)
class SpeedTable:
    """The measured steps per second of one mode: all repeats, in the order of the counts."""

    mode: TrainingMode
    repeats: Mapping[Counts, tuple[float, ...]]
    batch: Batch | None
    servers: Mapping[Counts, int] = field(default_factory=dict)
    """The fewest servers on which so many workers ran, where there are no PSs."""

    @property
    def name(self) -> str:
        """The mode, as the file names it."""
        return _ALL_REDUCE if self.servers else self.mode.value

    def terms(self, form: SpeedForm) -> SpeedTerms:
        """The terms of the speed of these runs."""
        most = (math.ceil(each.workers / on) for each, on in self.servers.items())
        processes = Processes(per_server=max(most)) if self.servers else None
        return SpeedTerms(self.mode, self.batch, form, processes=processes)


@dataclass(frozen=True, slots=True)
class SpeedTables:
    """A file's tables, one for each mode, and how many failed runs were left out."""

    tables: tuple[SpeedTable, ...]
    failed_runs: int
    on_more_servers: int = 0
    """Runs of as many workers as others that took fewer servers."""


def read_speed_tables(file: Path) -> SpeedTables:
    """Read a file; raises ``BadInput`` where it is not such a table."""
    runs: dict[TrainingMode, list[tuple[Counts, float, float | None]]] = {}
    failed = 0
    rows = list(split_rows(file, read_lines(file)))
    header = {name.lower() for name in rows[0][1]} if rows else set()
    if "servers" in header and "ps" not in header:
        return _all_reduce(file, rows)
    for row in read_table(file, iter(rows), _COLUMNS, {_SPEED_OF_WORKERS: "speed"}):
        mode, counts = row.choice("mode", _MODES), Counts(_count(row, "ps"), _count(row, "workers"))
        speed, batch = _speed(row, mode), None
        if row.cells.get("batch"):
            batch = row.number("batch", 1, _LARGEST_BATCH)
        of_mode = runs.setdefault(mode, [])
        failed += speed == 0
        if speed:
            of_mode.append((counts, speed, batch))
    if not runs:
        names = ",".join(_COLUMNS)
        raise BadInput(file, f"rows of measured speeds are expected after the header {names}")
    modes = (mode for mode in TrainingMode if mode in runs)
    return SpeedTables(tuple(_table(file, mode, runs[mode]) for mode in modes), failed)


def _all_reduce(file: Path, rows: Sequence[tuple[int, list[str]]]) -> SpeedTables:
    """The table of a file whose jobs have no PSs."""
    every = list[tuple[int, Counts, float, float | None]]()
    fewest: dict[Counts, int] = {}
    for row in read_table(file, iter(rows), _WITHOUT_PS, {_SPEED_OF_WORKERS: "speed"}):
        row.choice("mode", {_ALL_REDUCE: TrainingMode.SYNC})
        counts, servers = Counts(0, _count(row, "workers")), _count(row, "servers")
        if servers > counts.workers:
            raise row.error(f"at most as many servers as workers are expected, found {servers}")
        batch = row.number("batch", 1, _LARGEST_BATCH) if row.cells.get("batch") else None
        speed = _speed(row, TrainingMode.SYNC)
        every.append((servers, counts, speed, batch))
        if speed:
            fewest[counts] = min(servers, fewest.get(counts, servers))
    good = [each for each in every if each[2]]
    runs = [each[1:] for each in good if each[0] == fewest[each[1]]]
    if not runs:
        names = ",".join(_WITHOUT_PS)
        raise BadInput(file, f"rows of measured speeds are expected after the header {names}")
    table = replace(_table(file, TrainingMode.SYNC, runs), servers=fewest)
    return SpeedTables((table,), len(every) - len(good), len(good) - len(runs))


def _table(
    file: Path, mode: TrainingMode, runs: Sequence[tuple[Counts, float, float | None]]
) -> SpeedTable:
    repeats: dict[Counts, tuple[float, ...]] = {}
    for counts, speed, _ in sorted(runs, key=itemgetter(0)):
        repeats[counts] = (*repeats.get(counts, ()), speed)
    if len(repeats) < FEWEST_COUNTS:
        pairs = f"{FEWEST_COUNTS} different pairs of ps and workers"
        raise BadInput(file, f"at least {pairs} are expected, {mode} has {len(repeats)}")
    batches = {(batch, counts.workers) for counts, _, batch in runs if batch is not None}
    return SpeedTable(mode, repeats, _batch(mode, batches))


def _batch(mode: TrainingMode, batches: set[tuple[float, int]]) -> Batch | None:
    """The batch from (size, workers) of each run: per worker where sizes grow with the workers."""
    if not batches:
        return None
    sizes = {size for size, _ in batches}
    each = {round(size / workers) for size, workers in batches}
    if mode is TrainingMode.ASYNC:
        return Batch(round(min(sizes)), BatchScope.WORKER)
    if len(sizes) > 1 and len(each) == 1:
        return Batch(max(each.pop(), 1), BatchScope.WORKER)
    return Batch(max(round(max(sizes)), 1), BatchScope.JOB)


def _count(row: CsvRow, column: str) -> int:
    number = row.number(column, 1, _MOST)
    if number != int(number):
        raise row.error(f"a whole number is expected as {column}, found {number:g}")
    return int(number)


def _speed(row: CsvRow, mode: TrainingMode) -> float:
    """The job's speed; 0 for a failed run."""
    low, high = SPEEDS
    parts = [row.number("speed", 0, high, part) for part in row.cells["speed"].split(";")]
    if min(parts) == 0:
        return 0.0
    speed = math.fsum(parts) / (1 if mode is TrainingMode.ASYNC else len(parts))
    if not low <= speed <= high:
        expected = f"a speed from {low:g} to {high:g} steps per second is expected"
        raise row.error(f"{expected}, not {speed:g}")
    return speed
