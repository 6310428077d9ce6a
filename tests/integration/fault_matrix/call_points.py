"""The API calls that the autoscaler makes for a job, as points at which a fault can happen.

A point is a kind of call after a kind of write: "the list of the job's pods after the suspension".
How often a call is repeated while the autoscaler waits depends on the machine; which calls follow
which write does not."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from localcluster.faults.faults import Call, Calls
from localcluster.faults.traffic import ServedCall
from tests.harness.faults.fault_cases import RESIZES, RESUMES, SUSPENDS

_NOT_OF_A_JOB = re.compile(r"/leases/|watch=true|[?&]limit=\d+$")
"""Leases, watches and the lists before them; tests/e2e/leader and tests/e2e/faults have these."""

_ONCE = re.compile(r"/workloadprofiles$")
"""A workload's profile is created by its first job alone, in whatever course that is."""

_REMEMBERED = Calls("PATCH", "/leases/", "optimus.dl/policy-memory")
"""What a policy by which jobs take turns remembers, stored before anything is done."""

_LOG = re.compile(r"/pods/[^/]+/log")


@dataclass(frozen=True)
class CallPoint:
    """The first such call after the first such write; `after` None: since the rescale was asked
    for."""

    call: Calls
    after: Calls | None = None

    def __str__(self) -> str:
        return _name(self.call) + (f" after {_name(self.after)}" if self.after else "")

    @property
    def is_write(self) -> bool:
        """Whether the call changes something."""
        return self.call.method != "GET"


def call_points(served: Iterable[ServedCall]) -> tuple[CallPoint, ...]:
    """Return each point of an undisturbed course once, in order."""
    return tuple(dict.fromkeys(_points(each.call for each in served)))


def _points(calls: Iterable[Call]) -> Iterator[CallPoint]:
    after: Calls | None = None
    for call in calls:
        kind = _kind(call)
        if kind is None:
            continue
        yield CallPoint(kind, after)
        if kind.method == "PATCH":
            after = kind


def _kind(call: Call) -> Calls | None:
    """Return the calls that this one is among; None: it is not made for one job."""
    path = call.target.partition("?")[0]
    is_stored = _REMEMBERED.match(call)
    if not is_stored and _NOT_OF_A_JOB.search(call.target) and "labelSelector" not in call.target:
        return None
    if _LOG.search(path):
        return Calls("GET", _LOG.pattern)
    if call.method == "POST" and _ONCE.search(path):
        return None
    if call.method == "GET":
        return Calls("GET", re.escape(path) + r"($|\?)")
    if "/events" in path:
        return Calls(call.method, "/events", _field("reason", json.loads(call.body)["reason"]))
    if "/tfjobs/" in path or "/pytorchjobs/" in path:
        return next((each for each in (SUSPENDS, RESUMES, RESIZES) if each.match(call)), None)
    if path.endswith("/status"):
        (status,) = (each["value"] for each in json.loads(call.body) if each["path"] == "/status")
        # A job that has only just come may have no phase yet.
        phase = _field("phase", status["phase"]) if "phase" in status else '"path": ?"/status"'
        return Calls(call.method, "/trainingprofiles/", phase)
    return _REMEMBERED if is_stored else Calls(call.method, re.escape(path))


def _field(name: str, value: str) -> str:
    return rf'"{name}": ?"{value}"'


def _name(calls: Calls) -> str:
    shown = f"{calls.method} {calls.target} {calls.body}"
    return shown.replace("\\", "").replace(" ?", " ").replace("($|?)", "").strip()
