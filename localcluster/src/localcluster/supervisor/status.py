"""What a supervisor tells the world through files: the status of its components and what happened
to them."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from localcluster.paths import ClusterPaths
from localcluster.processes import ProcessId, alive
from localcluster.storage import read_json, write_json
from localcluster.supervisor.policy import Life


@dataclass(frozen=True)
class ComponentStatus:
    """One component as the status file tells it."""

    name: str
    phase: str
    process: ProcessId | None
    restarts: int
    last_exit: str | None

    @property
    def ready(self) -> bool:
        """Whether it runs and its probe said yes."""
        return self.phase == "ready"


@dataclass(frozen=True)
class ClusterStatus:
    """A cluster as its status file tells it. `phase`: starting, running, stopping, stopped or
    failed."""

    phase: str
    supervisor: ProcessId | None
    reason: str = ""
    components: Mapping[str, ComponentStatus] = field(default_factory=dict)

    @property
    def supervised(self) -> bool:
        """Whether the supervisor that wrote the status still lives."""
        return alive(self.supervisor)

    def processes(self) -> Iterable[ProcessId]:
        """Give every process that was running when the status was written, the supervisor aside."""
        return [each.process for each in self.components.values() if each.process is not None]


def read_status(paths: ClusterPaths) -> ClusterStatus | None:
    """Return the last status of the cluster in this state folder; None where there is none."""
    body = read_json(paths.status)
    if body is None:
        return None
    components = {name: _component(name, each) for name, each in body.get("components", {}).items()}
    supervisor = ProcessId.from_json(body.get("supervisor"))
    return ClusterStatus(
        str(body.get("phase", "")), supervisor, str(body.get("reason", "")), components
    )


def read_events(paths: ClusterPaths, last: int) -> list[dict[str, Any]]:
    """Return the last events, oldest first. A line that was cut, by a full disk or a kill, is left
    out."""
    try:
        lines = paths.events.read_text().splitlines()
    except FileNotFoundError:
        return []
    return [each for line in lines[-last:] if (each := _parsed(line)) is not None]


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


class Records:
    """Writes status and events. Every write replaces the status as a whole.

    What cannot be written, on a full disk, is left out: a cluster that runs must not end for want
    of a line about it."""

    def __init__(self, paths: ClusterPaths, supervisor: ProcessId | None) -> None:
        self._paths = paths
        self._supervisor = supervisor
        self._phase = "starting"
        self._reason = ""
        self._components: dict[str, dict[str, Any]] = {}

    def component(self, name: str, life: Life, process: ProcessId | None) -> None:
        """Note where a component is in its life."""
        self._components[name] = {
            "phase": life.phase.value,
            "process": process.as_json() if process else None,
            "restarts": life.restarts,
            "last_exit": life.last_exit,
        }
        self._write()

    def cluster(self, phase: str, reason: str = "") -> None:
        """Note where the cluster as a whole is."""
        self._phase, self._reason = phase, reason
        self.event("cluster", phase, reason)
        self._write()

    def event(self, subject: str, what: str, detail: str = "") -> None:
        """Append one line to the events, with the time of day in UTC."""
        instant = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"at": instant, "subject": subject, "event": what, "detail": detail}
        with suppress(OSError), self._paths.events.open("a") as stream:
            stream.write(json.dumps(line) + "\n")
        with suppress(OSError):
            print(f"{instant} {subject}: {what}{': ' if detail else ''}{detail}", flush=True)

    def _write(self) -> None:
        body = {
            "phase": self._phase,
            "reason": self._reason,
            "supervisor": self._supervisor.as_json() if self._supervisor else None,
            "components": self._components,
        }
        with suppress(OSError):
            write_json(self._paths.status, body)


def _component(name: str, body: Mapping[str, Any]) -> ComponentStatus:
    return ComponentStatus(
        name,
        str(body.get("phase", "")),
        ProcessId.from_json(body.get("process")),
        int(body.get("restarts", 0)),
        body.get("last_exit"),
    )
