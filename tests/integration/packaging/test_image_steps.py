"""The steps of the Dockerfile, in a clean virtual environment, without a container engine."""

import os
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import pytest

from localcluster.paths import REPOSITORY

pytestmark = pytest.mark.timeout(1800)  # packages are downloaded
_DOCKERFILE: Final = (REPOSITORY / "Dockerfile").read_text().replace("\\\n", " ")
_SECONDS: Final = 1500


def steps(word: str) -> list[str]:
    return re.findall(rf"^{word} (?!--from)(.+)$", _DOCKERFILE, re.MULTILINE)


def ignored() -> list[str]:
    """What .dockerignore takes out of the folders that it lets in."""
    lines = (REPOSITORY / ".dockerignore").read_text().splitlines()
    return [line for line in lines if line and line[0] not in "#!" and line != "*"]


def leave_out(folder: str, names: list[str]) -> set[str]:
    here = Path(folder).relative_to(REPOSITORY)
    return {
        name
        for name in names
        for pattern in ignored()
        if fnmatch(str(here / name), pattern.removeprefix("**/"))
        or fnmatch(name, pattern.removeprefix("**/"))
    }


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file system of the image below a folder, as far as the Dockerfile makes it."""
    root = tmp_path_factory.mktemp("image")
    (root / "opt" / "optimus").mkdir(parents=True)
    requirements, *sources = steps("COPY")
    shutil.copyfile(REPOSITORY / requirements.split()[0], root / "runtime.txt")
    for line in sources:
        name, target = line.split()
        path = REPOSITORY / name
        if path.is_dir():
            shutil.copytree(path, root / "opt" / "optimus" / target, ignore=leave_out)
        else:
            shutil.copy(path, root / "opt" / "optimus" / target)
    environ = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", **package_source()}
    install, compile_all = steps("RUN")
    install = install.replace("/opt/venv", str(root / "opt" / "venv"))
    run(root, install.replace("/runtime.txt", str(root / "runtime.txt")), environ)
    run(root, compile_all, {**environ, "PATH": f"{root}/opt/venv/bin:/usr/bin:/bin"})
    return root


def package_source() -> dict[str, str]:
    """Where pip finds packages on this machine."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith("PIP_") or name.upper().endswith("_PROXY") or name == "HOME"
    }


def run(root: Path, command: str, environ: dict[str, str]) -> str:
    done = subprocess.run(
        ["/bin/sh", "-euc", command],
        cwd=root / "opt" / "optimus",
        env=environ,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def in_image(root: Path) -> dict[str, str]:
    """The variables of the image, and no others."""
    return {"PATH": f"{root}/opt/venv/bin:/usr/bin:/bin", "PYTHONPATH": f"{root}/opt/optimus"}


@pytest.mark.parametrize("program", ["autoscaler", "extender"])
def test_a_program_starts_with_what_is_in_the_image_and_writes_nothing(
    root: Path, program: str
) -> None:
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    said = run(root, f"python -m {program} --help", in_image(root))
    assert f"usage: python -m {program}" in said
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_the_image_has_no_installer_and_no_command_line(root: Path) -> None:
    listed = "import importlib.util as u; print([n for n in {} if u.find_spec(n)])"
    absent = ["pip", "setuptools", "pytest", "optimus.cli", "optimus.simulator"]
    assert run(root, f'python -c "{listed.format(absent)}"', in_image(root)).strip() == "[]"


def test_modules_are_compiled_in_the_image(root: Path) -> None:
    for package in ("optimus", "extender", "autoscaler"):
        sources = [*(root / "opt" / "optimus" / package).rglob("*.py")]
        assert sources
        for path in sources:
            assert list((path.parent / "__pycache__").glob(f"{path.stem}.*.pyc")), path
