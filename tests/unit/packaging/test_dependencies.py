"""What is imported is declared, what is declared is imported, and the page says why."""

import re
import subprocess
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


def test_the_extras_are_what_the_processes_need_beyond_the_command_line() -> None:
    project = _project(ROOT / "pyproject.toml")
    base = _declared(project["dependencies"])
    cluster = _declared(project["optional-dependencies"]["cluster"])
    assert base | cluster == _imported(_PROCESSES) - {"distributed", "matplotlib"}
    assert not base & cluster


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


_WITHOUT_CLUSTER: Final = """
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {"kubernetes", "flask", "werkzeug", "gunicorn", "msgspec",
                                      "prometheus_client", "yaml", "urllib3", "cachetools"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
from optimus.cli.main import main
for line in sys.argv[1:]:
    if main(line.split()):
        sys.exit("failed: optimus " + line)
"""


def test_the_command_line_works_without_the_packages_of_a_cluster() -> None:
    commands = (
        "plan --jobs tests/data/allocation/jobs_100.csv --nodes 300",
        "simulate --jobs 2 --policies drf --seeds 1",
        "forecast tests/data/curves/mlp_noisy.log --target-loss 0.15",
    )
    program = [sys.executable, "-c", _WITHOUT_CLUSTER, *commands]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
