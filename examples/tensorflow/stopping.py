"""What a process does when it is told to stop: the chief saves, the others wait for that.

Pods of a job that is suspended get SIGTERM in any order, and have their grace period to end. A
Python handler would wait until TensorFlow's C++ code returns, which a server's never does, and
without one the kernel drops the signal for process 1 of a container. A thread that waits for the
signal has neither flaw.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable

_STATUS = 128 + signal.SIGTERM
_MOST_SECONDS = 25.0
"""Less than the usual grace period of 30 s."""

_LOOK_SECONDS = 0.3


def on_sigterm(wait: Callable[[], object]) -> None:
    """At SIGTERM wait until that returns, and leave with the status of a process that the signal
    ended. To be called before any other thread is there."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def leave() -> None:
        signal.sigwait({signal.SIGTERM})
        wait()
        os._exit(_STATUS)

    threading.Thread(target=leave, name="sigterm", daemon=True).start()


def wait_until_gone(address: str, most_seconds: float = _MOST_SECONDS) -> None:
    """Wait until nothing listens at HOST:PORT any more."""
    host, _, port = address.rpartition(":")
    until = time.monotonic() + most_seconds
    while time.monotonic() < until:
        try:
            socket.create_connection((host, int(port)), timeout=1.0).close()
        except OSError:
            return
        time.sleep(_LOOK_SECONDS)


class SaveFirst:
    """Lets the main thread save before the process leaves at SIGTERM."""

    def __init__(self) -> None:
        self._told = threading.Event()

    @property
    def told(self) -> bool:
        """Whether the process was told to stop."""
        return self._told.is_set()

    def wait(self) -> None:
        """Give the main thread time to save; on the thread that waits for the signal."""
        self._told.set()
        time.sleep(_MOST_SECONDS)

    def leave(self) -> None:
        """Leave, as everything is saved; on the main thread."""
        os._exit(_STATUS)
