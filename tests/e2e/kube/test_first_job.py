"""docs/first-job.md as a reader follows it: its commands as the page has them, in a copy of the
checkout in which nothing was run but what `make demo` installs, with kubectl, on the embedded
control plane."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import urllib3

from localcluster.binaries.locate import resolve
from localcluster.paths import REPOSITORY
from localcluster.progress import PlainProgress
from tests.harness.guide_commands import block, outputs
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]  # packages are downloaded

PAGE: Final = REPOSITORY / "docs" / "first-job.md"
CHECKPOINTS: Final = "/tmp/optimus-checkpoints"
_INSTALL_SECONDS: Final = 900
_SECONDS: Final = 240
_ROW: Final = re.compile(r"light-tf +Training +\d+ +\d+ +[\d.]+ +loss <= 0\.18 +\d+ +[\d.]+ +\d+ +")
_CHANGE: Final = r"\d+ PS \+ \d+ workers? -> \d+ PS \+ \d+ workers?: "


@dataclass(frozen=True)
class Reader:
    """A user with a home of their own, in whose shell the page's `export` lines were run."""

    checkout: Path
    folder: Path
    exported: str = ""

    def run(self, commands: str) -> str:
        """What the commands print. Raises AssertionError with it where one fails."""
        commands = commands.replace(CHECKPOINTS, str(self.folder / "checkpoints"))
        environ = {
            "PATH": f"{self.folder}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
        }
        return _run(["bash", "-euo", "pipefail", "-c", self.exported + commands], self, environ)

    def succeeds(self, commands: str) -> bool:
        """Whether they succeed now: a pod is away while its job is rescaled."""
        try:
            self.run(commands)
        except AssertionError as error:
            print(error)
            return False
        return True


def _run(
    command: list[str], reader: Reader, environ: dict[str, str], seconds: float = _SECONDS
) -> str:
    done = subprocess.run(
        command,
        cwd=reader.checkout,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A reader whose cluster runs; it ends as the page says."""
    folder = tmp_path_factory.mktemp("reader").resolve()
    kubectl = resolve(PlainProgress())["kubectl"]
    (folder / "kubectl").symlink_to(kubectl)
    arriving = Reader(copy_of_the_checkout(folder / "checkout"), folder)
    # The demo itself is tests/integration/demo. Another checkout's environment is not to be seen.
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    environ = {name: value for name, value in os.environ.items() if name not in hidden}
    _run(["make", ".venv/.demo-ready"], arriving, environ, _INSTALL_SECONDS)
    start = block(PAGE, "A cluster")
    exported = "".join(f"{each}\n" for each in start.splitlines() if each.startswith("export "))
    assert "KUBECONFIG" in exported
    try:
        arriving.run(start)
        yield Reader(arriving.checkout, folder, exported)
    finally:
        arriving.run(block(PAGE, "Cleaning up"))


def copy_of_the_checkout(target: Path) -> Path:
    """The files that a clone would have after a commit of everything."""
    listed = ["git", "-C", str(REPOSITORY), "ls-files", "-z", "-co", "--exclude-standard"]
    names = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        source, copy = REPOSITORY / name, target / name
        if source.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            if source.is_symlink():
                copy.symlink_to(source.readlink())
            else:
                shutil.copy2(source, copy)
    return target


def test_the_commands_of_the_page_work_as_written(reader: Reader) -> None:
    assert reader.run("kubectl get nodes --no-headers").count(" Ready ") == 3
    reader.run(block(PAGE, "Optimus"))
    check_page_address(reader)
    reader.run(block(PAGE, "A volume for checkpoints"))
    submit, watch = block(PAGE, "The job").splitlines()
    reader.run(submit)
    check_outputs(reader, watch.removeprefix("watch "))
    for command in block(PAGE, "Things to try").splitlines():
        wait_until(command, partial(reader.succeeds, command))
    described = "kubectl describe tfjob light-tf"
    wait_until("its Events name the misspelling", lambda: "target-los" in reader.run(described))


def check_page_address(reader: Reader) -> None:
    """What the page says of the browser leads to the autoscaler's page."""
    address = reader.run(block(PAGE, "The page in a browser")).strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
    answer = urllib3.request("GET", address, retries=3)
    assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (200, "text/html")


def check_outputs(reader: Reader, listing: str) -> None:
    """What the page shows has the shape of what is printed."""
    table, events = outputs(PAGE, "The job")

    header, row = table.splitlines()
    assert _ROW.match(row)

    def printed() -> list[str]:
        lines = reader.run(listing).splitlines()  # at first that there is no profile
        return lines if any(map(_ROW.match, lines)) else []

    assert wait_until("a row as on the page", printed, 400)[0].split() == header.split()
    measured = rf"Rescaling +.*?{_CHANGE}run 1 measures its speed at \d+ PS \+ \d+ workers?"
    shown = [measured, rf"Rescaled +.*?{_CHANGE}it trains, \d+ s after it was decided"]
    for line, shape in zip(events.splitlines(), shown, strict=True):
        assert re.match(shape, line), line  # when there are some depends on other jobs
