"""The image holds what its two programs import, and is built as its Dockerfile and .dockerignore
say."""

import re
from pathlib import Path
from typing import Final

import pytest

from tests.unit.docs.pages import ROOT
from tests.unit.docs.sources import files, imported

_PROGRAMS: Final = ("autoscaler", "extender")
_PACKAGES: Final = {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()}
_DOCKERFILES: Final = [path for path in files() if path.name == "Dockerfile"]


def _needed() -> set[str]:
    needed, waiting = set(), set(_PROGRAMS)
    while waiting:
        package = waiting.pop()
        needed.add(package)
        modules = (ROOT / package).rglob("*.py")
        waiting |= {name for path in modules for name in imported(path)} & _PACKAGES - needed
    return needed


def _copied(dockerfile: Path) -> list[str]:
    """The sources of every COPY from the build context."""
    lines = re.findall(r"^COPY (?!--from)(.+)$", dockerfile.read_text(), re.MULTILINE)
    return [source for line in lines for source in line.split()[:-1] if not source.startswith("--")]


def test_the_image_has_every_package_that_its_programs_import() -> None:
    assert {name for name in _copied(ROOT / "Dockerfile") if name in _PACKAGES} == _needed()


def test_every_package_of_the_image_is_compiled_in_it() -> None:
    (compiled,) = re.findall(
        r"compileall -q (.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE
    )
    assert set(compiled.split()) == _needed()


@pytest.mark.parametrize("dockerfile", _DOCKERFILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_dockerfile_copies_is_there(dockerfile: Path) -> None:
    assert [name for name in _copied(dockerfile) if not (ROOT / name).exists()] == []


def test_dockerignore_lets_in_what_the_dockerfiles_copy_and_nothing_else() -> None:
    lines = [
        line
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line and line[0] != "#"
    ]
    assert lines[0] == "*"
    let_in = {line[1:] for line in lines if line[0] == "!"}
    copied = {name for dockerfile in _DOCKERFILES for name in _copied(dockerfile)}
    assert {name for name in copied if not {name, *map(str, Path(name).parents)} & let_in} == set()
    assert {
        entry for entry in let_in if not any(Path(name).is_relative_to(entry) for name in copied)
    } == set()


@pytest.mark.parametrize("dockerfile", _DOCKERFILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_image_runs_as_root(dockerfile: Path) -> None:
    """The light trainer's stands on the image of Optimus, and takes its user from there."""
    text = dockerfile.read_text()
    users = re.findall(r"^USER (\d+):(\d+)$", text, re.MULTILINE)
    assert users or "ARG OPTIMUS=" in text
    assert all(int(user) > 0 and int(group) > 0 for user, group in users)
