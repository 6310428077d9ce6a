"""The processes behind a container on a process node, so that a scenario can kill or freeze exactly
that one."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from localcluster.cluster import LocalCluster
from localcluster.components import AGENT
from localcluster.node.process_table import POD_VARIABLE
from tests.harness.api import Json


def container_process(cluster: LocalCluster, pod: Json, part_of_command: str) -> int:
    """Return the pid of a container's first process: the one of this pod whose command line holds
    this part.

    Every process of a pod carries the node agent's mark in its environment, and a container's first
    process leads its session. Raises AssertionError where there is not exactly one.
    """
    mark = f"{POD_VARIABLE}={cluster.paths.data / AGENT}/{pod['metadata']['uid']}".encode()
    found = [
        pid
        for pid in _processes()
        if _is_first(pid) and _carries(pid, mark) and part_of_command in _command(pid)
    ]
    assert len(found) == 1, (
        f"{len(found)} first processes of {pod['metadata']['name']} run {part_of_command!r}"
    )
    return found[0]


def container_members(first: int) -> list[int]:
    """Return the pids of all processes of a container, by its first one."""
    return [pid for pid in _processes() if _session_of(pid) == first]


def kill_process(pid: int) -> None:
    """Kill a process with SIGKILL."""
    os.kill(pid, signal.SIGKILL)


@contextmanager
def frozen_container(first: int) -> Iterator[None]:
    """Freeze all processes of a container, by its first one, for the length of the block."""
    members = container_members(first)
    try:
        for pid in members:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _is_first(pid: int) -> bool:
    return _session_of(pid) == pid


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _carries(pid: int, mark: bytes) -> bool:
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _command(pid: int) -> str:
    try:
        return (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
    except OSError:
        return ""
