"""What the API server does to the built-in kinds other than pods: defaults, checks, what an update
may not touch."""

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from localcluster.embedded.apiserver import definitions, pods
from localcluster.embedded.apiserver.kinds import Json, Resource
from localcluster.embedded.apiserver.metadata import LABEL, LABEL_SAID, SUBDOMAIN, SUBDOMAIN_SAID
from localcluster.embedded.apiserver.podchecks import EFFECTS, RESTART_POLICIES, spec_problems
from localcluster.embedded.apiserver.refusals import (
    Problem,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)
from localcluster.node.quantity import canonical, parse_quantity

_FREE_NAMES: Final = frozenset({"roles", "rolebindings", "clusterroles", "clusterrolebindings"})
_NODE_INFO: Final = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)
_CONFIG_KEY_SAID: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
    "'key.name',  or 'KEY_NAME',"
    "  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def with_defaults(resource: Resource, body: Json) -> Json:
    """Return a new object of a built-in kind with its defaults."""
    default = _DEFAULTS.get(resource.plural)
    return default(body) if default else body


def problems(resource: Resource, body: Json, old: Json | None) -> Iterator[Problem]:
    """Yield what is wrong with an object of any kind."""
    if old is None:
        yield from _name_problems(resource, body["metadata"]["name"])
    checks = None if resource.custom else _CHECKS.get(resource.plural)
    if checks:
        yield from checks(body, old)


def _name_problems(resource: Resource, name: str) -> Iterator[Problem]:
    if resource.plural in _FREE_NAMES:
        return
    is_label = resource.plural in {"namespaces", "services"}
    longest = 63 if is_label else 253
    if len(name) > longest:
        yield invalid_value("metadata.name", name, f"must be no more than {longest} characters")
    if not re.fullmatch(LABEL if is_label else SUBDOMAIN, name):
        yield invalid_value("metadata.name", name, LABEL_SAID if is_label else SUBDOMAIN_SAID)


def _namespace(body: Json) -> Json:
    metadata = body["metadata"]
    labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}
    spec = {"finalizers": ["kubernetes"]}
    return {
        **body,
        "metadata": {**metadata, "labels": labels},
        "spec": spec,
        "status": {"phase": "Active"},
    }


def _node(body: Json) -> Json:
    # Only the controller that sees a node become ready takes this away.
    spec = dict(body.get("spec") or {})
    taints = spec.get("taints") or []
    if not any(each.get("key") == _NOT_READY["key"] for each in taints):
        spec["taints"] = [*taints, dict(_NOT_READY)]
    unknown = {
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
        "nodeInfo": dict.fromkeys(_NODE_INFO, ""),
    }
    return {**body, "spec": spec, "status": {**unknown, **(body.get("status") or {})}}


def _secret(body: Json) -> Json:
    plain = body.get("stringData") or {}
    kept = {key: value for key, value in body.items() if key != "stringData"}
    if plain:
        data = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        kept["data"] = {**(body.get("data") or {}), **data}
    return {"type": "Opaque", **kept}


def _service(body: Json) -> Json:
    spec = {"type": "ClusterIP", "sessionAffinity": "None", **(body.get("spec") or {})}
    if spec.get("ports"):
        spec["ports"] = [
            {"protocol": "TCP", "targetPort": each.get("port"), **each} for each in spec["ports"]
        ]
    if spec.get("clusterIP"):
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.update(
        {
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
        }
    )
    return {**body, "spec": spec, "status": {"loadBalancer": {}}}


def _claim(body: Json) -> Json:
    return {
        **body,
        "spec": {"volumeMode": "Filesystem", **(body.get("spec") or {})},
        "status": {"phase": "Pending"},
    }


def _volume(body: Json) -> Json:
    spec = {
        "persistentVolumeReclaimPolicy": "Retain",
        "volumeMode": "Filesystem",
        **(body.get("spec") or {}),
    }
    return {**body, "spec": spec, "status": {"phase": "Pending"}}


