"""Starts child processes that cannot outlive their parent, and identifies processes safely.

A process is identified by pid, start time and boot: a pid alone may have been reused."""

import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_POLL_SECONDS = 0.05
_PR_SET_PDEATHSIG = 1
_START_TIME_FIELD = (
    19  # counted after the program's name, which may itself hold blanks and brackets
)


@dataclass(frozen=True)
class ProcessId:
    """One process: pid, start time in clock ticks since the boot, identity of the boot."""

    pid: int
    start_ticks: int
    boot: str


def identify(pid: int) -> ProcessId | None:
    """Return the process that has this pid now; None where there is none, or only a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[0] in {"Z", "X"}:
        return None
    return ProcessId(pid, int(fields[_START_TIME_FIELD]), _boot())


def alive(process: ProcessId | None) -> bool:
    """Tell whether exactly this process still runs."""
    return process is not None and identify(process.pid) == process


def send(process: ProcessId | None, number: signal.Signals) -> bool:
    """Signal exactly this process; False where it is gone, whoever has its pid by now."""
    if process is None:
        return False
    try:
        # The descriptor holds on to one process, so that none can slip in between the look and the
        # signal.
        handle = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        if not alive(process):
            return False
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, number)
            return True
        return False
    finally:
        os.close(handle)


def wait_gone(processes: Sequence[ProcessId], timeout_seconds: float) -> bool:
    """Wait until none of these runs; False when some still do at the time-out."""
    return wait_for(lambda: not any(alive(process) for process in processes), timeout_seconds)


def wait_for(holds: Callable[[], bool], timeout_seconds: float) -> bool:
    """Wait until something holds; False when it does not at the time-out."""
    deadline = time.monotonic() + timeout_seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


@dataclass(frozen=True)
class Launch:
    """How to start one child: command, its whole environment, folder, log file.

    `death_signal` is what the kernel sends to the child when its parent dies, however that happens.
    """

    command: Sequence[str]
    environ: Mapping[str, str]
    cwd: Path
    log: Path
    death_signal: signal.Signals = signal.SIGKILL

    def start(self) -> "subprocess.Popen[bytes]":
        """Start the child in its own session, output appended to the log. Raises OSError."""
        parent = os.getpid()
        libc = ctypes.CDLL(None, use_errno=True)

        def bind_to_parent() -> None:
            libc.prctl(_PR_SET_PDEATHSIG, int(self.death_signal))
            if os.getppid() != parent:  # the parent died before the line above took effect
                os._exit(1)

        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            return subprocess.Popen(
                list(self.command),
                cwd=self.cwd,
                env=dict(self.environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C on the terminal is the supervisor's to handle, in order
                start_new_session=True,
                preexec_fn=bind_to_parent,  # noqa: PLW1509 - safe: the supervisor has a single thread
            )


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Call the handlers of SIGINT and SIGTERM after the block instead of in it.

    Ctrl-C raises at any bytecode: in the middle of what begins a process or removes a folder, the
    half that is done would stay. Only the main thread runs handlers; in others nothing changes, and
    a signal without a handler of Python's has its usual effect."""
    received: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = {number: signal.getsignal(number) for number in numbers}
    if threading.current_thread() is not threading.main_thread():
        handlers = {}
    replaced = {number: each for number, each in handlers.items() if callable(each)}
    for number in replaced:
        signal.signal(number, lambda came, _: received.append(came))
    try:
        yield
    finally:
        for number, handler in replaced.items():
            signal.signal(number, handler)
        for came in dict.fromkeys(received):
            signal.raise_signal(came)


def base_environ() -> dict[str, str]:
    """Return the variables that every component needs; proxies and secrets stay out."""
    kept = ("PATH", "LANG", "LC_ALL", "TMPDIR", "HOME", "USER")
    return {name: os.environ[name] for name in kept if name in os.environ}


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
