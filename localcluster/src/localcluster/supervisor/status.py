"""What a supervisor writes: the status of its components, and a line on each event."""

import signal
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import msgspec

from localcluster.paths import ClusterPaths
from localcluster.processes import ProcessId, alive, send, wait_gone
from localcluster.storage import read_json, write_json

_END_SECONDS = 10.0


@dataclass(frozen=True)
class ComponentStatus:
    """One component as in the status file."""

    phase: str
    process: ProcessId | None = None
    restarts: int = 0
    last_exit: str | None = None

    @property
    def ready(self) -> bool:
        """Whether it runs and its probe said yes."""
        return self.phase == "ready"


@dataclass(frozen=True)
class ClusterStatus:
    """The status file. `phase`: starting, running, stopping, stopped or failed."""

    phase: str = ""
    supervisor: ProcessId | None = None
    reason: str = ""
    components: Mapping[str, ComponentStatus] = field(default_factory=dict)

    @property
    def supervised(self) -> bool:
        """Whether the supervisor that wrote the status still lives."""
        return alive(self.supervisor)

    def processes(self) -> Iterable[ProcessId]:
        """Every process that ran when the status was written, the supervisor aside."""
        return [each.process for each in self.components.values() if each.process is not None]


def read_status(paths: ClusterPaths) -> ClusterStatus | None:
    """Return the last status of the cluster in this state folder; None where there is none."""
    body = read_json(paths.status)
    try:
        return None if body is None else msgspec.convert(body, ClusterStatus)
    except msgspec.ValidationError:
        return None


def end_recorded(paths: ClusterPaths) -> None:
    """End what a killed run may have left: exactly the recorded processes, nothing by name."""
    status = read_status(paths)
    processes = list(status.processes()) if status else []
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            send(process, number)
        if wait_gone(processes, _END_SECONDS):
            return


class StatusWriter:
    """Writes the status and prints events. Every write replaces the status as a whole.

    What cannot be written, on a full disk, is left out: the cluster goes on."""

    def __init__(self, paths: ClusterPaths, supervisor: ProcessId | None) -> None:
        self._paths = paths
        self._status = ClusterStatus("starting", supervisor)

    def component(self, name: str, status: ComponentStatus) -> None:
        """Record the state of a component."""
        self._write(replace(self._status, components={**self._status.components, name: status}))

    def cluster(self, phase: str, reason: str = "") -> None:
        """Record the phase of the whole cluster."""
        self.event("cluster", phase, reason)
        self._write(replace(self._status, phase=phase, reason=reason))

    def event(self, subject: str, what: str, detail: str = "") -> None:
        """Print what happened, with the time of day in UTC; the supervisor's log keeps it."""
        instant = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        with suppress(OSError):
            print(f"{instant} {subject}: {what}{': ' if detail else ''}{detail}", flush=True)

    def _write(self, status: ClusterStatus) -> None:
        self._status = status
        with suppress(OSError):
            write_json(self._paths.status, msgspec.to_builtins(status))
