"""Each form of lines is seen in a recorded log and is in the user guide."""

import re
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import pytest

from optimus.progress.formats import parse_line
from optimus.progress.parsed_line import LogFormatOptions, clean
from tests.unit.docs.pages import ROOT, page, spans
from tests.unit.progress.reads import DATA

_LOGS: Final = sorted(DATA.rglob("*.log"))


FORMS: Final = {"mxnet", "tensorflow", "keras", "checkpoints", "objects", "settings", "text"}
_NOT_RECORDED: Final = {"tensorflow"}
"""TensorFlow 2.16 removed Estimator; its lines are those of the released sources, in
``test_formats.py``."""


def _forms(lines: Iterable[str]) -> set[str]:
    parsed = (parse_line(clean(line), LogFormatOptions()) for line in lines)
    return {line.form for line in parsed if line is not None}


def test_every_form_has_a_recorded_log() -> None:
    lines = (line for path in _LOGS for line in path.read_text().splitlines())
    assert _forms(lines) & FORMS == FORMS - _NOT_RECORDED


def test_every_form_has_a_line_in_the_user_guide() -> None:
    assert _forms(page("docs/user-guide.md").code) >= FORMS


@pytest.mark.parametrize("path", _LOGS, ids=lambda path: path.name)
def test_every_recorded_log_has_its_origin_and_licence(path: Path) -> None:
    readme = page(str(path.parent.relative_to(ROOT) / "README.md")).text
    assert "licence" in readme
    patterns = [re.sub(r"\{[^}]*\}|[A-Z]", "*", each) for each in spans(readme)]
    assert any(fnmatch(path.name, each) for each in patterns if each.endswith(".log"))
