"""Tables as the command line prints them: each column as wide as its widest cell."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Final

_GAP: Final = "  "


def table(align: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Headings and rows as aligned text; ``align`` has ``<`` or ``>`` for each column. Nothing is
    wrapped or cut: output may go into a file or a pipe."""
    lines = [headings, *(line for row in rows for line in _lines(row))]
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    return "\n".join(_GAP.join(map(_padded, line, widths, align)).rstrip() for line in lines)


def columns_table(columns: Iterable[tuple[str, str, Sequence[str]]]) -> str:
    """The table of columns, each its side, its heading and its cells; one with nothing but ``-`` is
    left out."""
    shown = [column for column in columns if set(column[2]) != {"-"}]
    sides, headings, cells = zip(*shown, strict=True)
    return table("".join(sides), headings, zip(*cells, strict=True))


def _lines(row: Sequence[object]) -> Iterable[tuple[str, ...]]:
    """The lines of a row: a cell may have several."""
    return zip_longest(*(str(cell).split("\n") for cell in row), fillvalue="")


def _padded(cell: str, width: int, side: str) -> str:
    space = " " * (width - _width(cell))
    return f"{cell}{space}" if side == "<" else f"{space}{cell}"


def _width(cell: str) -> int:
    """The width in columns of a terminal; letters of some scripts take two."""
    if cell.isascii():
        return len(cell)
    from rich.cells import cell_len  # loaded only where it is needed

    return cell_len(cell)


def percent(part: float | None) -> str:
    """A part of 1 as a cell shows it."""
    return "-" if part is None else f"{part:.1%}"
