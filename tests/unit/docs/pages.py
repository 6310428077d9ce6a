"""The project's pages as tests read them: text, tables, code and links."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.unit.docs.sources import files

ROOT: Final = Path(__file__).parents[3]
_SKIPPED: Final = ("tests", "node_modules")
_FENCE: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_LINK: Final = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")
_HEADING: Final = re.compile(r"^#{1,6}\s+(.*?)\s*$", re.MULTILINE)
_ESCAPED_PIPE: Final = "\0"


@dataclass(frozen=True, slots=True)
class Page:
    """One Markdown file."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        """Its path from the root of the checkout."""
        return str(self.path.relative_to(ROOT))

    @property
    def prose(self) -> str:
        """The text without fenced code."""
        return _FENCE.sub("", self.text)

    @property
    def code(self) -> list[str]:
        """Every piece of code: fenced blocks line by line, and spans."""
        lines = [line for block in _FENCE.findall(self.text) for line in block.splitlines()[1:-1]]
        return lines + _CODE.findall(self.prose)

    @property
    def links(self) -> list[str]:
        """The targets of links and pictures, also of those written as HTML."""
        return [markdown or html for markdown, html in _LINK.findall(_CODE.sub("", self.prose))]

    @property
    def anchors(self) -> set[str]:
        """What can follow ``#`` in a link to the page."""
        found: set[str] = set()
        for title in _HEADING.findall(self.prose):
            slug = _slug(title)
            number = next(
                n for n in range(len(found) + 1) if (slug if n == 0 else f"{slug}-{n}") not in found
            )
            found.add(slug if number == 0 else f"{slug}-{number}")
        return found

    def rows(self, heading: str) -> Iterator[list[str]]:
        """The cells of the tables between a heading and the next one, without the tables' own
        heads."""
        start = re.search(rf"^#+ {re.escape(heading)}$", self.text, re.MULTILINE)
        assert start is not None, f"{self.name} has no heading {heading!r}"
        section = re.split(r"^#", self.text[start.end() :], maxsplit=1, flags=re.MULTILINE)[0]
        lines = [line.strip() for line in section.splitlines() if line.strip().startswith("|")]
        for line, following in zip(lines, [*lines[1:], ""], strict=True):
            if not _is_rule(line) and not _is_rule(following):
                cells = line.replace(r"\|", _ESCAPED_PIPE).strip("|").split("|")
                yield [cell.strip().replace(_ESCAPED_PIPE, "|") for cell in cells]


def spans(text: str) -> list[str]:
    """The code spans of a piece of a page."""
    return _CODE.findall(text)


def page(name: str) -> Page:
    """The page at a path from the root of the checkout."""
    return Page(ROOT / name, (ROOT / name).read_text(encoding="utf-8"))


def all_pages() -> list[Page]:
    """Every Markdown file of the checkout."""
    paths = (path for path in files() if path.suffix == ".md")
    return [
        page(str(path.relative_to(ROOT)))
        for path in paths
        if not set(path.relative_to(ROOT).parts) & {*_SKIPPED}
    ]


def _slug(title: str) -> str:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "").lower()
    kept = [each for each in plain if each in " -_" or unicodedata.category(each)[0] in "LN"]
    return "".join(kept).replace(" ", "-")


def _is_rule(line: str) -> bool:
    return bool(line) and not line.strip("|-: ")
