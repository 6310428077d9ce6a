"""The demo on the screen: the journal as lines, the table of jobs below them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from examples.demo.journal import Entry, Row

_PLAIN_SECONDS: Final = 15.0


class View:
    """Shows the table and the journal; on a terminal the table goes when this ends."""

    def __init__(self, console: Console) -> None:
        self._console = console
        live = Live(console=console, refresh_per_second=4, transient=True)
        self._live = live if console.is_terminal else None
        self._written = 0
        self._table_at = float("-inf")

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, rows: Sequence[Row], journal: Sequence[Entry]) -> None:
        """Show the present state."""
        for entry in journal[self._written :]:
            self._console.print(line(entry), soft_wrap=True)
        self._written = len(journal)
        if self._live is not None:
            self._live.update(table(rows, self._console.width))
        elif time.monotonic() - self._table_at >= _PLAIN_SECONDS:
            self._table_at = time.monotonic()
            self._console.print(table(rows, self._console.width))


@dataclass(frozen=True, slots=True)
class _Column:
    """One column; it is left out where the screen has fewer than ``from_width`` characters."""

    heading: str
    cell: Callable[[Row], str]
    justify: JustifyMethod = "right"
    width: int = 0
    from_width: int = 0


def table(rows: Sequence[Row], width: int) -> RenderableType:
    """Return the jobs, one row each; a job being rescaled shows its counts as now -> then."""
    grid = Table(box=SIMPLE_HEAD, expand=False, pad_edge=False)
    columns = [column for column in _COLUMNS if width >= column.from_width]
    for column in columns:
        grid.add_column(
            column.heading, justify=column.justify, min_width=column.width, no_wrap=True
        )
    for row in rows:
        grid.add_row(*(column.cell(row) for column in columns))
    return grid


def _towards(now: int, target: int | None) -> str:
    return str(now) if target is None or target == now else f"{now} -> {target}"


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _unit(value: int | None, unit: str) -> str:
    return "" if value is None else f"{value} {unit}"


def _phase(row: Row) -> str:
    return row.status.phase or row.outcome or ("untouched" if row.is_untouched else "")


def _done(row: Row) -> str:
    return _unit(100 if row.outcome == "Succeeded" else row.status.progress_percent, "%")


def _forecast(row: Row) -> str:
    return "" if row.outcome else _unit(row.status.remaining_seconds, "s")


# Each is as wide as it ever gets, so that nothing moves; those without `from_width` fit on 80
# characters.
_COLUMNS: Final = (
    _Column("job", lambda row: row.name, "left"),
    _Column("phase", _phase, "left", width=20),
    _Column("PSs", lambda row: _towards(row.counts.ps, row.status.target_ps), width=7),
    _Column("workers", lambda row: _towards(row.counts.workers, row.status.target_workers)),
    _Column("loss", lambda row: _number(row.status.loss, ".3f"), width=5),
    _Column("target", lambda row: row.status.goal.removeprefix("loss "), width=7, from_width=100),
    _Column(
        "done", lambda row: _unit(100 if row.outcome else row.status.progress_percent, "%"), width=5
    ),
    _Column("steps/s", lambda row: _number(row.status.steps_per_second, ".2f"), from_width=100),
    _Column(
        "forecast", lambda row: "" if row.outcome else _unit(row.status.remaining_seconds, "s")
    ),
    _Column("PSs + workers on", lambda row: row.placement, "left", from_width=136),
)


def line(entry: Entry) -> Text:
    """One entry of the journal."""
    minutes, seconds = divmod(round(entry.at), 60)
    return Text.assemble(
        (f"{minutes:3d}:{seconds:02d}  ", "dim"), (f"{entry.job:9}", "bold"), f" {entry.text}"
    )
