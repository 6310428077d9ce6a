"""The glossary and the code use the same words."""

import re
from pathlib import Path
from typing import Final

from tests.unit.docs.pages import ROOT, page

_CODE: Final = ("autoscaler", "extender", "optimus", "localcluster/src/localcluster")
_PLAIN_ENGLISH: Final = frozenset((Path(__file__).parent / "plain_english.txt").read_text().split())
"""Parts of names that any reader understands without this project's glossary."""

_WORDS: Final = sorted(
    {
        word.strip(" `")
        for words in re.findall(r"^- \*\*(.+?)\*\*:", page("docs/glossary.md").text, re.MULTILINE)
        for word in words.split(",")
    }
)
_SOURCE: Final = "\n".join(
    path.read_text().lower() for folder in _CODE for path in sorted((ROOT / folder).rglob("*.py"))
)


def _is_used(word: str) -> bool:
    parts = [re.escape(part) for part in re.split(r"[ _-]", word.lower())]
    return re.search(r"(?<![a-z])" + r"[ _\n-]*".join(parts), _SOURCE) is not None


def test_the_code_uses_each_word_of_the_glossary() -> None:
    assert [word for word in _WORDS if not _is_used(word)] == []


def test_each_word_of_a_flag_or_a_metric_is_plain_english_or_in_the_glossary() -> None:
    text = page("docs/reference.md").text
    names = {*re.findall(r"`--([a-z-]+)", text), *re.findall(r"`optimus_([a-z_]+)", text)}
    used = {word for name in names for word in re.split(r"[_-]", name) if word}
    known = {part for word in _WORDS for part in re.split(r"[ _-]", word.lower())}
    assert {
        each for each in used - _PLAIN_ENGLISH if not {each, each.removesuffix("s")} & known
    } == set()
