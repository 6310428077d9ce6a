"""What a process does when it is told to stop: worker 0 saves, the others give it time for that.

Pods of a job that is suspended get SIGTERM in any order, and have their grace period to end. A
Python handler would wait until MXNet's C code returns, which a server's never does, and without one
the kernel drops the signal for process 1 of a container. A thread that waits for the signal has
neither flaw.
"""

from __future__ import annotations

import os
import signal
import threading
import time

_STATUS = 128 + signal.SIGTERM


class Stop:
    """Leaves some seconds after SIGTERM, or once the main thread has saved. To be made before any
    other thread is there."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._told = seconds, threading.Event()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=self._wait, name="sigterm", daemon=True).start()

    @property
    def told(self) -> bool:
        """Whether the process was told to stop."""
        return self._told.is_set()

    def leave(self) -> None:
        """Leave with the status of a process that the signal ended."""
        os._exit(_STATUS)

    def _wait(self) -> None:
        signal.sigwait({signal.SIGTERM})
        self._told.set()
        time.sleep(self._seconds)
        self.leave()
