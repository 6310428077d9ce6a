"""What is imported is declared, what is declared is imported, and the page says why."""

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tests.unit.docs.pages import ROOT, Page
from tests.unit.docs.sources import imported

_DISTRIBUTIONS: Final = {
    "prometheus_client": "prometheus-client",
    "re2": "google-re2",
    "yaml": "pyyaml",
}
"""Import names that differ from the name of their distribution."""

_OWN: Final = {"autoscaler", "extender", "optimus", "optimus_trainer", "localcluster"}
_PROCESSES: Final = ("autoscaler", "extender", "optimus")
_NOT_IN_THE_IMAGE: Final = ("optimus/cli", "optimus/simulator")


def _declared(entries: Iterable[str]) -> set[str]:
    return {re.split(r"[\[<>=!~ ;]", entry, maxsplit=1)[0] for entry in entries}


def _required(name: str) -> set[str]:
    lines = (ROOT / "requirements" / f"{name}.in").read_text().splitlines()
    return _declared(line for line in lines if line and line[0] not in "-#")


def _project(path: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads(path.read_text())["project"]
    return project


def _imported(folders: Iterable[str], without: tuple[str, ...] = ()) -> set[str]:
    """The distributions that the Python files below these folders import."""
    found: set[str] = set()
    for path in (each for folder in folders for each in (ROOT / folder).rglob("*.py")):
        if str(path.relative_to(ROOT)).startswith(without):
            continue
        found |= imported(path)
    others = found - set(sys.stdlib_module_names) - _OWN
    return {_DISTRIBUTIONS.get(name, name) for name in others}


def test_the_image_has_exactly_the_packages_that_its_code_imports() -> None:
    assert _required("runtime") == _imported(_PROCESSES, _NOT_IN_THE_IMAGE)


def test_the_image_leaves_out_the_command_line_and_the_simulator() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert set(_NOT_IN_THE_IMAGE) <= set(lines[lines.index("!optimus") :])


def test_the_extras_are_what_the_processes_and_the_simulator_need_beyond_the_commands() -> None:
    project = _project(ROOT / "pyproject.toml")
    base, extras = _declared(project["dependencies"]), project["optional-dependencies"]
    processes, simulator = _declared(extras["processes"]), _declared(extras["simulator"])
    assert base | processes | simulator == _imported(_PROCESSES) - {"distributed"}
    assert not base & (processes | simulator)


def test_the_local_cluster_declares_what_it_imports() -> None:
    project = _project(ROOT / "localcluster" / "pyproject.toml")
    declared = _declared(project["dependencies"]) - {"optimus-on-kubernetes", "httptools"}
    testing = {"pytest", "xdist"}  # of the extra `testing`
    assert declared == _imported(["localcluster/src"]) - testing


def test_the_page_names_every_package_and_no_other() -> None:
    page = Page(path := ROOT / "docs" / "dependencies.md", path.read_text())
    tables = re.findall(r"^\| ([^|]+) \|", page.prose, re.MULTILINE)
    named = {name.strip() for cell in tables for name in cell.split(",")} - {"package", "---"}
    files = ("runtime", "demo", "dev", "docs", "mxnet", "tensorflow")
    wanted = set[str]().union(*(_required(name) for name in files))
    assert named == wanted | _declared(_project(ROOT / "pyproject.toml")["dependencies"])
