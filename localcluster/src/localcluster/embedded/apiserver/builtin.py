"""The built-in kinds other than pods: their defaults, and what CustomResourceDefinitions serve."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from localcluster.embedded.apiserver import pods
from localcluster.embedded.apiserver.kinds import Json, Resource

NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_NODE_INFO: Final = (
    *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion"),
    *("kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture"),
)


def with_defaults(resource: Resource, body: Json) -> Json:
    """Return an object of a built-in kind with its defaults."""
    default = _DEFAULTS.get(resource.plural)
    return default(body) if default else body


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
    spec = {"replicas": 1, "strategy": strategy, **_spec(body)}
    template = spec.get("template") or {}
    filled = {**template, "spec": pods.spec_with_defaults(template.get("spec") or {})}
    return {**body, "spec": {**spec, "template": filled}, "status": {}}


def resources_of(definition: Json) -> Iterator[Resource]:
    """Yield the kinds that a definition serves, one for each version."""
    spec = definition["spec"]
    names = spec["names"]
    for version in spec["versions"]:
        if version.get("served"):
            yield Resource(
                group=spec["group"],
                version=version["name"],
                plural=names["plural"],
                kind=names["kind"],
                namespaced=spec.get("scope", "Namespaced") == "Namespaced",
                short_names=tuple(names.get("shortNames") or ()),
                subresources=("status",) if "status" in (version.get("subresources") or {}) else (),
                schema=version["schema"]["openAPIV3Schema"],
                list_kind=names.get("listKind") or f"{names['kind']}List",
                columns=tuple(version.get("additionalPrinterColumns") or ()),
            )


def established(definition: Json, now: str) -> Json:
    """Return a definition whose status says that it is served."""
    conditions = definition["status"].get("conditions") or []
    for kind, reason, message in (
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ):
        text = {"reason": reason, "message": message, "lastTransitionTime": now}
        conditions = pods.with_condition(conditions, {"type": kind, "status": "True", **text})
    status = {"conditions": conditions, "acceptedNames": definition["spec"]["names"]}
    return {**definition, "status": {**definition["status"], **status}}


def _definition(body: Json) -> Json:
    """Return a new definition with the defaults of its names."""
    spec, kind = body["spec"], body["spec"]["names"]["kind"]
    names = {"singular": kind.lower(), "listKind": f"{kind}List", **spec["names"]}
    stored = [each["name"] for each in spec["versions"] if each.get("storage")]
    return {**body, "spec": {**spec, "names": names}, "status": {"storedVersions": stored}}


_DEFAULTS: Final[Mapping[str, Callable[[Json], Json]]] = {
    "namespaces": _namespace,
    "nodes": _node,
    "pods": pods.with_defaults,
    "services": _service,
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _volume,
    "deployments": _deployment,
    "customresourcedefinitions": _definition,
}
