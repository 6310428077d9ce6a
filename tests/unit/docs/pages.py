"""The project's pages as tests read them: text, tables, code and links."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.unit.docs.sources import files

ROOT: Final = Path(__file__).parents[3]
_FENCE: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_LINK: Final = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")
_HEADING: Final = re.compile(r"^#{1,6}\s+(.*?)\s*$", re.MULTILINE)
_RULE: Final = re.compile(r"[|\-: ]*")
_BETWEEN_CELLS: Final = re.compile(r"(?<!\\)\|")


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
        return lines + spans(self.prose)

    @property
    def links(self) -> list[str]:
        """The targets of links and pictures, also of those written as HTML."""
        return [markdown or html for markdown, html in _LINK.findall(_CODE.sub("", self.prose))]

    @property
    def anchors(self) -> set[str]:
        """What can follow ``#`` in a link to the page."""
        return {_slug(title) for title in _HEADING.findall(self.prose)}

    def rows(self, heading: str) -> Iterator[list[str]]:
        """The cells of the tables between a heading and the next one, without the tables' own
        heads."""
        _, found, rest = self.text.partition(f"# {heading}\n")
        assert found, f"{self.name} has no heading {heading!r}"
        lines = [line for line in rest.partition("\n#")[0].splitlines() if line[:1] == "|"]
        for line, following in zip(lines, [*lines[1:], "-"], strict=True):
            if not _RULE.fullmatch(line) and (following == "-" or not _RULE.fullmatch(following)):
                cells = _BETWEEN_CELLS.split(line.strip("|"))
                yield [cell.strip().replace(r"\|", "|") for cell in cells]


def spans(text: str) -> list[str]:
    """The code spans of a piece of a page."""
    return _CODE.findall(text)


@cache
def page(name: str) -> Page:
    """The page at a path from the root of the checkout."""
    return Page(ROOT / name, (ROOT / name).read_text(encoding="utf-8"))


def all_pages() -> list[Page]:
    """Every Markdown file of the checkout but those below ``tests``."""
    paths = (path.relative_to(ROOT) for path in files() if path.suffix == ".md")
    return [page(str(path)) for path in paths if not {"tests", "node_modules"} & {*path.parts}]


def _slug(title: str) -> str:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "").lower()
    kept = [each for each in plain if each in " -_" or unicodedata.category(each)[0] in "LN"]
    return "".join(kept).replace(" ", "-")
