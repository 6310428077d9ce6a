"""Parametrized tests as tables: the name of each case, then its values."""

from collections.abc import Mapping
from typing import Any

import pytest


def cases(names: str | tuple[str, ...], table: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Try a test on each case. With several names a case's values are a tuple of as many."""
    one = isinstance(names, str) and "," not in names
    rows = (
        pytest.param(values, id=name) if one else pytest.param(*values, id=name)
        for name, values in table.items()
    )
    return pytest.mark.parametrize(names, list(rows))
