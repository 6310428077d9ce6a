"""Processes as containers: output, exit codes, signals, groups, and what happens when the agent is
killed."""

import os
import queue
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster.node.logs import LogFile
from localcluster.node.process_table import Launch, ProcessTable, end_marked
from localcluster.testing.waiting import wait_until
from tests.cases import cases

ENV = {"PATH": os.environ["PATH"]}


def shell(script: str, folder: Path, env: dict[str, str] | None = None) -> Launch:
    """Return how to run a script."""
    return Launch("/bin/sh", ("sh", "-c", script), {**ENV, **(env or {})}, str(folder))


@pytest.fixture
def table() -> Iterator[ProcessTable]:
    """A table of processes that is emptied at the end."""
    table = ProcessTable()
    yield table
    table.end_all(0.2)


def run(table: ProcessTable, launch: Launch, folder: Path) -> tuple[int, str]:
    """Run to the end; return the exit code and the log."""
    ended: queue.Queue[int] = queue.Queue()
    log = LogFile(folder / "log")
    table.start("one", launch, log, ended.put)
    code = ended.get(timeout=180)
    return code, (folder / "log").read_text()


@cases(
    ("script", "code"),
    {
        "a success": ("exit 0", 0),
        "a failure": ("exit 3", 3),
        "a death by SIGKILL": ("kill -9 $$", 137),
        "a death by SIGTERM": ("kill -15 $$", 143),
        "what the shell says of a program that is not there": ("exec /no/such/program", 127),
    },
)
def test_exit_codes(table: ProcessTable, tmp_path: Path, script: str, code: int) -> None:
    assert run(table, shell(script, tmp_path), tmp_path)[0] == code


def test_both_streams_are_logged_to_the_last_byte(table: ProcessTable, tmp_path: Path) -> None:
    script = (
        "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; echo problem >&2; "
        "printf end"
    )
    _, log = run(table, shell(script, tmp_path), tmp_path)
    out = [line for line in log.splitlines() if " stdout F " in line]
    assert [line.split(" ", 3)[3] for line in out] == [
        *(f"line {index}" for index in range(3000)),
        "end",
    ]
    assert " stderr F problem" in log


def test_a_missing_working_folder_is_reported_in_the_log(
    table: ProcessTable, tmp_path: Path
) -> None:
    code, log = run(table, shell("true", tmp_path / "no"), tmp_path)
    assert code == 128
    assert "cannot be started" in log


def test_the_rest_of_a_group_ends_with_its_first_process(
    table: ProcessTable, tmp_path: Path
) -> None:
    fifo = tmp_path / "held"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    code, _ = run(table, shell(f"sleep 1000 3>{fifo} & exec 4>{fifo}; exit 5", tmp_path), tmp_path)
    assert code == 5
    os.set_blocking(reader, True)
    # The read ends when the last writer is gone: the sleeping child held the pipe open.
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_sigterm_reaches_the_first_process_and_kill_the_whole_group(
    table: ProcessTable, tmp_path: Path
) -> None:
    ended: queue.Queue[int] = queue.Queue()
    fifo = tmp_path / "ready"
    os.mkfifo(fifo)
    script = f"trap 'echo asked' TERM; echo x >{fifo}; while true; do sleep 0.05; done"
    log = LogFile(tmp_path / "log")
    table.start("one", shell(script, tmp_path), log, ended.put)
    fifo.read_text()
    table.signal("one", kill=False)
    with log.changed:
        assert log.changed.wait_for(lambda: "asked" in log.path.read_text(), 180)
    table.signal("one", kill=True)
    assert ended.get(timeout=180) == 137


_OWNER = """
import sys, threading
from pathlib import Path
from localcluster.node.process_table import Launch, ProcessTable
from localcluster.node.logs import LogFile
folder = Path(sys.argv[1])
env = {"PATH": "/usr/bin:/bin", "LOCALCLUSTER_POD": str(folder) + "/u1"}
script = f"sleep 1000 & echo $$ $! >{folder}/fifo; wait"
ProcessTable().start(
    "x", Launch("/bin/sh", ("sh", "-c", script), env, "/"), LogFile(folder / "log"), print
)
threading.Event().wait()
"""


def test_containers_end_with_a_killed_agent_and_the_next_agent_removes_leftovers(
    tmp_path: Path,
) -> None:
    os.mkfifo(tmp_path / "fifo")
    owner = subprocess.Popen([sys.executable, "-c", _OWNER, str(tmp_path)])
    first, child = (int(each) for each in (tmp_path / "fifo").read_text().split())
    descriptors = [os.pidfd_open(pid) for pid in (first, child)]
    # While the child becomes `sleep`, it shows no environment.
    environ = Path(f"/proc/{child}/environ")
    wait_until(lambda: str(tmp_path) in environ.read_text(), "the child runs", 180)
    owner.kill()
    owner.wait(timeout=180)
    _wait_gone(descriptors[0])
    assert end_marked(f"{tmp_path}-other") == 0
    assert end_marked(str(tmp_path)) == 1
    _wait_gone(descriptors[1])
    for each in descriptors:
        os.close(each)


def _wait_gone(pidfd: int) -> None:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    assert poll.poll(180_000), "the process is still there"
