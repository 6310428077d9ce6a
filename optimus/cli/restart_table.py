"""What restarts were measured to take: a CSV file with a column ``seconds``, others are not read.

Lines that begin with # are skipped."""

from pathlib import Path
from typing import Final

from optimus.cli.command import BadInput
from optimus.cli.csv_table import read_lines, read_table, split_rows

_LONGEST_SECONDS: Final = 1e6


def read_restart_seconds(file: Path) -> tuple[float, ...]:
    """Every restart's seconds; raises ``BadInput``."""
    lines = ["\n" if line.lstrip().startswith("#") else line for line in read_lines(file)]
    rows = read_table(file, split_rows(file, lines, strict=True), ("seconds",))
    found = tuple(row.number("seconds", 0, _LONGEST_SECONDS) for row in rows)
    if not found:
        raise BadInput(file, "at least one restart is expected below the header")
    return found
