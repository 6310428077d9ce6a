"""Processes that outlived what started them: found by the marker in their environment, and ended.

A container's first process dies with its agent, but children of it may not. Every process of a
container inherits a variable that names the agent's state folder and the pod, so a later agent
knows its own leftovers however they were started. Neither names nor process numbers that may have
been given anew play a part."""

import os
import signal
from pathlib import Path

from localcluster.node.launch import MARKER


def end_marked(marker: str) -> int:
    """Kill every process whose marker is this one or lies under it; return how many there were."""
    wanted = f"{MARKER}={marker}".encode()
    ended = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid() and _carries(entry, wanted):
            ended += _kill(int(entry.name), entry, wanted)
    return ended


def _carries(process: Path, wanted: bytes) -> bool:
    try:
        variables = (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False  # it has ended, or belongs to somebody else
    return any(each == wanted or each.startswith(wanted + b"/") for each in variables)


def _kill(pid: int, process: Path, wanted: bytes) -> int:
    """Kill a process by its pidfd, after a second look: between two looks a number can change
    hands."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return 0
    try:
        if not _carries(process, wanted):
            return 0
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except OSError:
        return 0
    finally:
        os.close(descriptor)
    return 1
