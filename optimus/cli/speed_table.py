"""Tables of measured speeds: ``mode,ps,workers,speed[,batch]``, one row for each run.

Of training without PSs: ``mode,workers,servers,speed[,batch]`` with the mode ``all-reduce``. The
speed model predicts for the fewest servers, so that other runs of as many workers are left out.

The speed is the job's training steps per second: in sync training the workers' common rate, in
async training their sum. The speeds of single workers, joined by ``;`` (column ``speed`` or
``steps_per_s``), are averaged or summed. A speed of 0, of any worker, is a failed run and left out,
as the speed model does."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from optimus.cli.command import BadInput
from optimus.cli.csv_table import CsvRow, read_lines, read_table, split_rows
from optimus.jobs import Batch, BatchScope, Counts, TrainingMode
from optimus.models.speed.curve import SPEEDS, Processes, SpeedForm, SpeedTerms

_FEWEST_COUNTS: Final = 4
"""Three to fit a model to, and one to compare it with."""
_MODES: Final = {prefix + mode.value: mode for mode in TrainingMode for prefix in ("", "dist_")}
_ALL_REDUCE: Final = "all-reduce"
_LARGEST: Final = 1e12


@dataclass(frozen=True, slots=True)
class SpeedTable:
    """The measured steps per second of one mode: all repeats, in the order of the counts."""

    mode: TrainingMode
    repeats: Mapping[Counts, tuple[float, ...]]
    batch: Batch | None
    servers: Mapping[Counts, int] = field(default_factory=dict)
    """The fewest servers on which so many workers ran, where there are no PSs."""
    left_out: int = 0
    """Runs that failed, or took more servers than others of as many workers."""

    @property
    def name(self) -> str:
        """The mode, as the file names it."""
        return _ALL_REDUCE if self.servers else self.mode.value

    def terms(self, form: SpeedForm) -> SpeedTerms:
        """The terms of the speed of these runs."""
        most = (math.ceil(each.workers / on) for each, on in self.servers.items())
        processes = Processes(per_server=max(most)) if self.servers else None
        return SpeedTerms(self.mode, self.batch, form, processes=processes)


class _Run(NamedTuple):
    counts: Counts
    servers: int
    """0 where there are PSs."""
    speed: float
    """0 of a failed run."""
    batch: float | None


def read_speed_tables(file: Path) -> tuple[SpeedTable, ...]:
    """One table for each mode; raises ``BadInput`` where the file is not such a table."""
    rows = list(split_rows(file, read_lines(file)))
    names = [name.lower() for _, cells in rows[:1] for name in cells]
    header = ["speed" if name == "steps_per_s" else name for name in names]
    place, modes = "ps", _MODES
    if "servers" in header and "ps" not in header:
        place, modes = "servers", {_ALL_REDUCE: TrainingMode.SYNC}
    needed = ("mode", place, "workers", "speed")
    runs: dict[TrainingMode, list[_Run]] = {}
    for row in read_table(file, iter([(1, header), *rows[1:]]), needed):
        mode = row.choice("mode", modes)
        runs.setdefault(mode, []).append(_run(row, mode, place))
    if not runs:
        columns = ",".join(needed)
        raise BadInput(file, f"rows of measured speeds are expected after the header {columns}")
    return tuple(_table(file, mode, runs[mode]) for mode in TrainingMode if mode in runs)


def _run(row: CsvRow, mode: TrainingMode, place: str) -> _Run:
    workers = row.number("workers", 1, _LARGEST)
    on = row.number(place, 1, workers if place == "servers" else _LARGEST)
    if workers % 1 or on % 1:
        raise row.error(f"whole numbers are expected as {place} and workers")
    parts = [row.number("speed", 0, SPEEDS[1], each) for each in row.cells["speed"].split(";")]
    speed = math.fsum(parts) / (1 if mode is TrainingMode.ASYNC else len(parts))
    batch = row.number("batch", 1, _LARGEST) if row.cells.get("batch") else None
    ps, servers = (int(on), 0) if place == "ps" else (0, int(on))
    return _Run(Counts(ps, int(workers)), servers, speed if min(parts) >= SPEEDS[0] else 0.0, batch)


def _table(file: Path, mode: TrainingMode, runs: Sequence[_Run]) -> SpeedTable:
    good = sorted((run for run in runs if run.speed), key=lambda run: run.counts)
    fewest = {run.counts: run.servers for run in sorted(good, key=lambda run: -run.servers)}
    kept = [run for run in good if run.servers == fewest[run.counts]]
    repeats: dict[Counts, tuple[float, ...]] = {}
    for run in kept:
        repeats[run.counts] = (*repeats.get(run.counts, ()), run.speed)
    if len(repeats) < _FEWEST_COUNTS:
        pairs = f"at least {_FEWEST_COUNTS} different counts are expected"
        raise BadInput(file, f"{pairs}, {mode} has {len(repeats)}")
    servers = fewest if any(fewest.values()) else {}
    return SpeedTable(mode, repeats, _batch(mode, kept), servers, len(runs) - len(kept))


def _batch(mode: TrainingMode, runs: Sequence[_Run]) -> Batch | None:
    """The batch of these runs: per worker where it grows with the workers."""
    sizes = {run.batch for run in runs if run.batch}
    if not sizes:
        return None
    if mode is TrainingMode.ASYNC:
        return Batch(round(min(sizes)), BatchScope.WORKER)
    each = {round(run.batch / run.counts.workers) for run in runs if run.batch}
    if len(sizes) > 1 and len(each) == 1:
        return Batch(max(each.pop(), 1), BatchScope.WORKER)
    return Batch(round(max(sizes)), BatchScope.JOB)
