"""Local ports for programs that bind by themselves: one owner per port, over all agents of this user.

A port is chosen outside the range from which the kernel gives ports to outgoing connections, tried with a bind,
and held by a file lock in a folder that all agents of the user share, so that two clusters never hand out the
same one; the kernel drops the lock when the agent dies. A port that was given back rests for a while, because
peers of its last user may still try it.
"""

import fcntl
import os
import random
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

_REST_SECONDS = 120.0
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


class NoPortLeft(Exception):
    """Every port of the range is taken."""


class PortAllocator:
    """Hands out ports of the loopback interface and takes them back. Thread-safe."""

    def __init__(
        self,
        lock_dir: Path | None = None,
        candidates: range | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Use the folder of locks and the range of ports given, by default the user's and a free one."""
        self._lock_dir = lock_dir or Path(tempfile.gettempdir()) / f"optimus-on-kubernetes-ports-{os.getuid()}"
        self._lock_dir.mkdir(mode=0o700, exist_ok=True, parents=True)
        self._candidates = candidates or _quiet_range()
        self._next = random.randrange(len(self._candidates))
        self._clock = clock
        self._held: dict[int, int] = {}
        self._resting: dict[int, float] = {}
        self._mutex = threading.Lock()

    def allocate(self) -> int:
        """Return a port that nobody listens on and no other agent has handed out. Raises NoPortLeft."""
        with self._mutex:
            now = self._clock()
            self._resting = {port: until for port, until in self._resting.items() if until > now}
            for _ in range(len(self._candidates)):
                port = self._candidates[self._next]
                self._next = (self._next + 1) % len(self._candidates)
                if port not in self._held and port not in self._resting and self._claim(port):
                    return port
        raise NoPortLeft(f"no free port between {self._candidates.start} and {self._candidates.stop - 1}")

    def release(self, port: int) -> None:
        """Take a port back; it is not handed out again for two minutes."""
        with self._mutex:
            descriptor = self._held.pop(port, None)
            if descriptor is not None:
                os.close(descriptor)
                self._resting[port] = self._clock() + _REST_SECONDS

    def _claim(self, port: int) -> bool:
        descriptor = os.open(self._lock_dir / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        if not _bindable(port):
            os.close(descriptor)
            return False
        self._held[port] = descriptor
        return True


def _bindable(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))  # noqa: S104 -- only tried, never listened on: some programs bind all
        except OSError:
            return False
    return True


def _quiet_range() -> range:
    """Return a range of ports that outgoing connections never use."""
    try:
        low, high = (int(each) for each in _EPHEMERAL.read_text().split())
    except (OSError, ValueError):
        low, high = 32768, 60999
    return range(22000, low) if low > 26000 else range(min(high + 1, 61000), 65536)
