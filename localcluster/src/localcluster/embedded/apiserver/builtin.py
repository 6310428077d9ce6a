"""Defaults and checks of the built-in kinds other than pods."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from localcluster.embedded.apiserver import definitions, pods
from localcluster.embedded.apiserver.errors import FieldError, StatusError, invalid_value, required
from localcluster.embedded.apiserver.kinds import Json, Resource

NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_MICRO_TIME: Final = re.compile(r"[-\d]{10}T[:\d]{8}\.\d{6}(Z|[+-]\d\d:\d\d)")
_NODE_INFO: Final = (
    *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion"),
    *("kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture"),
)


def check_types(resource: Resource, body: Json, code: int) -> None:
    """Refuse values that the real server's types refuse and that a client gets wrong easily.

    These are values of labels, annotations and data that are no strings, and Lease times without
    microseconds. Raises StatusError."""
    metadata = body.get("metadata") or {}
    texts = {key: metadata.get(key) for key in ("labels", "annotations")}
    texts.update({} if resource.custom else {"data": body.get("data")})
    for field, values in texts.items():
        wrong = [key for key, value in _pairs(values) if not isinstance(value, str | None)]
        if wrong:
            place = f"{resource.kind}.{field}.{wrong[0]} of type string"
            why = f"json: cannot unmarshal number into Go struct field {place}"
            raise _unreadable(resource, code, why)
    if resource.plural == "leases":
        for key in ("acquireTime", "renewTime"):
            value = _spec(body).get(key)
            if value is not None and not _MICRO_TIME.fullmatch(value):
                layout = '"2006-01-02T15:04:05.000000Z07:00"'
                raise _unreadable(resource, code, f'parsing time "{value}" as {layout}: no match')


def _pairs(values: Json | None) -> Iterable[tuple[str, object]]:
    return () if values is None else values.items()


def _unreadable(resource: Resource, code: int, why: str) -> StatusError:
    named = f'{resource.kind} in version "{resource.version}"'
    reason = "BadRequest" if code == 400 else "Invalid"
    return StatusError(code, reason, f"{named} cannot be handled as a {resource.kind}: {why}")


def with_defaults(resource: Resource, body: Json) -> Json:
    """Return an object of a built-in kind with its defaults."""
    default = _DEFAULTS.get(resource.plural)
    return default(body) if default else body


def field_errors(resource: Resource, body: Json, old: Json | None) -> Iterator[FieldError]:
    """Yield what is wrong with an object of any kind."""
    check = None if resource.custom else _CHECKS.get(resource.plural)
    if check:
        yield from check(body, old)


def _spec(body: Json) -> Json:
    return body.get("spec") or {}


def _namespace(body: Json) -> Json:
    metadata = body["metadata"]
    labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}
    changed = {"metadata": {**metadata, "labels": labels}, "spec": {"finalizers": ["kubernetes"]}}
    return {**body, **changed, "status": {"phase": "Active"}}


def _node(body: Json) -> Json:
    # The taint stays until the controller sees the node ready.
    spec = dict(_spec(body))
    taints = spec.get("taints") or []
    if not any(each.get("key") == NOT_READY["key"] for each in taints):
        spec["taints"] = [*taints, dict(NOT_READY)]
    endpoints = {"kubeletEndpoint": {"Port": 0}}
    unknown = {"daemonEndpoints": endpoints, "nodeInfo": dict.fromkeys(_NODE_INFO, "")}
    return {**body, "spec": spec, "status": {**unknown, **(body.get("status") or {})}}


def _service(body: Json) -> Json:
    spec = {"type": "ClusterIP", **_spec(body)}
    ports = spec.get("ports") or ()
    spec["ports"] = [{"protocol": "TCP", "targetPort": each.get("port"), **each} for each in ports]
    return {**body, "spec": spec, "status": {"loadBalancer": {}}}


def _claim(body: Json) -> Json:
    spec = {"volumeMode": "Filesystem", **_spec(body)}
    return {**body, "spec": spec, "status": {"phase": "Pending"}}


def _volume(body: Json) -> Json:
    spec = {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem", **_spec(body)}
    return {**body, "spec": spec, "status": {"phase": "Available"}}


def _deployment(body: Json) -> Json:
    shares = {"maxUnavailable": "25%", "maxSurge": "25%"}
    strategy = {"type": "RollingUpdate", "rollingUpdate": shares}
    return _with_template(body, {"strategy": strategy}, {})


def _replica_set(body: Json) -> Json:
    return _with_template(body, {}, {"replicas": 0})


def _with_template(body: Json, defaults: Json, status: Json) -> Json:
    spec = {"replicas": 1, **defaults, **_spec(body)}
    template = spec.get("template") or {}
    filled = {**template, "spec": pods.spec_with_defaults(template.get("spec") or {})}
    return {**body, "spec": {**spec, "template": filled}, "status": status}


_DEFAULTS: Final[Mapping[str, Callable[[Json], Json]]] = {
    "namespaces": _namespace,
    "nodes": _node,
    "pods": pods.with_defaults,
    "services": _service,
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _volume,
    "deployments": _deployment,
    "replicasets": _replica_set,
    "customresourcedefinitions": definitions.with_defaults,
}


def _deployment_errors(body: Json, old: Json | None) -> Iterator[FieldError]:
    spec = _spec(body)
    wanted = (spec.get("selector") or {}).get("matchLabels") or {}
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not wanted:
        yield required("spec.selector")
    elif any(labels.get(key) != value for key, value in wanted.items()):
        why = "`selector` does not match template `labels`"
        yield invalid_value("spec.template.metadata.labels", labels, why)
    yield from pods.spec_errors(template.get("spec") or {}, "spec.template.spec")
    if old is not None and spec.get("selector") != old["spec"].get("selector"):
        yield invalid_value("spec.selector", spec.get("selector"), "field is immutable")


def _event_errors(body: Json, _old: Json | None) -> Iterator[FieldError]:
    about = (body.get("involvedObject") or {}).get("namespace") or ""
    own = body["metadata"].get("namespace") or ""
    if about != own and (about or own != "default"):
        yield invalid_value("involvedObject.namespace", about, "does not match event.namespace")


_CHECKS: Final[Mapping[str, Callable[[Json, Json | None], Iterator[FieldError]]]] = {
    "pods": pods.field_errors,
    "deployments": _deployment_errors,
    "replicasets": _deployment_errors,
    "events": _event_errors,
    "customresourcedefinitions": definitions.field_errors,
}
