"""What kubectl prints of the built-in kinds: the real server's columns and words, cell by cell."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeAlias

from localcluster.embedded.apiserver.kinds import Json

Cell: TypeAlias = Callable[[Json, datetime], Any]
Column: TypeAlias = tuple[str, str, int, Cell]
"""Heading, type, priority (1 for what only `-o wide` shows), and what stands there of an object at
a time."""

_NONE = "<none>"
_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def at_path(body: Any, path: str) -> Any:
    """Return what a path like `.status.conditions[-1:].type` leads to; None where it leads
    nowhere."""
    for part in path.strip(".").split("."):
        key, _, index = part.partition("[")
        body = body.get(key) if isinstance(body, dict) else None
        if index:
            place = int(index.rstrip("]").rstrip(":"))
            fits = isinstance(body, list) and -len(body) <= place < len(body)
            body = body[place] if fits else None
    return body


def ago(text: str | None, now: datetime) -> str:
    """Return how long ago an instant was, as kubectl says it."""
    if not text:
        return "<unknown>"
    seconds = max(0, int((now - datetime.fromisoformat(text)).total_seconds()))
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 10:
        return f"{minutes}m{f'{seconds % 60}s' if seconds % 60 else ''}"
    return f"{minutes}m" if minutes < 180 else f"{hours}h" if hours < 48 else f"{days}d"


def name(body: Json, _now: datetime) -> Any:
    """Show the name of an object."""
    return body["metadata"].get("name", "")


def age(body: Json, now: datetime) -> Any:
    """Show for how long an object has been there."""
    return ago(body["metadata"].get("creationTimestamp"), now)


def _field(path: str, missing: Any = _NONE) -> Cell:
    def cell(body: Json, _now: datetime) -> Any:
        found = at_path(body, path)
        return missing if found is None else found

    return cell


def _count(path: str) -> Cell:
    return lambda body, _now: len(at_path(body, path) or ())


def _conditions(body: Json) -> Mapping[str, str]:
    return {
        each["type"]: each["status"] for each in (body.get("status") or {}).get("conditions") or ()
    }


def _selector(path: str) -> Cell:
    return lambda body, _now: (
        ",".join(f"{key}={value}" for key, value in sorted((at_path(body, path) or {}).items()))
        or _NONE
    )


def _containers(field: str) -> Cell:
    def cell(body: Json, _now: datetime) -> Any:
        return ",".join(
            each.get(field, "") for each in at_path(body, "spec.template.spec.containers") or ()
        )

    return cell


def _pod_ready(body: Json, _now: datetime) -> Any:
    statuses = (body.get("status") or {}).get("containerStatuses") or ()
    containers = at_path(body, "spec.containers") or ()
    return f"{sum(bool(each.get('ready')) for each in statuses)}/{len(containers)}"


def _pod_status(body: Json, _now: datetime) -> Any:
    status = body.get("status") or {}
    if body["metadata"].get("deletionTimestamp"):
        return "Terminating"
    states = [each.get("state") or {} for each in status.get("containerStatuses") or ()]
    reasons = [
        (state.get("waiting") or state.get("terminated") or {}).get("reason") for state in states
    ]
    gated = "SchedulingGated" if at_path(body, "spec.schedulingGates") else None
    return next(filter(None, reasons), status.get("reason") or gated or status.get("phase") or "")


def _pod_restarts(body: Json, now: datetime) -> Any:
    statuses = (body.get("status") or {}).get("containerStatuses") or ()
    count = sum(each.get("restartCount", 0) for each in statuses)
    ends = filter(None, (at_path(each, "lastState.terminated.finishedAt") for each in statuses))
    last = max(ends, default=None)
    return f"{count} ({ago(last, now)} ago)" if count and last else str(count)


def _node_status(body: Json, _now: datetime) -> Any:
    ready = _conditions(body).get("Ready") == "True"
    cordoned = ",SchedulingDisabled" if (body.get("spec") or {}).get("unschedulable") else ""
    return f"{'Ready' if ready else 'NotReady'}{cordoned}"


def _node_roles(body: Json, _now: datetime) -> Any:
    begin = "node-role.kubernetes.io/"
    roles = [
        key.removeprefix(begin)
        for key in body["metadata"].get("labels") or {}
        if key.startswith(begin)
    ]
    return ",".join(sorted(roles)) or _NONE


def _node_address(kind: str) -> Cell:
    def cell(body: Json, _now: datetime) -> Any:
        addresses = (body.get("status") or {}).get("addresses") or ()
        return next((each["address"] for each in addresses if each["type"] == kind), _NONE)

    return cell


def _node_kernel(body: Json, _now: datetime) -> Any:
    info = at_path(body, "status.nodeInfo") or {}
    kernel, architecture = info.get("kernelVersion"), info.get("architecture")
    return f"{kernel} ({architecture})" if kernel and architecture else kernel or "<unknown>"


def _deployment_ready(body: Json, _now: datetime) -> Any:
    return f"{at_path(body, 'status.readyReplicas') or 0}/{at_path(body, 'spec.replicas') or 0}"


def _service_ports(body: Json, _now: datetime) -> Any:
    ports = at_path(body, "spec.ports") or ()
    return ",".join(f"{each.get('port')}/{each.get('protocol', 'TCP')}" for each in ports) or _NONE


def _event_object(body: Json, _now: datetime) -> Any:
    about = body.get("involvedObject") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _event_seen(first: bool) -> Cell:
    fields = (
        ("firstTimestamp", "eventTime")
        if first
        else ("lastTimestamp", "eventTime", "firstTimestamp")
    )
    return lambda body, now: ago(next(filter(None, (body.get(each) for each in fields)), None), now)


def _event_source(body: Json, _now: datetime) -> Any:
    source = body.get("source") or {}
    words = (source.get("component") or body.get("reportingComponent"), source.get("host"))
    return ", ".join(filter(None, words))


def _modes(path: str) -> Cell:
    return lambda body, _now: ",".join(_MODES.get(each, each) for each in at_path(body, path) or ())


def _claim_of(body: Json, _now: datetime) -> Any:
    holder = at_path(body, "spec.claimRef") or {}
    return f"{holder.get('namespace')}/{holder.get('name')}" if holder else ""


def _words(columns: Iterable[tuple[str, Cell] | tuple[str, Cell, int]]) -> tuple[Column, ...]:
    """Return columns of words, with the name before them."""
    shown = ((each[0], "string", each[2] if len(each) == 3 else 0, each[1]) for each in columns)
    return (("Name", "string", 0, name), *shown)


_AGE = ("Age", age)
_TEMPLATE = (
    ("Containers", _containers("name"), 1),
    ("Images", _containers("image"), 1),
    ("Selector", _selector("spec.selector.matchLabels"), 1),
)
_CREATED: tuple[Column, ...] = (
    ("Name", "string", 0, name),
    ("Created At", "date", 0, _field("metadata.creationTimestamp")),
)
NAME_AND_AGE = _words([_AGE])

BUILT_IN: Mapping[str, tuple[Column, ...]] = {
    "pods": _words(
        [
            ("Ready", _pod_ready),
            ("Status", _pod_status),
            ("Restarts", _pod_restarts),
            _AGE,
            ("IP", _field("status.podIP"), 1),
            ("Node", _field("spec.nodeName"), 1),
            ("Nominated Node", _field("status.nominatedNodeName"), 1),
            ("Readiness Gates", lambda _body, _now: _NONE, 1),
        ]
    ),
    "nodes": _words(
        [
            ("Status", _node_status),
            ("Roles", _node_roles),
            _AGE,
            ("Version", _field("status.nodeInfo.kubeletVersion", "")),
            ("Internal-IP", _node_address("InternalIP"), 1),
            ("External-IP", _node_address("ExternalIP"), 1),
            ("OS-Image", _field("status.nodeInfo.osImage", "<unknown>"), 1),
            ("Kernel-Version", _node_kernel, 1),
            (
                "Container-Runtime",
                _field("status.nodeInfo.containerRuntimeVersion", "<unknown>"),
                1,
            ),
        ]
    ),
    "namespaces": _words([("Status", _field("status.phase")), _AGE]),
    "configmaps": _words([("Data", _count("data")), _AGE]),
    "secrets": _words([("Type", _field("type", "")), ("Data", _count("data")), _AGE]),
    "services": _words(
        [
            ("Type", _field("spec.type", "ClusterIP")),
            ("Cluster-IP", _field("spec.clusterIP")),
            ("External-IP", _field("spec.externalName")),
            ("Port(s)", _service_ports),
            _AGE,
            ("Selector", _selector("spec.selector"), 1),
        ]
    ),
    "deployments": _words(
        [
            ("Ready", _deployment_ready),
            ("Up-to-date", _field("status.updatedReplicas", 0)),
            ("Available", _field("status.availableReplicas", 0)),
            _AGE,
            *_TEMPLATE,
        ]
    ),
    "replicasets": (
        ("Name", "string", 0, name),
        ("Desired", "integer", 0, _field("spec.replicas", 0)),
        ("Current", "integer", 0, _field("status.replicas", 0)),
        ("Ready", "integer", 0, _field("status.readyReplicas", 0)),
        *_words([_AGE, *_TEMPLATE])[1:],
    ),
    "priorityclasses": (
        ("Name", "string", 0, name),
        ("Value", "integer", 0, _field("value", 0)),
        ("Global-Default", "boolean", 0, _field("globalDefault", missing=False)),
        ("Age", "string", 0, age),
        ("PreemptionPolicy", "string", 0, _field("preemptionPolicy", "PreemptLowerPriority")),
    ),
    "leases": _words([("Holder", _field("spec.holderIdentity", "")), _AGE]),
    "persistentvolumes": _words(
        [
            ("Capacity", _field("spec.capacity.storage", "")),
            ("Access Modes", _modes("spec.accessModes")),
            ("Reclaim Policy", _field("spec.persistentVolumeReclaimPolicy", "")),
            ("Status", _field("status.phase", "")),
            ("Claim", _claim_of),
            ("StorageClass", _field("spec.storageClassName", "")),
            ("VolumeAttributesClass", _field("spec.volumeAttributesClassName", "<unset>")),
            ("Reason", _field("status.reason", "")),
            _AGE,
            ("VolumeMode", _field("spec.volumeMode", "<unset>"), 1),
        ]
    ),
    "persistentvolumeclaims": _words(
        [
            ("Status", _field("status.phase", "")),
            ("Volume", _field("spec.volumeName", "")),
            ("Capacity", _field("status.capacity.storage", "")),
            ("Access Modes", _modes("status.accessModes")),
            ("StorageClass", _field("spec.storageClassName", "")),
            ("VolumeAttributesClass", _field("spec.volumeAttributesClassName", "<unset>")),
            _AGE,
            ("VolumeMode", _field("spec.volumeMode", "<unset>"), 1),
        ]
    ),
    "events": (
        *_words(
            [
                ("Last Seen", _event_seen(first=False)),
                ("Type", _field("type", "")),
                ("Reason", _field("reason", "")),
                ("Object", _event_object),
                ("Subobject", _field("involvedObject.fieldPath", ""), 1),
                ("Source", _event_source, 1),
                ("Message", _field("message", "")),
                ("First Seen", _event_seen(first=True), 1),
                ("Count", _field("count", 1), 1),
            ]
        )[1:],
        ("Name", "string", 1, name),
    ),
    "customresourcedefinitions": _CREATED,
    **dict.fromkeys(("roles", "clusterroles"), _CREATED),
}
