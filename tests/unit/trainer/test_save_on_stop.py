"""Real processes that are told to stop, with the module as a file of their own."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import optimus_trainer.save_on_stop

STOPPED = 128 + signal.SIGTERM
SAVES = """
stop = SaveOnStop()
print("trains", flush=True)
while not stop.told:
    time.sleep(0.01)
print("saved")
stop.leave()
"""
OUTLIVES = """
SaveOnStop({})
print("serves", flush=True)
time.sleep(60)
"""
FORKS = """
stop = SaveOnStop(seconds=0)
child = os.fork()
if child == 0:
    time.sleep(60)
os.kill(child, signal.SIGTERM)
_, status = os.waitpid(child, 0)
print(os.WTERMSIG(status), flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that has a copy of the module, and nothing else of the package."""
    shutil.copy(str(optimus_trainer.save_on_stop.__file__), tmp_path / "save_on_stop.py")
    return tmp_path


def start(folder: Path, script: str) -> subprocess.Popen[str]:
    head = "import os, signal, time\nfrom save_on_stop import SaveOnStop, wait_until_gone\n"
    return subprocess.Popen(
        [sys.executable, "-c", head + script], cwd=folder, stdout=subprocess.PIPE, text=True
    )


def stopped(process: subprocess.Popen[str]) -> tuple[int, str, float]:
    """Status, what it printed after its first line, and how long it took to end."""
    assert process.stdout is not None
    process.stdout.readline()
    process.terminate()
    told_at = time.monotonic()
    rest, _ = process.communicate(timeout=30)
    return process.returncode, rest, time.monotonic() - told_at


def test_what_saves_is_told_saves_and_leaves(folder: Path) -> None:
    status, printed, seconds = stopped(start(folder, SAVES))
    assert (status, printed) == (STOPPED, "saved\n")
    assert seconds < 20  # it does not wait for the whole of its time


def test_what_others_need_outlives_the_signal(folder: Path) -> None:
    status, _, seconds = stopped(start(folder, OUTLIVES.format("seconds=1.5")))
    assert status == STOPPED
    assert seconds >= 1.4


def test_it_goes_on_until_the_one_that_saves_is_gone(folder: Path) -> None:
    listens = (
        "import socket\nserver = socket.create_server(('127.0.0.1', 0))\n"
        "print(server.getsockname()[1], flush=True)\ntime.sleep(60)\n"
    )
    chief = start(folder, listens)
    assert chief.stdout is not None
    address = f"127.0.0.1:{int(chief.stdout.readline())}"
    waits = start(folder, OUTLIVES.format(f"until=lambda: wait_until_gone({address!r})"))
    assert waits.stdout is not None
    waits.stdout.readline()
    waits.terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        waits.wait(1.0)
    chief.kill()
    chief.communicate(timeout=30)
    waits.communicate(timeout=30)
    assert waits.returncode == STOPPED


def test_a_forked_process_ends_by_the_signal(folder: Path) -> None:
    printed, _ = start(folder, FORKS).communicate(timeout=30)
    assert int(printed) == signal.SIGTERM


def test_where_waiting_fails_the_process_leaves_all_the_same(folder: Path) -> None:
    status, _, _ = stopped(start(folder, OUTLIVES.format("until=lambda: 1 / 0")))
    assert status == STOPPED
