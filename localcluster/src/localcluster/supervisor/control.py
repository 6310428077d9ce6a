"""Starts, watches and stops the supervisor of one cluster, through its state folder.

What lies here works from any process that knows the folder: the context manager of the tests, the
`up`, `down` and `status` of the command line."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from localcluster.binaries.locate import Binaries
from localcluster.errors import ClusterError
from localcluster.paths import REPOSITORY, SOURCES, ClusterPaths
from localcluster.processes import ProcessId, alive, base_environ, send, wait_gone
from localcluster.specs import Backend, NodeSpec
from localcluster.storage import read_json, write_json
from localcluster.supervisor.status import ClusterStatus, end_recorded, read_status

SupervisorProcess: TypeAlias = "subprocess.Popen[bytes]"

_POLL_SECONDS = 0.05
_STOP_SECONDS = 60.0
_KILL_SECONDS = 5.0


@dataclass(frozen=True)
class ClusterSpec:
    """What a cluster is to be; without `binaries` its back end is the embedded one.

    `agent` holds further fields of the node agent's configuration."""

    name: str
    nodes: Sequence[NodeSpec]
    binaries: Binaries | None
    agent: Mapping[str, Any] = field(default_factory=dict)
    ephemeral: bool = False
    audit: bool = False
    flags: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def backend(self) -> Backend:
        """What its control plane is made of."""
        return Backend.REAL if self.binaries else Backend.EMBEDDED


def read_spec(paths: ClusterPaths) -> ClusterSpec | None:
    """Return the spec that a cluster was launched with; None where there is none."""
    body = read_json(paths.plan)
    try:
        return msgspec.convert(body, ClusterSpec, dec_hook=lambda kind, value: kind(value))
    except msgspec.ValidationError:
        return None


def launch(
    paths: ClusterPaths, spec: ClusterSpec, owned: bool
) -> tuple[SupervisorProcess, int | None]:
    """Start a supervisor on a clean state folder; return it with the write end of the owner's pipe.

    With `owned` the cluster ends when this process does, or when that end is closed; without, it
    stays until `stop`. Raises ClusterError where a cluster runs in this folder already."""
    refuse_if_running(paths)
    if paths.root.is_dir() and any(paths.root.iterdir()) and not paths.plan.exists():
        raise ClusterError(
            f"{paths.root} holds files that are not of a cluster; name an empty folder"
        )
    end_recorded(paths)
    shutil.rmtree(paths.root, ignore_errors=True)
    paths.logs.mkdir(parents=True)
    paths.root.chmod(0o700)
    write_json(paths.plan, msgspec.to_builtins(spec, enc_hook=str))
    return _spawn(paths, owned)


def refuse_if_running(paths: ClusterPaths) -> None:
    """Raise ClusterError where a cluster runs in this folder already."""
    status = read_status(paths)
    if status is not None and status.supervised:
        raise ClusterError(
            f"a cluster runs in {paths.root} already: use it with KUBECONFIG={paths.kubeconfig},"
            " stop it with `down`, or start another with --name"
        )


def _spawn(paths: ClusterPaths, owned: bool) -> tuple[SupervisorProcess, int | None]:
    command = [sys.executable, "-m", "localcluster.supervisor.main", "--state", str(paths.root)]
    read_end, write_end = os.pipe() if owned else (None, None)
    if read_end is not None:
        command += ["--owner-fd", str(read_end)]
    try:
        with paths.log("supervisor").open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=REPOSITORY,
                env={**base_environ(), "PYTHONPATH": SOURCES},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=() if read_end is None else (read_end,),
            )
    finally:
        if read_end is not None:
            os.close(read_end)
    return process, write_end


def wait_running(
    paths: ClusterPaths, process: SupervisorProcess, timeout_seconds: float
) -> ClusterStatus:
    """Wait until every component is ready. Raises ClusterError with the reason."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        ended = process.poll() is not None
        status = read_status(paths)
        if status is not None and status.phase == "running":
            return status
        if ended:
            raise ClusterError(f"the cluster did not start: {_why(paths, status)}")
        if time.monotonic() > deadline:
            process.terminate()
            raise ClusterError(f"the cluster was not running after {timeout_seconds:.0f} s")
        time.sleep(_POLL_SECONDS)


def stop(paths: ClusterPaths, supervisor: ProcessId | None) -> None:
    """Stop a cluster in order; after a minute, by force. Does nothing where none runs.

    Raises ClusterError when processes of it are left even then."""
    running = [supervisor] if supervisor else []
    send(supervisor, signal.SIGTERM)
    if not wait_gone(running, _STOP_SECONDS):
        send(supervisor, signal.SIGKILL)
        wait_gone(running, _KILL_SECONDS)
    end_recorded(paths)
    status = read_status(paths)
    left = [each.pid for each in status.processes() if alive(each)] if status else []
    if left:
        raise ClusterError(f"processes of the cluster in {paths.root} are left: {left}")


def _why(paths: ClusterPaths, status: ClusterStatus | None) -> str:
    if status is not None and status.reason:
        return status.reason
    return tail(paths.log("supervisor"), 5) or "its supervisor wrote no log"


def tail(log: Path, lines: int) -> str:
    """Return the last lines of a log file, however long it is; empty where there is none."""
    try:
        with log.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - 400 * lines))
            text = stream.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
