"""Why a supervisor should stop: a signal, or the end of the process that owns the cluster.

The owner holds the write end of a pipe and never writes; when it dies, however it dies, the kernel
closes the pipe and the read end here becomes readable."""

import os
import selectors
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType


class Interrupts:
    """Collects the first reason to stop; `register` lets a selector wake up when one comes."""

    def __init__(self, owner_fd: int | None = None) -> None:
        self._owner_fd = owner_fd
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self.reason: str | None = None
        self.owner_ended = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Handle SIGTERM, SIGINT and SIGHUP here for a while."""
        signal.set_wakeup_fd(self._wake_write.fileno(), warn_on_full_buffer=False)
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        previous = {number: signal.signal(number, self._on_signal) for number in numbers}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(-1)

    def register(self, selector: selectors.BaseSelector) -> None:
        """Let the selector wake up for a reason to stop."""
        selector.register(self._wake_read, selectors.EVENT_READ, self._on_wake)
        if self._owner_fd is not None:
            selector.register(self._owner_fd, selectors.EVENT_READ, self._on_owner)

    def unregister(self, selector: selectors.BaseSelector) -> None:
        """Undo `register`."""
        selector.unregister(self._wake_read)
        if self._owner_fd is not None:
            selector.unregister(self._owner_fd)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.reason = self.reason or f"signal {signal.Signals(number).name}"

    def _on_wake(self) -> None:
        with suppress(BlockingIOError):
            self._wake_read.recv(64)

    def _on_owner(self) -> None:
        assert self._owner_fd is not None
        if not os.read(self._owner_fd, 64):
            self.owner_ended = True
            self.reason = self.reason or "the process that owns the cluster ended"