def _deployment(body: Json) -> Json:
    rolling = {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    spec = {
        "replicas": 1,
        "strategy": rolling,
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        **(body.get("spec") or {}),
    }
    return {**body, "spec": _with_template(spec), "status": {}}


def _replica_set(body: Json) -> Json:
    return {
        **body,
        "spec": _with_template({"replicas": 1, **(body.get("spec") or {})}),
        "status": {"replicas": 0},
    }


def _with_template(spec: Json) -> Json:
    template = spec.get("template") or {}
    return {
        **spec,
        "template": {**template, "spec": pods.template_spec(template.get("spec") or {})},
    }


def _event(body: Json) -> Json:
    fields = ("firstTimestamp", "lastTimestamp", "eventTime")
    words = {"source": {}, "reportingComponent": "", "reportingInstance": ""}
    return {**words, **dict.fromkeys(fields), **body}


_DEFAULTS: Mapping[str, Callable[[Json], Json]] = {
    "namespaces": _namespace,
    "nodes": _node,
    "pods": pods.with_defaults,
    "secrets": _secret,
    "services": _service,
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _volume,
    "deployments": _deployment,
    "replicasets": _replica_set,
    "events": _event,
    "customresourcedefinitions": definitions.with_defaults,
}


def _deployment_problems(body: Json, old: Json | None) -> Iterator[Problem]:
    spec: Mapping[str, Any] = body.get("spec") or {}
    wanted = (spec.get("selector") or {}).get("matchLabels") or {}
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not wanted and not (spec.get("selector") or {}).get("matchExpressions"):
        yield required("spec.selector")
    elif any(labels.get(key) != value for key, value in wanted.items()):
        yield invalid_value(
            "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
        )
    if (spec.get("replicas") or 0) < 0:
        yield invalid_value("spec.replicas", spec["replicas"], "must be greater than or equal to 0")
    yield from spec_problems(template.get("spec") or {}, "spec.template.spec")
    policy = (template.get("spec") or {}).get("restartPolicy")
    if policy in RESTART_POLICIES and policy != "Always":
        yield unsupported("spec.template.spec.restartPolicy", policy, ["Always"])
    if old is not None and spec.get("selector") != old["spec"].get("selector"):
        yield invalid_value("spec.selector", spec.get("selector"), "field is immutable")


def _lease_problems(body: Json, _old: Json | None) -> Iterator[Problem]:
    seconds = (body.get("spec") or {}).get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    transitions = (body.get("spec") or {}).get("leaseTransitions") or 0
    if transitions < 0:
        yield invalid_value(
            "spec.leaseTransitions", transitions, "must be greater than or equal to 0"
        )


def _node_problems(body: Json, _old: Json | None) -> Iterator[Problem]:
    for index, each in enumerate((body.get("spec") or {}).get("taints") or ()):
        if each["effect"] not in EFFECTS:
            yield unsupported(f"metadata.taints[{index}].effect", each["effect"], EFFECTS)
    status = body.get("status") or {}
    for which in ("capacity", "allocatable"):
        for name, amount in (status.get(which) or {}).items():
            if "/" in name and parse_quantity(amount) % 1:
                yield invalid_value(
                    f"status.{which}.{name}", canonical(amount), "must be an integer"
                )


def _service_problems(body: Json, _old: Json | None) -> Iterator[Problem]:
    spec = body.get("spec") or {}
    ports = spec.get("ports") or []
    if not ports and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
        yield required("spec.ports")
    for index, each in enumerate(ports if len(ports) > 1 else ()):
        if not each.get("name"):
            yield required(f"spec.ports[{index}].name")


def _config_map_problems(body: Json, old: Json | None) -> Iterator[Problem]:
    for key in body.get("data") or {}:
        if not re.fullmatch(r"[-._a-zA-Z0-9]+", key):
            yield invalid_value(f"data[{key}]", key, _CONFIG_KEY_SAID)
    if old is not None and old.get("immutable") and body.get("data") != old.get("data"):
        yield forbidden_field("data", "field is immutable when `immutable` is set")


def _event_problems(body: Json, _old: Json | None) -> Iterator[Problem]:
    about = (body.get("involvedObject") or {}).get("namespace") or ""
    own = body["metadata"].get("namespace") or ""
    if about != own and (about or own != "default"):
        yield invalid_value("involvedObject.namespace", about, "does not match event.namespace")


_CHECKS: Mapping[str, Callable[[Json, Json | None], Iterator[Problem]]] = {
    "pods": pods.problems,
    "deployments": _deployment_problems,
    "replicasets": _deployment_problems,
    "leases": _lease_problems,
    "events": _event_problems,
    "nodes": _node_problems,
    "services": _service_problems,
    "configmaps": _config_map_problems,
    "customresourcedefinitions": definitions.problems,
}
