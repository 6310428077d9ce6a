"""The commands of the guides, as their pages have them."""

import re
from pathlib import Path


def block(page: Path, heading: str) -> str:
    """The first block of shell commands below a heading."""
    text = page.read_text()
    start = re.search(rf"^#+ {re.escape(heading)}$", text, re.MULTILINE)
    assert start is not None, heading
    found = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL).search(text, start.end())
    assert found is not None, heading
    return found[1]
