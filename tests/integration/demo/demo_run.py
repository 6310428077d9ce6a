"""The demo as a newcomer starts it, with no program on its PATH, and with a folder of its own for
what it writes."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from localcluster.paths import REPOSITORY
from localcluster.testing.waiting import wait_until

_END_SECONDS = 180.0


@dataclass(frozen=True)
class DemoRun:
    """One run. All that it and its processes write lies in `folder`, whose path each of these
    carries."""

    process: "subprocess.Popen[bytes]"
    output: Path
    folder: Path

    @property
    def said(self) -> str:
        """What it has printed so far, on both streams."""
        return self.output.read_text(errors="replace")

    def wait_says(self, text: str, seconds: float = _END_SECONDS) -> None:
        """Wait until it has printed this. Raises AssertionError where it does not, or ends."""
        wait_until(
            lambda: text in self.said or not self.runs,
            f"the demo says {text!r}",
            seconds,
            lambda: self.said,
        )
        assert text in self.said, f"the demo has ended without {text!r}:\n{self.said}"

    @property
    def runs(self) -> bool:
        """Whether it has not ended yet."""
        return self.process.poll() is None

    def wait_ended(self, seconds: float = _END_SECONDS) -> int:
        """Wait for its end; return its exit status."""
        return self.process.wait(seconds)

    def address(self, name: str) -> str:
        """Return where it says that a thing is served."""
        found = re.search(rf"^ +{name} +(http://\S+)", self.said, re.MULTILINE)
        assert found, f"it does not say where the {name} are:\n{self.said}"
        return found[1]

    def interrupt(self, number: signal.Signals) -> None:
        """Send a signal to its whole group, as a terminal does where Ctrl-C is pressed."""
        with suppress(ProcessLookupError):  # it has just ended
            os.killpg(self.process.pid, number)

    def left(self) -> list[str]:
        """Return what of this run is still there: processes by their command lines, files by their
        paths."""
        return [*_processes_of(self.folder), *(str(path) for path in self.folder.iterdir())]


@contextmanager
def demo_run(folder: Path, *arguments: str) -> Iterator[DemoRun]:
    """Run the demo for the length of the block."""
    own = folder / "own"
    own.mkdir()
    output = folder / "output"
    environ = {
        **os.environ,
        "TMPDIR": str(own),
        "PATH": str(folder / "nothing"),
        "OMP_NUM_THREADS": "1",
    }
    with output.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "examples.demo", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            cwd=REPOSITORY,
            env=environ,
            start_new_session=True,
        )
    try:
        yield DemoRun(process, output, own)
    finally:
        if process.poll() is None:
            process.kill()  # its cluster ends with it
            process.wait()
            _wait_gone(own)


def _wait_gone(folder: Path) -> None:
    deadline = time.monotonic() + _END_SECONDS
    while any(_processes_of(folder)) and time.monotonic() < deadline:
        time.sleep(0.2)


def _processes_of(folder: Path) -> Iterator[str]:
    mark = str(folder).encode()
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and mark in _carried_by(entry):
                yield (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


def _carried_by(entry: Path) -> bytes:
    return (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
