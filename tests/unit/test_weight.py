"""The repository's weight, held by `[tool.weight]` in pyproject.toml: it may only fall.

A change that makes something lighter lowers its row in the same commit; none is ever raised.
"""

import re
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_LIMITS = tomllib.loads((_ROOT / "pyproject.toml").read_text())["tool"]["weight"]
_SLACK = 0.02
_PRODUCT = ("autoscaler", "extender", "optimus")
_NAMED_NUMBER = re.compile(r"^ *_?[A-Z][A-Z_0-9]+(: Final(\[.*\])?)? = -?[0-9.]", re.MULTILINE)


def _texts(pattern: str, folders: Iterable[str] = (".",)) -> Iterator[str]:
    """Yield the text of each tracked or new file of these folders whose name matches."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *folders]
    names = subprocess.run(listed, cwd=_ROOT, capture_output=True, text=True, check=True).stdout
    for path in (_ROOT / name for name in names.split("\0") if name):
        if path.match(pattern) and path.is_file():
            yield path.read_text()


def _lines(*folders: str) -> int:
    return sum(text.count("\n") for text in _texts("*.py", folders))


@pytest.mark.parametrize("folders", _LIMITS["lines"])
def test_a_package_has_no_more_lines_than_its_row_says(folders: str) -> None:
    weighed = _lines(*folders.split())
    limit = _LIMITS["lines"][folders]
    assert weighed <= limit, f"{folders} has {weighed} lines; at most {limit} are allowed"
    assert weighed >= limit * (1 - _SLACK) - 20, f"lower the row of {folders} to {weighed}"


@pytest.mark.parametrize("row", ["design-notes", "named-numbers", "words"])
def test_what_is_counted_is_no_more_than_its_row_says(row: str) -> None:
    weighed = _counted(row)
    assert weighed <= _LIMITS[row]
    assert weighed >= _LIMITS[row] * (1 - _SLACK) - 2, f"lower the row {row} to {weighed}"


def _counted(row: str) -> int:
    if row == "named-numbers":
        return sum(len(_NAMED_NUMBER.findall(text)) for text in _texts("*.py", _PRODUCT))
    if row == "design-notes":
        return len([*_texts("*.md", ["docs/design"])])
    return sum(len(text.split()) for text in _texts("*.md"))


def test_each_package_of_the_product_has_a_row() -> None:
    packages = {str(each.relative_to(_ROOT)) for each in (_ROOT / "optimus").glob("*/__init__.py")}
    packages = {name.removesuffix("/__init__.py") for name in packages} | {"autoscaler", "extender"}
    assert packages <= {name for folders in _LIMITS["lines"] for name in folders.split()}
