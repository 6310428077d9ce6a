"""The log lines that the user guide shows are read, each as what it says."""

import re
from typing import Final

import pytest

from optimus.progress.formats import parse_line
from optimus.progress.parsed_line import LogFormatOptions, clean
from tests.unit.docs.pages import page, spans

_GUIDE: Final = page("docs/user-guide.md")
_LINES: Final = [
    line
    for row in _GUIDE.rows("What your script should print")
    for line in spans(row[1])
    if re.search(r"\d.* | .*\d", line)
]


def test_the_table_has_a_line_of_each_framework() -> None:
    assert len(_LINES) >= 7


@pytest.mark.parametrize("line", _LINES)
def test_a_line_of_the_table_is_read(line: str) -> None:
    parsed = parse_line(clean(line), LogFormatOptions())
    assert parsed is not None
    assert (parsed.saved is not None) == ("ckpt" in line or "heckpoint" in line)


def test_the_line_that_is_advised_has_everything() -> None:
    (line,) = (each for each in _GUIDE.code if each.startswith("2026-01-01T"))
    parsed = parse_line(clean(line), LogFormatOptions())
    assert parsed is not None
    assert (parsed.loss, parsed.step, parsed.epoch) == (0.4123, 1200, 3)
    assert parsed.saved is not None
    assert parsed.saved.step == 1200
