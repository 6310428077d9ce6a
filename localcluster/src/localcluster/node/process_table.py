"""Containers as processes: starts them, copies their output into logs, reports their exits.

Every container is a session and process group of its own. When its first process ends, the rest of
the group is killed, as the end of process 1 ends a container. One selector waits for everything
(pipes, process ends through pidfds, requests of other threads), so a node with dozens of containers
costs one thread and no polling."""

import logging
import os
import queue
import selectors
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from localcluster.node.launcher import tied
from localcluster.node.logs import LogFile
from localcluster.processes import identify, send

_LOG = logging.getLogger(__name__)
POD_VARIABLE = "LOCALCLUSTER_POD"
"""Every process of a container carries this variable, so that what outlives an agent is found."""
_CHUNK_BYTES = 65536


@dataclass(frozen=True)
class Launch:
    """What to run: the program's file, its argv (the first is its name), variables and folder."""

    program: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    folder: str


@dataclass
class _Process:
    popen: subprocess.Popen[bytes]
    pidfd: int
    log: LogFile
    on_exit: Callable[[int], None]
    pipes: dict[int, str] = field(default_factory=dict)


class ProcessTable:
    """All containers of an agent, owned by one thread; the methods may be called from any."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._requests: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._processes: dict[str, _Process] = {}
        self._empty = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="containers", daemon=True)
        self._thread.start()

    def start(self, key: str, launch: Launch, log: LogFile, on_exit: Callable[[int], None]) -> int:
        """Start a process and return its pid. Raises OSError or ValueError.

        `on_exit` gets the exit code (128 + signal number after a signal) on the table's thread,
        once the output is in the log."""
        answer: Future[int] = Future()

        def request() -> None:
            try:
                answer.set_result(self._spawn(key, launch, log, on_exit))
            except (OSError, ValueError) as error:
                log.close()
                answer.set_exception(error)

        self._submit(request)
        return answer.result()

    def signal(self, key: str, *, kill: bool) -> None:
        """Send SIGTERM to a container's first process or SIGKILL to its group, if it still runs."""
        self._submit(lambda: self._signal(key, kill=kill))

    def end_all(self, grace_seconds: float) -> None:
        """End every container with SIGTERM, after the grace with SIGKILL, and stop the thread."""
        for kill in (False, True):
            self._empty.clear()
            self._submit(partial(self._signal_all, kill=kill))
            if self._empty.wait(grace_seconds if not kill else 5.0):
                break
        self._submit(None)
        self._thread.join(timeout=5.0)

    def _submit(self, request: Callable[[], None] | None) -> None:
        self._requests.put(request)
        try:
            os.write(self._wake_write, b"x")
        except BlockingIOError:
            return  # the pipe is full of wake-ups that have not been read: one more adds nothing

    # --- on the table's thread

    def _loop(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fd == self._wake_read:
                    if not self._serve_requests():
                        return
                elif isinstance(key.data, str):
                    self._reap(key.data)
                elif key.data is not None:
                    self._read(key.fd, *key.data)

    def _serve_requests(self) -> bool:
        os.read(self._wake_read, _CHUNK_BYTES)
        while not self._requests.empty():
            request = self._requests.get()
            if request is None:
                return False
            request()
        return True

    def _spawn(self, key: str, launch: Launch, log: LogFile, on_exit: Callable[[int], None]) -> int:
        popen = subprocess.Popen(
            tied(launch.argv, launch.folder, launch.program),
            env=dict(launch.env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert popen.stdout is not None
        assert popen.stderr is not None
        process = _Process(popen, _pidfd(popen), log, on_exit)
        for pipe, stream in ((popen.stdout, "stdout"), (popen.stderr, "stderr")):
            os.set_blocking(pipe.fileno(), False)
            process.pipes[pipe.fileno()] = stream
            self._selector.register(pipe.fileno(), selectors.EVENT_READ, (process, stream))
        self._selector.register(process.pidfd, selectors.EVENT_READ, key)
        self._processes[key] = process
        return popen.pid

    def _read(self, descriptor: int, process: _Process, stream: str) -> bool:
        """Copy what a pipe has into the log; return whether more may come."""
        if descriptor not in process.pipes:
            return False
        try:
            data = os.read(descriptor, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        if data:
            try:
                process.log.write(stream, data)
            except OSError as error:
                _LOG.warning("output of process %d is lost: %s", process.popen.pid, error)
            return True
        self._selector.unregister(descriptor)
        del process.pipes[descriptor]
        return False

    def _reap(self, key: str) -> None:
        process = self._processes.pop(key, None)
        if process is None:
            return
        self._selector.unregister(process.pidfd)
        os.close(process.pidfd)
        # The first process is dead but not yet waited for, so its group's number cannot belong to
        # anybody else.
        _kill_group(process.popen.pid)
        code = process.popen.wait()
        for descriptor, stream in list(process.pipes.items()):
            while self._read(descriptor, process, stream):
                pass
            if descriptor in process.pipes:
                self._selector.unregister(descriptor)
        process.pipes.clear()
        for pipe in (process.popen.stdout, process.popen.stderr):
            if pipe is not None:
                pipe.close()
        process.log.close()
        process.on_exit(code if code >= 0 else 128 - code)
        if not self._processes:
            self._empty.set()

    def _signal(self, key: str, *, kill: bool) -> None:
        process = self._processes.get(key)
        if process is None:
            return
        if kill:
            _kill_group(process.popen.pid)
        else:
            os.kill(process.popen.pid, signal.SIGTERM)

    def _signal_all(self, *, kill: bool) -> None:
        if not self._processes:
            self._empty.set()
        for key in list(self._processes):
            self._signal(key, kill=kill)


def _pidfd(popen: "subprocess.Popen[bytes]") -> int:
    """Return a descriptor of the process; one that cannot be watched must not run."""
    try:
        return os.pidfd_open(popen.pid)
    except OSError:
        with popen:
            popen.kill()
        raise


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
