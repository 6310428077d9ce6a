"""Files that other tools export, as the lines that a program would print: one reader for all.

A JSON document (``trainer_state.json``, a Keras history) becomes a line for each of its records.
CSV files are tables, which the reader of logs knows; here is only said what is wrong with one."""

import codecs
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from optimus.cli.command import BadInput
from optimus.cli.csv_table import CsvRow, split_rows

_LARGEST: Final = math.nextafter(1e30, 0)
"""More counts as infinite, as in the logs of pods."""
_RATES: Final = ("learning_rate", "lr")
_ENCODINGS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_PLACES: Final = ("epoch", "step", "global_step", "iteration")
_TENSORBOARD: Final = ("wall time", "step", "value")


def as_lines(content: bytes) -> list[str]:
    """The lines of a log or an export, whatever its encoding."""
    encoding = next((name for mark, name in _ENCODINGS if content.startswith(mark)), "utf-8")
    text = content.decode(encoding, errors="replace").lstrip("\ufeff")
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    if text.lstrip()[:1] in ("{", "[") and (records := list(_records(text))):
        return [json.dumps(record) for record in records]
    first = next((line for line in lines if line.strip()), "")
    return ["epoch,loss", *lines] if _is_row(_names(first)) else lines


def _records(text: str) -> Iterator[Mapping[str, object]]:
    """The records of one JSON document; none where it is no such document."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(document, list):
        yield from (each for each in document if isinstance(each, dict))
    elif isinstance(document, dict):
        yield from _of_document(document)


def _of_document(document: dict[str, object]) -> Iterator[Mapping[str, object]]:
    lists = {name: value for name, value in document.items() if isinstance(value, list)}
    yield {name: value for name, value in document.items() if name not in lists}
    columns = {
        name: value
        for name, value in lists.items()
        if all(isinstance(each, int | float) for each in value)
    }
    for name, value in lists.items():
        if name not in columns:
            yield from (each for each in value if isinstance(each, dict))
    length = max(map(len, columns.values()), default=0)
    own = next((name for name in columns if name.lower() in _PLACES), None)
    for index in range(length):
        row = {name: value[index] for name, value in columns.items() if len(value) == length}
        yield row if own else {"epoch": index + 1, **row}


def is_csv(lines: Sequence[str]) -> bool:
    """Return whether the first line names an epoch or a step and more, with commas between them."""
    header = header_of(lines)
    return len(header) > 1 and any(name in (*_PLACES, "_step") for name in header)


def header_of(lines: Sequence[str]) -> list[str]:
    """The names on the first line, in lower case."""
    return _names(next((line for line in lines if line.strip()), ""))


def _names(header: str) -> list[str]:
    return [name.strip().strip("\"'").lower() for name in header.split(",")]


def _is_row(cells: Sequence[str]) -> bool:
    """Return whether this is a row of a CSV that has no header: an epoch and a loss."""
    return len(cells) == 2 and all(re.fullmatch(r"[-+.\de]+", cell) for cell in cells)


def what_is_missing(lines: Sequence[str], metric: str | None) -> str:
    """A sentence on an export in which no training loss is found; empty for any other file."""
    header = header_of(lines)
    if tuple(header) == _TENSORBOARD and metric is None:
        return (
            "a TensorBoard export does not say what its values are: --metric Value reads them as "
            "the training loss"
        )
    if is_csv(lines):
        named = f"a column {(metric or 'loss').lower()!r} beside 'epoch' is expected"
        return f"{named} (--metric names another); it has {','.join(header)[:80]!a}"
    return ""


def check_rows(file: Path, lines: Sequence[str], name: str) -> None:
    """Raise ``BadInput`` for the first row of a CSV with an epoch and a loss that is none."""
    header = header_of(lines)
    if "epoch" not in header or name.lower() not in header:
        return
    rows = list(split_rows(file, lines))
    if len(rows) == 1:
        raise BadInput(file, "rows of epoch and loss are expected below the header", rows[0][0])
    previous = 0.0
    for line, cells in rows[1:]:
        if [cell.lower() for cell in cells] == header:
            previous = 0.0  # a run that was resumed has written its header again
            continue
        row = CsvRow(file, line, dict(zip(header, cells, strict=False)))
        epoch = row.number("epoch", -_LARGEST, _LARGEST)
        row.number(name.lower(), 0.0, _LARGEST)
        if epoch < previous:
            raise row.error(f"epochs from 0 on that do not fall are expected, found {epoch:g}")
        previous = epoch
        for rate in _RATES:
            if row.cells.get(rate):
                row.number(rate, 0, _LARGEST)
