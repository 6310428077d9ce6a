"""Training logs as files: any format that is read from pods, or a CSV ``epoch,loss``."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from optimus.cli.command import BadInput
from optimus.cli.csv_table import Row, split_rows
from optimus.jobs import Counts, Role, TrainingMode
from optimus.models.convergence import LossSeries
from optimus.progress.log import ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.state import epoch_index
from optimus.progress.types import LogLine, LossPoint, TrainingProgress

_ALL: Final = 10**9
_LARGEST: Final = math.nextafter(1e30, 0)
"""More counts as infinite, as in the logs of pods."""
_RATES: Final = ("learning_rate", "lr")
_FORMATS: Final = (
    "a log of MXNet, Keras or TensorFlow, lines of name=value, or a CSV epoch,loss is expected"
)


@dataclass(frozen=True, slots=True)
class TrainingLog:
    """The losses of a log in training order, by epoch or, where it has none, by step."""

    file: Path
    points: tuple[LossPoint, ...]

    @property
    def in_epochs(self) -> bool:
        """Whether the log has epochs."""
        return all(point.epoch is not None for point in self.points)

    def epoch_means(self) -> tuple[LossPoint, ...]:
        """One point per completed epoch, numbered from 1; without epochs, each point is one."""
        series, points = LossSeries.of(self.points), enumerate(self.points, 1)
        if not series.in_epochs:
            return tuple(replace(point, epoch=float(n), step=None) for n, point in points)
        rates = {(epoch_index(point) or 0) + 1.0: point.learning_rate for point in self.points}
        pairs = zip(series.k.tolist(), series.complete_loss.tolist(), strict=False)
        return tuple(
            LossPoint(loss, n + 1.0, learning_rate=rates[k]) for n, (k, loss) in enumerate(pairs)
        )


def read_training_log(file: Path, metric: str | None = None) -> TrainingLog:
    """Read a log; ``metric`` is the name of the loss, where it is not one of the usual."""
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    if not _is_csv(lines):
        return TrainingLog(file, tuple(_of_log(file, lines, metric)))
    return TrainingLog(file, tuple(_of_csv(file, lines, metric)))


def _is_csv(lines: Sequence[str]) -> bool:
    header = _names(next((line for line in lines if line.strip()), ""))
    return len(header) > 1 and ("epoch" in header or _is_row(header))


def _is_row(cells: Sequence[str]) -> bool:
    """Whether this is a row of a CSV that has no header: an epoch and a loss."""
    return len(cells) == 2 and all(re.fullmatch(r"[-+.\deE]+", cell) for cell in cells)


def _names(header: str) -> list[str]:
    return [name.strip().strip("\"'").lower() for name in header.lstrip("\ufeff").split(",")]


def _of_csv(file: Path, lines: Sequence[str], metric: str | None) -> Iterator[LossPoint]:
    name, previous, shift = (metric or "loss").lower(), -math.inf, 0.0
    rows = list(split_rows(file, lines))
    header = _names(",".join(rows[0][1]))
    if _is_row(header):
        rows, header = [rows[0], *rows], ["epoch", "loss"]
    if name not in header:
        expected = f"a column {name!r} beside 'epoch' is expected (--metric names another)"
        raise BadInput(file, expected, rows[0][0])
    if len(rows) == 1:
        raise BadInput(file, "rows of epoch and loss are expected below the header", rows[0][0])
    rate_column = next((each for each in _RATES if each in header), None)
    for line, cells in rows[1:]:
        row = Row(file, line, dict(zip(header, cells, strict=False)))
        epoch, loss = row.number("epoch", -_LARGEST, _LARGEST), row.number(name, 0, _LARGEST)
        if epoch < max(previous, 0):
            raise row.error(f"epochs from 0 on that do not fall are expected, found {epoch:g}")
        shift = 1.0 if previous == -math.inf and epoch == 0 else shift
        previous, rate = epoch, None
        if rate_column and row.cells.get(rate_column):
            rate = row.number(rate_column, 0, _LARGEST)
        yield LossPoint(loss, epoch + shift, learning_rate=rate)


def _of_log(file: Path, lines: Sequence[str], metric: str | None) -> Sequence[LossPoint]:
    progress = read_progress(lines, metric)
    if not progress.losses:
        named = f"named {metric!r} " if metric else ""
        found = progress.diagnostic or f"no training loss {named}was found in {len(lines)} lines"
        raise BadInput(file, f"{_FORMATS}; {found} (here: --metric NAME)")
    for index, point in enumerate(progress.losses, 1):
        if point.loss < 0:
            loss = f"loss {index} is {point.loss:g}"
            raise BadInput(file, f"losses of 0 or more are expected, {loss}")
    known = [point for point in progress.losses if point.epoch is not None]
    if len(known) > len(progress.losses) / 2:
        return known  # the others were printed before the length of an epoch was known
    return [replace(point, epoch=None) for point in progress.losses]


def read_progress(lines: Sequence[str], metric: str | None) -> TrainingProgress:
    """The progress as read from a pod's log, with all losses."""
    log = ProgressLog(LogFormatOptions(mode=TrainingMode.SYNC, loss_metric=metric), max_losses=_ALL)
    stamped = [LogLine(float(second), text) for second, text in enumerate(lines)]
    log.observe("log", Role.WORKER, 0, Counts(1, 1), stamped, "file")
    return log.progress(float(len(lines)))
