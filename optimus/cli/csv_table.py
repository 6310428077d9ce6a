"""Reads CSV files with a header; what is wrong is reported with the file and the line."""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from optimus.cli.command import BadInput

Value = TypeVar("Value")
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class CsvRow:
    """One line of a table."""

    file: Path
    line: int
    cells: Mapping[str, str]
    """By the column's name, which is in lower case where it comes from a header."""

    def error(self, expected: str) -> BadInput:
        """The line is wrong: ``expected`` says what should be there."""
        return BadInput(self.file, expected, self.line)

    def number(self, column: str, low: float, high: float, text: str | None = None) -> float:
        """A number from ``low`` to ``high``, of the cell or of a part of it."""
        text = self.cells.get(column, "") if text is None else text
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            found = f"found {text.strip()[:_SHOWN]!a}"
            raise self.error(f"a number from {low:g} to {high:g} is expected as {column}, {found}")
        return value

    def choice(self, column: str, values: Mapping[str, Value]) -> Value:
        """The value that the cell names, in any case."""
        text = self.cells[column]
        if text.lower() not in values:
            among = ", ".join(values)
            raise self.error(f"a {column} among {among} is expected, found {text[:_SHOWN]!a}")
        return values[text.lower()]


def read_lines(file: Path) -> list[str]:
    """The lines of a text file."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as text:
            lines = list(text)
    except UnicodeDecodeError:
        lines = ["\0"]
    if any("\0" in line for line in lines):
        raise BadInput(file, "a text file (CSV in UTF-8) is expected")
    return lines


def split_rows(
    file: Path, lines: Iterable[str], *, strict: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """The cells of every line that is not empty, without spaces around them."""
    reader = csv.reader(lines, skipinitialspace=True, strict=strict)
    try:
        for cells in reader:
            row = [cell.strip() for cell in cells]
            if any(row):
                yield reader.line_num, row
    except csv.Error as problem:
        raise BadInput(file, f"a CSV file is expected: {problem}", reader.line_num) from None


def read_table(
    file: Path,
    rows: Iterator[tuple[int, list[str]]],
    needed: Sequence[str],
) -> Iterator[CsvRow]:
    """The rows below a header that has the needed columns, in any order; others are kept."""
    columns = ",".join(needed)
    line, header = next(rows, (0, []))
    if not header:
        raise BadInput(file, f"a CSV file with the columns {columns} is expected, this is empty")
    names = [name.lower() for name in header]
    missing = [name for name in needed if name not in names]
    if missing:
        lacks = f"{', '.join(missing)} missing in: {','.join(names)[:80]!a}"
        raise BadInput(file, f"the columns {columns} are expected, {lacks}", line)
    repeated = [name for name in names if name and names.count(name) > 1]
    if repeated:
        raise BadInput(file, f"each column once is expected, {repeated[0]!a} is repeated", line)
    for number, cells in rows:
        if len(cells) != len(names):
            expected = f"{len(names)} values are expected, as in the header, not {len(cells)}"
            raise BadInput(file, expected, number)
        yield CsvRow(file, number, dict(zip(names, cells, strict=True)))
