"""The files of the checkout, and what the Python files among them import."""

import ast
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[3]


@cache
def files() -> tuple[Path, ...]:
    """Every file outside hidden folders, such as an environment's, in the order of paths."""
    return tuple(sorted(_walked()))


def _walked() -> Iterator[Path]:
    for folder, folders, names in os.walk(_ROOT):
        folders[:] = [name for name in folders if name[0] != "." and name != "__pycache__"]
        yield from (Path(folder, name) for name in names)


@cache
def imported(path: Path) -> frozenset[str]:
    """The top-level packages that a Python file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return frozenset(found)
