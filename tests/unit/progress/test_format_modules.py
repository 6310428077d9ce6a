"""Each module of the log formats is tried, is seen in a recorded log and is in the user guide."""

import pkgutil
import re
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import pytest

from optimus.progress import formats
from optimus.progress.parsed_line import LogFormatOptions, clean
from tests.unit.docs.pages import ROOT, page, spans
from tests.unit.progress.reads import DATA

_MODULES: Final = sorted(each.name for each in pkgutil.iter_modules(formats.__path__))
_NOT_RECORDED: Final = {"tensorflow"}
"""TensorFlow 2.16 removed Estimator; its lines are those of the released sources, in
``test_formats.py``."""

_LOGS: Final = sorted(DATA.rglob("*.log"))


def _modules_that_parse(lines: Iterable[str]) -> set[str]:
    """The modules that parse any of these lines, each line by the first that can."""
    found = set()
    for line in map(clean, lines):
        for markers, parse in formats._FORMATS:
            if any(marker in line for marker in markers) and parse(line, LogFormatOptions()):
                found.add(parse.__module__.rpartition(".")[2])
                break
    return found


def test_every_module_is_in_the_order_of_formats() -> None:
    tried = [parse.__module__.rpartition(".")[2] for _, parse in formats._FORMATS]
    assert sorted(tried) == _MODULES


def test_every_format_has_a_recorded_log() -> None:
    lines = (line for path in _LOGS for line in path.read_text().splitlines())
    assert _modules_that_parse(lines) == set(_MODULES) - _NOT_RECORDED


def test_every_format_has_a_line_in_the_user_guide() -> None:
    assert _modules_that_parse(page("docs/user-guide.md").code) == set(_MODULES)


@pytest.mark.parametrize("path", _LOGS, ids=lambda path: path.name)
def test_every_recorded_log_has_its_origin_and_licence(path: Path) -> None:
    readme = page(str(path.parent.relative_to(ROOT) / "README.md")).text
    assert "licence" in readme
    patterns = [re.sub(r"\{[^}]*\}|[A-Z]", "*", each) for each in spans(readme)]
    assert any(fnmatch(path.name, each) for each in patterns if each.endswith(".log"))
