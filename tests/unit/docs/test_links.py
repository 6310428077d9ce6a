"""Nothing that a page names is missing: links, anchors, files, modules, targets."""

import re
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import Final
from urllib.parse import unquote

from tests.unit.docs.pages import ROOT, Page, all_pages, page
from tests.unit.docs.sources import files

_PAGES: Final = all_pages()
_FOLDERS: Final = "|".join(
    sorted(re.escape(path.name) for path in ROOT.iterdir() if (path / "__init__.py").exists())
)
_FILE: Final = re.compile(
    rf"(?<![\w./-])((?:{_FOLDERS}|docs|manifests|scheduler-config|requirements)/[\w./-]*\.(?:py|md|yaml|txt|svg|csv|in))\b"
)
_PROGRAM_FILE: Final = re.compile(r"(?<![\w./*-])[\w/]+\.py\b")
_PROGRAM_FILES: Final = [f"/{path.relative_to(ROOT)}" for path in files() if path.suffix == ".py"]
_MODULE: Final = re.compile(r"python -m ([a-z0-9_.]+)")
_MADE: Final = re.compile(r"\bmake ([a-z-]+)$")


def _wrong(found: Callable[[Page], Iterable[str]]) -> dict[str, list[str]]:
    """What is wrong, by page."""
    wrong = {each.name: sorted(set(found(each))) for each in _PAGES}
    return {name: values for name, values in wrong.items() if values}


def _in_code(each: Page, pattern: re.Pattern[str]) -> Iterator[str]:
    return (name for code in each.code for name in pattern.findall(code))


def test_every_link_leads_somewhere() -> None:
    assert not _wrong(
        lambda each: (link for link in each.links if not _leads_somewhere(each, link))
    )


def _leads_somewhere(source: Page, link: str) -> bool:
    if re.match(r"[a-z]+:", link):
        return True
    path, _, anchor = unquote(link).partition("#")
    target = (source.path.parent / path).resolve() if path else source.path
    if not target.is_relative_to(ROOT) or not target.exists():
        return False
    return not anchor or anchor in page(str(target.relative_to(ROOT))).anchors


def test_every_file_and_module_that_a_page_names_is_there() -> None:
    assert not _wrong(
        lambda each: (name for name in _FILE.findall(each.text) if not (ROOT / name).exists())
    )
    assert not _wrong(
        lambda each: (
            name
            for name in _in_code(each, _PROGRAM_FILE)
            if not any(path.endswith(f"/{name}") for path in _PROGRAM_FILES)
        )
    )
    assert not _wrong(
        lambda each: (
            name for name in _in_code(each, _MODULE) if name != "venv" and not find_spec(name)
        )
    )


def test_every_target_that_a_page_makes_is_in_the_makefile() -> None:
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert not _wrong(lambda each: (name for name in _in_code(each, _MADE) if name not in known))


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[str] = set()
    waiting = {"README.md"}
    while waiting:
        name = waiting.pop()
        reached.add(name)
        waiting |= _linked_pages(page(name)) - reached
    assert {each.name for each in _PAGES} - reached == set()


def _linked_pages(source: Page) -> set[str]:
    """The pages that a page leads to; a link to a folder shows what is in it."""
    targets = [(source.path.parent / link.partition("#")[0]).resolve() for link in source.links]
    inside = [each for each in targets if each.is_relative_to(ROOT)]
    found = {page for each in inside if each.is_dir() for page in each.glob("*.md")}
    found |= {each for each in inside if each.suffix == ".md" and each.is_file()}
    return {str(each.relative_to(ROOT)) for each in found}
