"""The glossary and the code use the same words."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.unit.docs.pages import ROOT, Page

_CODE: Final = ("autoscaler", "extender", "optimus", "localcluster/src/localcluster")
_PLAIN_ENGLISH: Final = frozenset((Path(__file__).parent / "plain_english.txt").read_text().split())
"""Parts of module names that any reader understands without this project's glossary."""

_GLOSSARY: Final = Page(ROOT / "docs" / "glossary.md", (ROOT / "docs" / "glossary.md").read_text())


def _entries() -> Iterator[str]:
    for cell in re.findall(r"^\| ([^|]+) \|", _GLOSSARY.prose, re.MULTILINE):
        if cell.strip() not in ("word", "---"):
            yield from (word.strip(" `") for word in cell.split(","))


def _module_parts() -> set[str]:
    files = (path for folder in _CODE for path in (ROOT / folder).rglob("*.py"))
    names = {path.parent.name if path.stem == "__init__" else path.stem for path in files}
    return {part for name in names if name[:2] != "__" for part in name.lower().split("_")}


_WORDS: Final = sorted(set(_entries()))
_PARTS: Final = {part for word in _WORDS for part in re.split(r"[ _-]", word.lower())}
_SOURCE: Final = "\n".join(
    path.read_text().lower() for folder in _CODE for path in sorted((ROOT / folder).rglob("*.py"))
)


def _is_used(word: str) -> bool:
    parts = [re.escape(part) for part in re.split(r"[ _-]", word.lower())]
    pattern = re.compile(r"[ _\n-]*".join(parts))
    return any(not _SOURCE[each.start() - 1].isalpha() for each in pattern.finditer(_SOURCE))


def test_the_code_uses_each_word_of_the_glossary() -> None:
    assert [word for word in _WORDS if not _is_used(word)] == []


def test_each_part_of_a_modules_name_is_plain_english_or_in_the_glossary() -> None:
    parts = {part for part in _module_parts() if not part.isdigit()}
    unknown = {
        each for each in parts if each.removesuffix("s") not in _PARTS and each not in _PARTS
    }
    assert unknown - _PLAIN_ENGLISH == set()


def test_no_word_is_both_plain_english_and_in_the_glossary() -> None:
    assert set(map(str.lower, _WORDS)) & _PLAIN_ENGLISH == set()


def test_each_plain_word_is_a_part_of_a_modules_name() -> None:
    assert _PLAIN_ENGLISH - _module_parts() == set()
