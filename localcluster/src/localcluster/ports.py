"""Picks TCP ports on loopback that are free now.

Nothing can reserve a port for another program, so a port may be taken between the pick and its use.
Ports below the range from which the kernel serves outgoing connections are taken far less often,
and the start of a cluster picks anew when it loses the race all the same.
"""

import random
import socket
from collections.abc import Sequence
from pathlib import Path

_LOWEST = 15000
_PODS_BEGIN = 22000
"""From here on the node agent gives ports to pods: a component that starts again must find its own
free."""
_TRIES = 500


def pick_ports(count: int, source: random.Random) -> Sequence[int]:
    """Return `count` different ports that could be bound on 127.0.0.1 a moment ago."""
    ceiling = min(_first_ephemeral_port(), _PODS_BEGIN)
    chosen: list[int] = []
    for _ in range(_TRIES):
        if len(chosen) == count:
            break
        port = source.randrange(_LOWEST, ceiling) if ceiling > _LOWEST + _TRIES else 0
        bound = _bindable(port)
        if bound is not None and bound not in chosen:
            chosen.append(bound)
    assert len(chosen) == count, "a machine with thousands of taken ports"
    return chosen


def _first_ephemeral_port() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0


def _bindable(port: int) -> int | None:
    """Bind for a moment; port 0 lets the kernel choose. Return the port, or None where it is
    taken."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return None
        return int(probe.getsockname()[1])
