"""The commands of the guides, and what they print, as their pages have them."""

import re
from pathlib import Path


def block(page: Path, heading: str) -> str:
    """Return the first block of shell commands below a heading."""
    found = re.search(r"^```sh\n(.*?)^```$", _below(page, heading), re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return found[1]


def blocks(page: Path) -> list[str]:
    """Return all blocks of code and output of a page."""
    return re.findall(r"^```\w*\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def outputs(page: Path, heading: str) -> list[str]:
    """Return the blocks of output below a heading and before the next one."""
    section = re.split(r"^#+ ", _below(page, heading), maxsplit=1, flags=re.MULTILINE)[0]
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return [text for language, text in blocks if not language]


def _below(page: Path, heading: str) -> str:
    text = page.read_text()
    start = re.search(rf"^#+ {re.escape(heading)}$", text, re.MULTILINE)
    assert start is not None, heading
    return text[start.end() :]
