"""The glossary and the code use the same words."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.unit.docs.pages import ROOT, Page

_PRODUCT: Final = ("autoscaler", "extender", "optimus")
_CODE: Final = (*_PRODUCT, "localcluster/src/localcluster")
_PLAIN_ENGLISH: Final = frozenset((Path(__file__).parent / "plain_english.txt").read_text().split())
"""Parts of names that any reader understands without this project's glossary. A verb stands for its
forms, a noun for its plural."""

_GLOSSARY: Final = Page(ROOT / "docs" / "glossary.md", (ROOT / "docs" / "glossary.md").read_text())
_ENDINGS: Final = (
    *(("s", ""), ("es", ""), ("ies", "y"), ("d", ""), ("ed", ""), ("ied", "y"), ("ing", "")),
    *(("ing", "e"), ("r", ""), ("er", ""), ("or", ""), ("or", "e"), ("n", ""), ("ly", "")),
)


def _entries() -> Iterator[str]:
    for cell in re.findall(r"^\| ([^|]+) \|", _GLOSSARY.prose, re.MULTILINE):
        if cell.strip() not in ("word", "---"):
            yield from (word.strip(" `") for word in cell.split(","))


def _module_names() -> set[str]:
    files = (path for folder in _CODE for path in (ROOT / folder).rglob("*.py"))
    names = {path.parent.name if path.stem == "__init__" else path.stem for path in files}
    return {name for name in names if name[:2] != "__"}


def _class_and_method_names() -> Iterator[str]:
    """Of the product; without private ones."""
    for path in (path for folder in _PRODUCT for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and node.name[0] != "_":
                yield node.name
                methods = (each.name for each in node.body if isinstance(each, ast.FunctionDef))
                yield from (name for name in methods if name[0] != "_")


def _flags_and_metrics() -> set[str]:
    text = (ROOT / "docs" / "reference.md").read_text()
    return {*re.findall(r"`(--[a-z-]+)", text), *re.findall(r"`(optimus_[a-z_]+)", text)}


def _words_of(name: str) -> list[str]:
    """``TightestFit``: tightest, fit."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return [word for word in re.split(r"[^a-z0-9]+", apart.lower()) if not word.isdigit() and word]


def _forms(word: str) -> set[str]:
    """The word, and those of which it may be a form."""
    ends = {word.removesuffix(end) + instead for end, instead in _ENDINGS if word.endswith(end)}
    doubled = {stem[:-1] for stem in ends if len(stem) > 2 and stem[-1] == stem[-2]}
    return {word, *ends, *doubled}


_WORDS: Final = sorted(set(_entries()))
_PARTS: Final = {part for word in _WORDS for part in re.split(r"[ _-]", word.lower())}
_SOURCE: Final = "\n".join(
    path.read_text().lower() for folder in _CODE for path in sorted((ROOT / folder).rglob("*.py"))
)
_NAMES: Final = sorted({*_module_names(), *_class_and_method_names(), *_flags_and_metrics()})


def _is_used(word: str) -> bool:
    parts = [re.escape(part) for part in re.split(r"[ _-]", word.lower())]
    pattern = re.compile(r"[ _\n-]*".join(parts))
    return any(not _SOURCE[each.start() - 1].isalpha() for each in pattern.finditer(_SOURCE))


def test_the_code_uses_each_word_of_the_glossary() -> None:
    assert [word for word in _WORDS if not _is_used(word)] == []


def test_each_word_of_a_name_is_plain_english_or_in_the_glossary() -> None:
    """Names of modules, classes, methods, flags and metrics."""
    known = _PARTS | _PLAIN_ENGLISH
    unknown = {
        word: name for name in _NAMES for word in _words_of(name) if known.isdisjoint(_forms(word))
    }
    assert unknown == {}, "add each to the glossary, or to plain_english.txt if anybody knows it"


def test_no_word_is_both_plain_english_and_in_the_glossary() -> None:
    assert set(map(str.lower, _WORDS)) & _PLAIN_ENGLISH == set()
