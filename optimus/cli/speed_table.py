"""Tables of measured speeds: ``mode,ps,workers,speed[,batch]``, one row for each run.

The speed is the job's training steps per second: in sync training the workers' common rate, in
async training their sum. The speeds of single workers, joined by ``;`` (column ``speed`` or
``steps_per_s``), are averaged or summed. A speed of 0, of any worker, is a failed run and left out,
as the speed model does."""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from optimus.cli.command import BadInput
from optimus.jobs import Batch, BatchScope, Counts, TrainingMode
from optimus.models.speed.samples import SPEEDS

FEWEST_COUNTS: Final = 4
"""Three to fit a model to, and one to compare it with."""
_COLUMNS: Final = ("mode", "ps", "workers", "speed")
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


@dataclass(frozen=True, slots=True)
class SpeedTables:
    """A file's tables, one for each mode, and how many failed runs were left out."""

    tables: tuple[SpeedTable, ...]
    failed_runs: int


def read_speed_tables(file: Path) -> SpeedTables:
    """Read a file; raises ``BadInput`` where it is not such a table."""
    rows: dict[TrainingMode, dict[Counts, list[float]]] = {}
    batches: dict[TrainingMode, set[tuple[float, int]]] = {}
    failed = 0
    for line, cells in _cells(file):
        mode, counts, speed, batch = _parse(file, line, cells)
        repeats = rows.setdefault(mode, {})
        if speed == 0:
            failed += 1
            continue
        repeats.setdefault(counts, []).append(speed)
        if batch is not None:
            batches.setdefault(mode, set()).add((batch, counts.workers))
    if not rows:
        names = ",".join(_COLUMNS)
        raise BadInput(file, f"rows of measured speeds are expected after the header {names}")
    for mode, repeats in rows.items():
        if len(repeats) < FEWEST_COUNTS:
            pairs = f"{FEWEST_COUNTS} different pairs of ps and workers"
            raise BadInput(file, f"at least {pairs} are expected, {mode} has {len(repeats)}")
    tables = tuple(
        SpeedTable(
            mode,
            {counts: tuple(rows[mode][counts]) for counts in sorted(rows[mode])},
            _batch(mode, batches.get(mode, set())),
        )
        for mode in TrainingMode
        if mode in rows
    )
    return SpeedTables(tables, failed)


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


def _cells(file: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows with their line numbers, by column; blank lines left out."""
    with file.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.reader(lines, skipinitialspace=True)
        header: list[str] | None = None
        try:
            for row in reader:
                if not any(cell.strip() for cell in row):
                    continue
                if header is None:
                    header = _header(file, reader.line_num, row)
                elif len(row) != len(header):
                    values = f"{len(header)} values are expected, as in the header, not {len(row)}"
                    raise BadInput(file, values, reader.line_num)
                else:
                    yield reader.line_num, dict(zip(header, row, strict=True))
        except UnicodeDecodeError:
            line = reader.line_num + 1
            raise BadInput(file, "a text file (CSV in UTF-8) is expected", line) from None
        except csv.Error as problem:
            raise BadInput(file, f"a CSV file is expected: {problem}", reader.line_num) from None
    if header is None:
        columns = ",".join(_COLUMNS)
        raise BadInput(
            file, f"a CSV file with the columns {columns} is expected, this one is empty"
        )


def _header(file: Path, line: int, row: Sequence[str]) -> list[str]:
    names = [cell.strip().lower() for cell in row]
    if "speed" not in names:
        names = ["speed" if name == _SPEED_OF_WORKERS else name for name in names]
    missing = [name for name in _COLUMNS if name not in names]
    twice = [name for name in (*_COLUMNS, "batch") if names.count(name) > 1]
    if twice:
        times = f"{', '.join(twice)} is there {names.count(twice[0])} times"
        raise BadInput(file, f"each column once is expected, {times}", line)
    if missing:
        found = ",".join(" ".join(name.split()) for name in names)
        lacks = f"{', '.join(missing)} missing in: {found[:80]!a}"
        raise BadInput(file, f"the columns {','.join(_COLUMNS)} are expected, {lacks}", line)
    return names


def _parse(
    file: Path, line: int, cells: Mapping[str, str]
) -> tuple[TrainingMode, Counts, float, float | None]:
    try:
        mode = _mode(cells["mode"])
        counts = Counts(_integer("ps", cells["ps"]), _integer("workers", cells["workers"]))
        return mode, counts, _speed(mode, cells["speed"]), _examples(cells.get("batch", "").strip())
    except ValueError as problem:
        raise BadInput(file, str(problem), line) from None


def _mode(text: str) -> TrainingMode:
    mode = _MODES.get(text.strip().lower())
    if mode is None:
        raise ValueError(f"a mode of sync or async is expected, not {text.strip()[:40]!a}")
    return mode


def _integer(name: str, text: str) -> int:
    number = _number(name, text, least=1.0)
    if number != int(number) or number > _MOST:
        expected = f"{name} from 1 to {_MOST} is expected, a whole number"
        raise ValueError(f"{expected}, not {text.strip()[:40]!a}")
    return int(number)


def _speed(mode: TrainingMode, text: str) -> float:
    """The job's speed; 0 for a failed run."""
    parts = [_number("speed", part, least=0.0) for part in text.split(";")]
    if min(parts) == 0:
        return 0.0
    speed = math.fsum(parts) / (1 if mode is TrainingMode.ASYNC else len(parts))
    low, high = SPEEDS
    if not low <= speed <= high:
        expected = f"a speed from {low:g} to {high:g} steps per second is expected"
        raise ValueError(f"{expected}, not {text.strip()[:40]!a}")
    return speed


def _examples(text: str) -> float | None:
    """The batch; ``None`` where the cell is empty."""
    if not text:
        return None
    batch = _number("batch", text, least=1.0)
    if batch > _LARGEST_BATCH:
        most = f"a batch of at most {_LARGEST_BATCH:g} examples"
        raise ValueError(f"{most} is expected, not {text[:40]!a}")
    return batch


def _number(name: str, text: str, least: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < least:
        bound = f"of at least {least:g}" if least else "that is not negative (0: a failed run)"
        raise ValueError(f"{name} is expected to be a number {bound}, not {text.strip()[:40]!a}")
    return number
