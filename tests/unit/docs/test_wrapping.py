"""Markdown is wrapped at 100 columns, but for what cannot be: tables, code and links."""

from typing import Final

import pytest

from tests.unit.docs.pages import Page, all_pages

_COLUMNS: Final = 100
_UNWRAPPABLE: Final = ("|", "    ", "<", "![")


@pytest.mark.parametrize("each", all_pages(), ids=lambda each: each.name)
def test_prose_is_wrapped(each: Page) -> None:
    lines = [line for line in each.prose.splitlines() if not line.startswith(_UNWRAPPABLE)]
    assert [line for line in lines if len(line) > _COLUMNS] == []
