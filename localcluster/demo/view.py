"""The demo on the screen: a live table on a terminal, plain lines elsewhere."""

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from localcluster.demo.watching import Entry, Row
from scheduling.jobs import Counts

_SHOWN_ENTRIES: Final = 10
_PLAIN_SECONDS: Final = 15.0


class View:
    """Shows the table and the newest entries of the journal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4) if console.is_terminal else None
        self._written = 0
        self._table_at = float("-inf")

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, rows: Sequence[Row], journal: Sequence[Entry]) -> None:
        """Show the present state."""
        if self._live is not None:
            self._live.update(Group(table(rows), *(line(entry) for entry in journal[-_SHOWN_ENTRIES:])))
            return
        for entry in journal[self._written :]:
            self._console.print(line(entry), soft_wrap=True)
        self._written = len(journal)
        if time.monotonic() - self._table_at >= _PLAIN_SECONDS:
            self._table_at = time.monotonic()
            self._console.print(table(rows))


def table(rows: Sequence[Row]) -> RenderableType:
    """The jobs, one row each; while a job is rescaled its counts are shown as now -> then."""
    grid = Table(box=SIMPLE_HEAD, expand=False, pad_edge=False)
    for heading in ("job", "phase"):
        grid.add_column(heading, no_wrap=True)
    for heading in ("PSs", "workers", "loss", "target", "done", "steps/s", "forecast"):
        grid.add_column(heading, justify="right", no_wrap=True)
    grid.add_column("PSs + workers on", overflow="fold")
    for row in rows:
        grid.add_row(*_cells(row))
    return grid


def _cells(row: Row) -> list[str]:
    status = row.status
    towards: Counts | None = None
    if status.target_ps is not None and status.target_workers is not None:
        towards = Counts(status.target_ps, status.target_workers)
    return [
        row.name,
        status.phase or "",
        _towards(row.counts.ps, towards and towards.ps),
        _towards(row.counts.workers, towards and towards.workers),
        _number(status.loss, ".3f"),
        status.goal.removeprefix("loss "),
        "" if status.progress_percent is None else f"{status.progress_percent} %",
        _number(status.steps_per_second, ".2f"),
        "" if status.remaining_seconds is None else f"{status.remaining_seconds} s",
        row.placement,
    ]


def _towards(now: int, target: int | None) -> str:
    return str(now) if target is None or target == now else f"{now} -> {target}"


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def line(entry: Entry) -> Text:
    """One entry of the journal."""
    minutes, seconds = divmod(round(entry.at), 60)
    return Text.assemble((f"{minutes:3d}:{seconds:02d}  ", "dim"), (f"{entry.job:9}", "bold"), f" {entry.text}")
