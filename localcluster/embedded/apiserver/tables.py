"""Lists as the tables that kubectl prints: the columns of a definition, or those that people know of built-in kinds."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, TypeAlias

from localcluster.embedded.apiserver.kinds import Json, Resource

ASKED: Final = "as=Table"
"""What an Accept header says where a table is wanted."""

Cell: TypeAlias = Callable[[Json, datetime], Any]


def table(resource: Resource, bodies: Iterable[Json], metadata: Json, now: datetime) -> Json:
    """Return objects as a Table."""
    columns = [("Name", "string", 0, _name), *_columns(resource)]
    definitions = [
        {"name": name, "type": kind, "format": "name" if name == "Name" else "", "description": name, "priority": rank}
        for name, kind, rank, _ in columns
    ]
    rows = [{"cells": [cell(each, now) for *_, cell in columns], "object": _partial(each)} for each in bodies]
    head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    return {**head, "columnDefinitions": definitions, "rows": rows}


def _partial(body: Json) -> Json:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": body["metadata"]}


def _columns(resource: Resource) -> list[tuple[str, str, int, Cell]]:
    if not resource.columns:
        known = () if resource.custom else _BUILT_IN.get(resource.plural, ())
        return [*known, ("Age", "string", 0, _age)]
    return [
        (each["name"], "string" if each["type"] == "date" else each["type"], each.get("priority", 0), _said(each))
        for each in resource.columns
    ]


def _said(column: Mapping[str, Any]) -> Cell:
    def cell(body: Json, now: datetime) -> Any:
        value = at_path(body, column["jsonPath"])
        return _since(value, now) if column["type"] == "date" and value else value

    return cell


def at_path(body: Any, path: str) -> Any:
    """Return what a path like `.status.conditions[-1:].type` leads to; None where it leads nowhere."""
    for part in path.strip(".").split("."):
        key, _, index = part.partition("[")
        body = body.get(key) if isinstance(body, dict) else None
        if index:
            place = int(index.rstrip("]").rstrip(":"))
            fits = isinstance(body, list) and -len(body) <= place < len(body)
            body = body[place] if fits else None
    return body


def _name(body: Json, _now: datetime) -> Any:
    return body["metadata"]["name"]


def _age(body: Json, now: datetime) -> Any:
    return _since(body["metadata"]["creationTimestamp"], now)


def _since(text: str, now: datetime) -> str:
    """Return how long ago an instant was, as kubectl says it."""
    seconds = max(0, int((now - datetime.fromisoformat(text)).total_seconds()))
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 10:
        return f"{minutes}m{f'{seconds % 60}s' if seconds % 60 else ''}"
    return f"{minutes}m" if minutes < 180 else f"{hours}h" if hours < 48 else f"{days}d"


def _pod_ready(body: Json, _now: datetime) -> Any:
    statuses = body["status"].get("containerStatuses") or ()
    return f"{sum(bool(each.get('ready')) for each in statuses)}/{len(body['spec']['containers'])}"


def _pod_status(body: Json, _now: datetime) -> Any:
    if body["metadata"].get("deletionTimestamp"):
        return "Terminating"
    states = [each.get("state") or {} for each in body["status"].get("containerStatuses") or ()]
    reasons = [(state.get("waiting") or state.get("terminated") or {}).get("reason") for state in states]
    return next(filter(None, reasons), body["status"].get("reason") or body["status"]["phase"])


def _pod_restarts(body: Json, _now: datetime) -> Any:
    return sum(each.get("restartCount", 0) for each in body["status"].get("containerStatuses") or ())


def _node_status(body: Json, _now: datetime) -> Any:
    conditions = (body.get("status") or {}).get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    cordoned = ",SchedulingDisabled" if (body.get("spec") or {}).get("unschedulable") else ""
    return f"{'Ready' if ready else 'NotReady'}{cordoned}"


def _deployment_ready(body: Json, _now: datetime) -> Any:
    return f"{(body.get('status') or {}).get('readyReplicas', 0)}/{body['spec']['replicas']}"


def _event_object(body: Json, _now: datetime) -> Any:
    about = body["involvedObject"]
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _field(path: str, missing: Any = "<none>") -> Cell:
    def cell(body: Json, _now: datetime) -> Any:
        found = at_path(body, path)
        return missing if found is None else found

    return cell


_BUILT_IN: Mapping[str, tuple[tuple[str, str, int, Cell], ...]] = {
    "pods": (
        ("Ready", "string", 0, _pod_ready),
        ("Status", "string", 0, _pod_status),
        ("Restarts", "integer", 0, _pod_restarts),
        ("IP", "string", 1, _field("status.podIP")),
        ("Node", "string", 1, _field("spec.nodeName")),
        ("Nominated Node", "string", 1, _field("status.nominatedNodeName")),
    ),
    "nodes": (
        ("Status", "string", 0, _node_status),
        ("Version", "string", 0, _field("status.nodeInfo.kubeletVersion")),
    ),
    "namespaces": (("Status", "string", 0, _field("status.phase")),),
    "deployments": (
        ("Ready", "string", 0, _deployment_ready),
        ("Up-to-date", "integer", 0, _field("status.updatedReplicas", 0)),
        ("Available", "integer", 0, _field("status.availableReplicas", 0)),
    ),
    "persistentvolumeclaims": (
        ("Status", "string", 0, _field("status.phase")),
        ("Volume", "string", 0, _field("spec.volumeName", "")),
    ),
    "events": (
        ("Type", "string", 0, _field("type", "")),
        ("Reason", "string", 0, _field("reason", "")),
        ("Object", "string", 0, _event_object),
        ("Message", "string", 0, _field("message", "")),
    ),
}
