"""Containers as processes: starts them, copies their output into logs, reports their exits.

Every container is a session and process group of its own, and has a thread: the kernel kills a
process whose thread ends. When its first process ends, the rest of the group is killed, as the end
of process 1 ends a container."""

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from localcluster.node.launcher import tied
from localcluster.node.logs import LogFile
from localcluster.processes import identify, send

_LOG = logging.getLogger(__name__)
POD_VARIABLE: Final = "LOCALCLUSTER_POD"
"""Every process of a container carries this variable, so that what outlives an agent is found."""
_CHUNK_BYTES: Final = 65536
_OUTPUT_SECONDS: Final = 1.0
"""How long the last output is waited for; a process that left the group may hold the pipe."""


@dataclass(frozen=True)
class Launch:
    """What to run: the program's file, its argv (the first is its name), variables and folder."""

    program: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    folder: str


class ProcessTable:
    """All containers of an agent. The methods may be called from any thread."""

    def __init__(self) -> None:
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def start(self, key: str, launch: Launch, log: LogFile, on_exit: Callable[[int], None]) -> int:
        """Start a process and return its pid. Raises OSError or ValueError.

        `on_exit` gets the exit code (128 + signal number after a signal) on the container's thread,
        once the output is in the log."""
        answer: Future[int] = Future()
        arguments = (key, launch, log, on_exit, answer)
        threading.Thread(target=self._run, args=arguments, name=key, daemon=True).start()
        return answer.result()

    def signal(self, key: str, *, kill: bool) -> None:
        """Send SIGTERM to a container's first process or SIGKILL to its group, if it still runs."""
        with self._lock:  # it is not waited for meanwhile, so its number is its own
            process = self._processes.get(key)
            if process is not None and kill:
                _kill_group(process.pid)
            elif process is not None:
                os.kill(process.pid, signal.SIGTERM)

    def end_all(self, grace_seconds: float) -> None:
        """End every container with SIGTERM, after the grace with SIGKILL."""
        for kill, seconds in ((False, grace_seconds), (True, 5.0)):
            deadline = time.monotonic() + seconds
            for key in list(self._processes):
                self.signal(key, kill=kill)
            while self._processes and time.monotonic() < deadline:
                time.sleep(0.02)

    def _run(
        self,
        key: str,
        launch: Launch,
        log: LogFile,
        on_exit: Callable[[int], None],
        answer: "Future[int]",
    ) -> None:
        try:
            process = subprocess.Popen(
                tied(launch.argv, launch.folder, launch.program),
                env=dict(launch.env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            log.close()
            answer.set_exception(error)
            return
        self._processes[key] = process
        answer.set_result(process.pid)
        readers = [
            threading.Thread(target=_copy, args=(pipe, stream, log), daemon=True)
            for pipe, stream in ((process.stdout, "stdout"), (process.stderr, "stderr"))
        ]
        for reader in readers:
            reader.start()
        # Dead, but not yet waited for: its group's number cannot belong to anybody else.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        _kill_group(process.pid)
        with self._lock:
            code = process.wait()
            del self._processes[key]
        for reader in readers:
            reader.join(_OUTPUT_SECONDS)
        log.close()
        on_exit(code if code >= 0 else 128 - code)


def _copy(pipe: IO[bytes], stream: str, log: LogFile) -> None:
    with pipe:
        while data := os.read(pipe.fileno(), _CHUNK_BYTES):
            with suppress(ValueError):  # the log is closed
                try:
                    log.write(stream, data)
                except OSError as error:
                    _LOG.warning("output of %s is lost: %s", log.path, error)


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return  # the whole group is gone already


def end_marked(marker: str) -> int:
    """Kill every process whose marker is this one or lies under it; return their number.

    Children of a container can outlive their agent; they inherit its variable. Neither names nor
    process numbers, which are reused, matter."""
    wanted = f"{POD_VARIABLE}={marker}".encode()
    ended = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid() and _carries(entry, wanted):
            process = identify(int(entry.name))
            # A second look: the number may have been reused before it was identified.
            ended += _carries(entry, wanted) and send(process, signal.SIGKILL)
    return ended


def _carries(process: Path, wanted: bytes) -> bool:
    try:
        variables = (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False  # it has ended, or belongs to somebody else
    return any(each == wanted or each.startswith(wanted + b"/") for each in variables)
