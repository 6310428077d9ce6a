"""Tables as the command line prints them: each column as wide as its widest cell."""

import io
from collections.abc import Iterable, Sequence
from typing import Final

_WIDE: Final = 100_000
"""Nothing is wrapped or cut: output may go into a file or a pipe."""


def table(align: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Headings and rows as aligned text; ``align`` has ``<`` or ``>`` for each column."""
    from rich.console import Console  # loaded only where a table is printed
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for heading, side in zip(headings, align, strict=True):
        grid.add_column(heading, justify="left" if side == "<" else "right", no_wrap=True)
    for row in rows:
        grid.add_row(*map(str, row))
    text = io.StringIO()
    console = Console(file=text, width=_WIDE, color_system=None, markup=False, emoji=False)
    console.print(grid, crop=False)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def percent(part: float | None) -> str:
    """A part of 1 as a cell shows it."""
    return "-" if part is None else f"{part:.1%}"
