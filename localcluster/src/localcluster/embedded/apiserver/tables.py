"""What `kubectl get` prints: the columns of custom resources, and whether nodes are ready.

Other kinds show their name and age, as kubectl prints objects that come without a table."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from localcluster.embedded.apiserver.kinds import NODES, Json, Resource
from localcluster.embedded.apiserver.pods import is_ready

ACCEPTED: Final = b"as=Table"
"""Part of the Accept header of a request for a table."""
_SHOWN: Final = ("name", "type", "priority")
_AGE: Final = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def table(resource: Resource, bodies: Iterable[Json], metadata: Json, now: datetime) -> Json:
    """Return objects as a Table, each row with the object's metadata."""
    computed = {"Status": _node_status} if resource is NODES else {}
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


def _node_status(body: Json) -> str:
    cordoned = ",SchedulingDisabled" if (body.get("spec") or {}).get("unschedulable") else ""
    return f"{'Ready' if is_ready(body) else 'NotReady'}{cordoned}"
