"""Hooks of ``make docs``: the README as the first page, two folders of pages in the navigation, and
links that leave the documentation.

The site has the pages of ``docs/`` alone. A link to another file of the repository becomes the
file's path in plain text, since no address of the repository is part of it."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_README = "index.md"
_OUTSIDE = re.compile(r"\[([^\]]+)\]\((\.\./[^)\s]+)\)")


def on_config(config: Any) -> Any:
    """Put every benchmark and every design note into the navigation."""
    for title, folder in (("Benchmarks", "benchmarks"), ("Design notes", "design")):
        pages = sorted(Path(config.docs_dir, folder).glob("*.md"))
        config.nav.append({title: [f"{folder}/{page.name}" for page in pages]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the README of the repository as the first page."""
    text = Path(config.config_file_path).with_name("README.md").read_text("utf-8")
    # What it names below docs/ is beside it here.
    text = re.sub(r"(\]\(|=\")docs/", r"\1", text)
    text = re.sub(r"\[([^\]]+)\]\((?!https?:|#)([^)\s]*)\)", _kept_if_page(config.docs_dir), text)
    files.append(File.generated(config, _README, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Name files outside of the documentation instead of linking to them."""
    folder = Path(page.file.src_uri).parent

    def named(link: re.Match[str]) -> str:
        target = Path("docs", folder, link[2].partition("#")[0])
        parts: list[str] = []
        for part in target.parts:
            if part == "..":
                parts.pop()
            else:
                parts.append(part)
        inside = parts[:1] == ["docs"]
        return link[0] if inside else f"{link[1]} (`{'/'.join(parts)}`)"

    return _OUTSIDE.sub(named, markdown)


def _kept_if_page(docs: str) -> Any:
    def replaced(link: re.Match[str]) -> str:
        target = link[2].partition("#")[0]
        return link[0] if Path(docs, target).is_file() else f"{link[1]} (`{target}`)"

    return replaced
