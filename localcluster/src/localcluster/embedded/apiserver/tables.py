"""Tables for `kubectl get`: pods, nodes, custom resources.

Other kinds show their name and age. A column is a heading, a priority (1 for what only `-o wide`
shows) and a function of an object and the present time."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeAlias

from localcluster.embedded.apiserver.kinds import Json, Resource
from localcluster.embedded.apiserver.metadata import is_terminating
from localcluster.embedded.apiserver.pods import is_ready

ACCEPTED: Final = b"as=Table"
"""Part of the Accept header of a request for a table."""

Cell: TypeAlias = Callable[[Json, datetime], Any]
Column: TypeAlias = tuple[str, str, int, Cell]


def table(resource: Resource, bodies: Iterable[Json], metadata: Json, now: datetime) -> Json:
    """Return objects as a Table, each row with the object's metadata."""
    columns = _columns(resource)
    head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [
            {"name": heading, "type": kind, "priority": priority}
            for heading, kind, priority, _ in columns
        ],
        "rows": [
            {
                "cells": [cell(each, now) for *_, cell in columns],
                "object": {**head, "metadata": each["metadata"]},
            }
            for each in bodies
        ],
    }


def _columns(resource: Resource) -> tuple[Column, ...]:
    if not resource.columns:
        columns = () if resource.custom else _BUILT_IN.get(resource.plural, ())
        return (_NAME, *(columns or (_AGE,)))
    defined = (
        (each["name"], each["type"], each.get("priority", 0), partial(_defined_cell, each))
        for each in resource.columns
    )
    return (_NAME, *defined)


def _defined_cell(column: Mapping[str, Any], body: Json, now: datetime) -> Any:
    value = at_path(body, column["jsonPath"])
    return age(value, now) if column["type"] == "date" and value else value


def at_path(body: Any, path: str) -> Any:
    """Return what a path like `.status.conditions[-1:].type` leads to, None where nothing is."""
    for part in path.strip(".").split("."):
        key, _, index = part.partition("[")
        body = body.get(key) if isinstance(body, dict) else None
        if index:
            place = int(index.rstrip("]").rstrip(":"))
            fits = isinstance(body, list) and -len(body) <= place < len(body)
            body = body[place] if fits else None
    return body


def age(text: str | None, now: datetime) -> str:
    """Return how long ago an instant was, as kubectl prints it."""
    if not text:
        return "<unknown>"
    seconds = max(0, int((now - datetime.fromisoformat(text)).total_seconds()))
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 10:
        return f"{minutes}m{f'{seconds % 60}s' if seconds % 60 else ''}"
    return f"{minutes}m" if minutes < 180 else f"{hours}h" if hours < 48 else f"{days}d"


def _field(path: str, missing: Any = "<none>") -> Cell:
    def cell(body: Json, _now: datetime) -> Any:
        found = at_path(body, path)
        return missing if found is None else found

    return cell


def _pod_ready(body: Json, _now: datetime) -> Any:
    statuses = at_path(body, "status.containerStatuses") or ()
    ready = sum(bool(each.get("ready")) for each in statuses)
    return f"{ready}/{len(at_path(body, 'spec.containers') or ())}"


def _pod_status(body: Json, _now: datetime) -> Any:
    if is_terminating(body):
        return "Terminating"
    statuses = at_path(body, "status.containerStatuses") or ()
    states = [each.get("state") or {} for each in statuses]
    ended = (each.get("waiting") or each.get("terminated") or {} for each in states)
    reasons = filter(None, (each.get("reason") for each in ended))
    return next(reasons, at_path(body, "status.reason") or at_path(body, "status.phase"))


def _pod_restarts(body: Json, _now: datetime) -> Any:
    statuses = at_path(body, "status.containerStatuses") or ()
    return str(sum(each.get("restartCount", 0) for each in statuses))


def _node_status(body: Json, _now: datetime) -> Any:
    cordoned = ",SchedulingDisabled" if at_path(body, "spec.unschedulable") else ""
    return f"{'Ready' if is_ready(body) else 'NotReady'}{cordoned}"


_NAME: Final[Column] = ("Name", "string", 0, lambda body, _now: body["metadata"].get("name", ""))
_AGE: Final[Column] = (
    *("Age", "string", 0),
    lambda body, now: age(body["metadata"].get("creationTimestamp"), now),
)
_BUILT_IN: Final[Mapping[str, tuple[Column, ...]]] = {
    "pods": (
        ("Ready", "string", 0, _pod_ready),
        ("Status", "string", 0, _pod_status),
        ("Restarts", "string", 0, _pod_restarts),
        _AGE,
        ("Node", "string", 1, _field("spec.nodeName")),
    ),
    "nodes": (
        ("Status", "string", 0, _node_status),
        _AGE,
        ("Version", "string", 0, _field("status.nodeInfo.kubeletVersion", "")),
    ),
}
