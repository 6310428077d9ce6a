"""The log lines that the user guide shows are read, each as what it says."""

import re
from typing import Final

import pytest

from optimus.progress.formats import parse_line
from optimus.progress.parsed_line import LogFormatOptions, ParsedLine, clean
from tests.unit.docs.pages import page, spans

_GUIDE: Final = page("docs/user-guide.md")
_HEADING: Final = "What your script should print"
_LINES: Final = [
    line
    for row in _GUIDE.rows(_HEADING)
    for line in spans(row[1])
    if re.search(r"\d.* | .*\d", line)
]


def _parse(line: str) -> ParsedLine:
    parsed = parse_line(clean(line), LogFormatOptions())
    assert parsed is not None, line
    return parsed


@pytest.mark.parametrize("line", _LINES)
def test_a_line_of_the_table_is_parse(line: str) -> None:
    parsed = _parse(line)
    assert (parsed.saved is not None) == ("ckpt" in line or "heckpoint" in line)


def test_the_table_has_a_line_of_each_framework() -> None:
    assert len(_LINES) >= 7


def test_the_line_that_is_advised_has_everything() -> None:
    (line,) = (each for each in _GUIDE.code if each.startswith("2026-01-01T"))
    parsed = _parse(line)
    assert (parsed.loss, parsed.step, parsed.epoch) == (0.4123, 1200, 3)
    assert parsed.saved is not None
    assert parsed.saved.step == 1200


@pytest.mark.parametrize("name", ["examples/light", "examples/mxnet", "examples/tensorflow"])
def test_the_lines_that_an_example_prints_are_parse(name: str) -> None:
    printed = [
        each
        for each in page(f"{name}/README.md").text.splitlines()
        if re.search(r"\b(epoch|step)=\d", each)
    ]
    assert printed
    for line in printed:
        assert _parse(line.strip()).step is not None
