"""What `kubectl get` prints: the columns of custom resources, and a few of pods and nodes.

Other kinds show their name and age, as kubectl prints objects that come without a table."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from localcluster.embedded.apiserver.kinds import Json, Resource
from localcluster.embedded.apiserver.metadata import is_terminating
from localcluster.embedded.apiserver.pods import is_ready

ACCEPTED: Final = b"as=Table"
"""Part of the Accept header of a request for a table."""
_SHOWN: Final = ("name", "type", "priority")
_AGE: Final = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def table(resource: Resource, bodies: Iterable[Json], metadata: Json, now: datetime) -> Json:
    """Return objects as a Table, each row with the object's metadata."""
    computed = _COMPUTED.get(resource.store_key, {})
    columns = resource.columns or (_AGE,)
    names: list[Json] = [{"name": name, "type": "string"} for name in ("Name", *computed)]
    names += [{key: each[key] for key in _SHOWN if key in each} for each in columns]
    head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    rows = [
        {
            "cells": [
                each["metadata"].get("name", ""),
                *(cell(each) for cell in computed.values()),
                *(_cell(column, each, now) for column in columns),
            ],
            "object": {**head, "metadata": each["metadata"]},
        }
        for each in bodies
    ]
    about = [{"priority": 0, **each} for each in names]
    whole = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    return {**whole, "columnDefinitions": about, "rows": rows}


def _cell(column: Mapping[str, Any], body: Json, now: datetime) -> Any:
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


def age(text: str, now: datetime) -> str:
    """Return how long ago an instant was, in the largest unit of which there are two."""
    seconds = max(0, int((now - datetime.fromisoformat(text)).total_seconds()))
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def _statuses(body: Json) -> list[Json]:
    return at_path(body, "status.containerStatuses") or []


def _ready(body: Json) -> str:
    ready = sum(bool(each.get("ready")) for each in _statuses(body))
    return f"{ready}/{len(body.get('spec', {}).get('containers') or ())}"


def _status(body: Json) -> Any:
    if is_terminating(body):
        return "Terminating"
    states = (each.get("state") or {} for each in _statuses(body))
    ended = (each.get("waiting") or each.get("terminated") or {} for each in states)
    reasons = (each["reason"] for each in ended if each.get("reason"))
    return next(reasons, at_path(body, "status.reason") or at_path(body, "status.phase"))


def _restarts(body: Json) -> str:
    return str(sum(each.get("restartCount", 0) for each in _statuses(body)))


def _node_status(body: Json) -> str:
    cordoned = ",SchedulingDisabled" if (body.get("spec") or {}).get("unschedulable") else ""
    return f"{'Ready' if is_ready(body) else 'NotReady'}{cordoned}"


_COMPUTED: Final[Mapping[str, Mapping[str, Callable[[Json], Any]]]] = {
    "pods": {"Ready": _ready, "Status": _status, "Restarts": _restarts},
    "nodes": {"Status": _node_status},
}
