"""Free TCP ports on loopback: for components at a cluster's start, and for pods.

Ports outside the range from which the kernel serves outgoing connections are taken far less often.
Components use one range, pods another, so that a component that starts again finds its own free."""

import errno
import random
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

_COMPONENTS_BEGIN: Final = 15000
_PODS_BEGIN: Final = 22000
_TRIES: Final = 500
_REST_SECONDS: Final = 120.0
"""Peers of a port's last user may still try it for this long."""


class NoPortLeft(Exception):
    """Every port of the range is taken."""


def pick_ports(count: int, source: random.Random | None = None) -> Sequence[int]:
    """Pick different ports that could be bound on 127.0.0.1 a moment ago; at random by default.

    Nothing reserves a port for another program: the start of a cluster picks again when it loses
    the race."""
    source = source or random.SystemRandom()
    ceiling = min(_ephemeral_range()[0], _PODS_BEGIN)
    chosen: list[int] = []
    for _ in range(_TRIES):
        if len(chosen) == count:
            break
        low = ceiling <= _COMPONENTS_BEGIN + _TRIES
        port = _bindable("127.0.0.1", 0 if low else source.randrange(_COMPONENTS_BEGIN, ceiling))
        if port and port not in chosen:
            chosen.append(port)
    assert len(chosen) == count, "a machine with thousands of taken ports"
    return chosen


class PortAllocator:
    """Hands out ports for pods, one owner per port over all agents of this machine. Thread-safe.

    A port is held by a socket of a reserved name (Linux's abstract namespace), which only one
    process can have; the kernel frees the name when the agent ends."""

    def __init__(
        self, candidates: Sequence[int] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._candidates = candidates or _pod_range()
        self._next = random.randrange(len(self._candidates))
        self._clock = clock
        self._held: dict[int, socket.socket] = {}
        self._resting: dict[int, float] = {}
        self._mutex = threading.Lock()

    def allocate(self) -> int:
        """Return a port that is free and that no agent has handed out. Raises NoPortLeft."""
        with self._mutex:
            now = self._clock()
            self._resting = {port: until for port, until in self._resting.items() if until > now}
            for _ in range(len(self._candidates)):
                port = self._candidates[self._next]
                self._next = (self._next + 1) % len(self._candidates)
                if port not in self._held and port not in self._resting and self._claim(port):
                    return port
        first, last = min(self._candidates), max(self._candidates)
        raise NoPortLeft(f"no free port between {first} and {last}")

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
        try:
            name.bind(f"\0optimus-on-kubernetes/port/{port}")
        except OSError as error:
            name.close()
            if error.errno != errno.EADDRINUSE:
                raise
            return False
        # All addresses: some programs bind them all. Only tried, never listened on.
        if not _bindable("0.0.0.0", port):  # noqa: S104 -- see above
            name.close()
            return False
        self._held[port] = name
        return True


def _bindable(host: str, port: int) -> int:
    """Bind for a moment and return the port; 0 where it is taken. Port 0: the kernel chooses."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return 0
        return int(probe.getsockname()[1])


def _ephemeral_range() -> tuple[int, int]:
    try:
        low, high = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    except (OSError, ValueError):
        return 32768, 60999
    return int(low), int(high)


def _pod_range() -> range:
    low, high = _ephemeral_range()
    return range(_PODS_BEGIN, low) if low > 26000 else range(min(high + 1, 61000), 65536)
