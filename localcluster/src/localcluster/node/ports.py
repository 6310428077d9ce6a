"""Local ports for programs that bind by themselves: one owner per port, over all agents of this
machine.

A port is chosen outside the range from which the kernel gives ports to outgoing connections, tried
with a bind, and held by a socket of a reserved name (Linux's abstract namespace), which only one
process can have: so two clusters never hand out the same port. The kernel frees the name when the
agent dies, and like ports it belongs to a network namespace. A port that was given back rests for a
while, because peers of its last user may still try it."""

import errno
import random
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

_REST_SECONDS = 120.0
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


class NoPortLeft(Exception):
    """Every port of the range is taken."""


class PortAllocator:
    """Hands out ports of the loopback interface and takes them back. Thread-safe."""

    def __init__(
        self,
        candidates: Sequence[int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Hand out the ports given, by default a range that outgoing connections never use."""
        self._candidates = candidates or _quiet_range()
        self._next = random.randrange(len(self._candidates))
        self._clock = clock
        self._held: dict[int, socket.socket] = {}
        self._resting: dict[int, float] = {}
        self._mutex = threading.Lock()

    def allocate(self) -> int:
        """Return a port that nobody listens on and no other agent has handed out. Raises
        NoPortLeft."""
        with self._mutex:
            now = self._clock()
            self._resting = {port: until for port, until in self._resting.items() if until > now}
            for _ in range(len(self._candidates)):
                port = self._candidates[self._next]
                self._next = (self._next + 1) % len(self._candidates)
                if port not in self._held and port not in self._resting and self._claim(port):
                    return port
        raise NoPortLeft(
            f"no free port between {min(self._candidates)} and {max(self._candidates)}"
        )

    def release(self, port: int) -> None:
        """Take a port back; it is not handed out again for two minutes."""
        with self._mutex:
            name = self._held.pop(port, None)
            if name is not None:
                name.close()
                self._resting[port] = self._clock() + _REST_SECONDS

    def close(self) -> None:
        """Take all ports back: the agent is ending."""
        for port in list(self._held):
            self.release(port)

    def _claim(self, port: int) -> bool:
        name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        if _bound(name, f"\0optimus-on-kubernetes/port/{port}") and _bindable(port):
            self._held[port] = name
            return True
        name.close()
        return False


def _bound(name: socket.socket, address: str) -> bool:
    """Take a reserved name; return False when another agent has it."""
    try:
        name.bind(address)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False
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
