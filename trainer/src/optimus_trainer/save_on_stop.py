"""Save when the job is stopped, so that a restart loses nothing.

The pods of a job that is suspended get SIGTERM, in any order, and have their grace period (30 s by
default) to end. The process that saves (the chief, worker 0, rank 0) writes a checkpoint of what it
holds; processes that it needs for that outlive it.

The process that saves, before anything is imported that starts threads:

    stop = SaveOnStop()
    for step in steps:
        train(step)
        if stop.told:
            save(step)
            stop.leave()

A parameter server, or another worker of a synchronous job:

    SaveOnStop(seconds=10)                                      # or
    SaveOnStop(until=lambda: wait_until_gone("chief-0:2222"))

A handler of Python's ``signal`` would wait until C code returns, which that of a server never
does. Without a handler the kernel drops the signal for process 1 of a container. A thread that
waits for the signal has neither flaw.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from typing import Callable, NoReturn

MOST_SECONDS = 25.0
"""Less than the usual grace period."""

_STATUS = 128 + signal.SIGTERM
_LOOK_SECONDS = 0.3


class SaveOnStop:
    """From SIGTERM on the process has some seconds, or until something returns, and then leaves.

    To be made once, on the main thread, before any other thread is there. Processes that are forked
    later end by the signal as usual.
    """

    def __init__(
        self, seconds: float = MOST_SECONDS, until: Callable[[], object] | None = None
    ) -> None:
        self._wait = until or (lambda: time.sleep(seconds))
        self._told = threading.Event()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        os.register_at_fork(after_in_child=_unblock)
        threading.Thread(target=self._leave_when_told, name="sigterm", daemon=True).start()

    @property
    def told(self) -> bool:
        """Whether the process was told to stop."""
        return self._told.is_set()

    def leave(self) -> NoReturn:
        """Leave with the status of a process that the signal ended. To be called on the main
        thread, once everything is saved."""
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_STATUS)

    def _leave_when_told(self) -> None:
        signal.sigwait({signal.SIGTERM})
        self._told.set()
        try:
            self._wait()
        finally:
            os._exit(_STATUS)


def wait_until_gone(address: str, most_seconds: float = MOST_SECONDS) -> None:
    """Wait until nothing listens at HOST:PORT any more."""
    host, _, port = address.rpartition(":")
    until = time.monotonic() + most_seconds
    while time.monotonic() < until:
        try:
            socket.create_connection((host, int(port)), timeout=1.0).close()
        except OSError:
            return
        time.sleep(_LOOK_SECONDS)


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
