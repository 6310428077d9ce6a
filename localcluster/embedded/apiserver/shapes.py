"""The shapes of built-in objects: where an object, a list or a word belongs. A little of what Go's types check.

Enough that whatever is stored can be read by everything here; null stands for nothing, as in Go.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from localcluster.embedded.apiserver.kinds import Json, Resource
from localcluster.embedded.apiserver.refusals import bad_request, invalid, required

Shape = Any
"""A word of `_WORDS`, a list with the shape of its elements, or keys with their shapes. "*" is every other key, and a
key that ends in "!" has to be there."""

_WORDS: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "number": (int, float),
    "bool": (bool,),
    "object": (dict,),
    "amount": (str, int, float),
}
_STRINGS: Final = {"*": "string"}
_AMOUNTS: Final = {"*": "amount"}
_OWNER: Final = {"apiVersion": "string", "kind": "string", "name": "string", "uid": "string", "controller": "bool"}
_METADATA: Final = {
    "name": "string",
    "generateName": "string",
    "namespace": "string",
    "uid": "string",
    "resourceVersion": "string",
    "labels": _STRINGS,
    "annotations": _STRINGS,
    "finalizers": ["string"],
    "ownerReferences": [_OWNER],
    "managedFields": ["object"],
}
_CONDITION: Final = {"type!": "string", "status!": "string", "reason": "string", "message": "string"}
_STATUS: Final = {"conditions": [_CONDITION], "phase": "string", "capacity": _AMOUNTS, "allocatable": _AMOUNTS}
_CONTAINER: Final = {
    "name": "string",
    "image": "string",
    "command": ["string"],
    "args": ["string"],
    "env": [{"name!": "string", "value": "string"}],
    "ports": [{"containerPort!": "number", "name": "string"}],
    "resources": {"requests": _AMOUNTS, "limits": _AMOUNTS},
    "volumeMounts": [{"name!": "string", "mountPath!": "string"}],
}
_POD_SPEC: Final = {
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "volumes": [{"name!": "string"}],
    "tolerations": [{"key": "string", "effect": "string"}],
    "schedulingGates": [{"name!": "string"}],
    "nodeSelector": _STRINGS,
    "nodeName": "string",
    "schedulerName": "string",
    "serviceAccountName": "string",
    "priorityClassName": "string",
    "priority": "number",
    "terminationGracePeriodSeconds": "number",
}
_SELECTOR: Final = {
    "matchLabels": _STRINGS,
    "matchExpressions": [{"key!": "string", "operator!": "string", "values": ["string"]}],
}
_REPLICATED: Final = {
    "replicas": "number",
    "selector": _SELECTOR,
    "strategy": {"type": "string"},
    "template": {"metadata": _METADATA, "spec": _POD_SPEC},
}
_REFERENCE: Final = {"kind": "string", "namespace": "string", "name": "string", "uid": "string"}
_VOLUME: Final = {"storageClassName": "string", "volumeName": "string", "accessModes": ["string"], "capacity": _AMOUNTS}
_SPECS: Final[Mapping[str, Shape]] = {
    "pods": _POD_SPEC,
    "nodes": {"taints": [{"key!": "string", "effect!": "string"}], "unschedulable": "bool"},
    "namespaces": {"finalizers": ["string"]},
    "deployments": _REPLICATED,
    "replicasets": _REPLICATED,
    "services": {"ports": [{"port!": "number", "name": "string"}], "clusterIP": "string", "selector": _STRINGS},
    "persistentvolumes": {**_VOLUME, "capacity!": _AMOUNTS, "claimRef": _REFERENCE},
    "persistentvolumeclaims": {**_VOLUME, "resources": {"requests": _AMOUNTS}},
    "leases": {"leaseDurationSeconds": "number", "holderIdentity": "string"},
    "customresourcedefinitions": {
        "group!": "string",
        "scope": "string",
        "names!": {"plural!": "string", "kind!": "string", "listKind": "string", "shortNames": ["string"]},
        "versions!": [{"name!": "string", "schema": {"openAPIV3Schema": "object"}, "subresources": "object"}],
    },
}

_NEED_SPEC: Final = _SPECS.keys() - {"pods", "nodes", "namespaces", "services", "leases"}


def check_shape(resource: Resource, body: Json) -> None:
    """Refuse an object that has something else where an object, a list or a word belongs."""
    shape: dict[str, Shape] = {"metadata": _METADATA}
    if not resource.custom:
        spec = "spec!" if resource.plural in _NEED_SPEC else "spec"
        shape.update({spec: _SPECS.get(resource.plural, "object"), "status": _STATUS})
        shape.update({"data": _STRINGS, "stringData": _STRINGS, "involvedObject": _REFERENCE})
    for kind, path, said in _misfits(shape, body, ""):
        if kind == "missing":
            raise invalid(resource, (body.get("metadata") or {}).get("name") or "", [required(path)])
        named = f'{resource.kind} in version "{resource.version}"'
        raise bad_request(f"{named} cannot be handled as a {resource.kind}: json: cannot unmarshal {said}")


def _misfits(shape: Shape, value: Any, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield what is wrong: "missing" or "other", the place, and what was found there and wanted."""
    if value is None or shape is None:
        return
    if isinstance(shape, str):
        numeric = isinstance(value, bool) and shape in {"number", "amount"}
        if numeric or not isinstance(value, _WORDS[shape]):
            yield _other(value, path, shape)
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield _other(value, path, "list")
            return
        for index, each in enumerate(value):
            place = f"{path}[{index}]"
            # An element that is null stands for an empty one, which nobody has a use for.
            yield from _misfits(shape[0], each, place) if each is not None else [_other(each, place, "object")]
    elif isinstance(value, dict):
        yield from _members(shape, value, path)
    else:
        yield _other(value, path, "object")


def _members(shape: Mapping[str, Shape], value: Json, path: str) -> Iterator[tuple[str, str, str]]:
    known = {key.rstrip("!"): inner for key, inner in shape.items()}
    for key, each in value.items():
        yield from _misfits(known.get(key, known.get("*")), each, f"{path}.{key}".strip("."))
    for key in shape:
        if key.endswith("!") and value.get(key.rstrip("!")) is None:
            yield "missing", f"{path}.{key.rstrip('!')}".strip("."), ""


def _other(value: Any, path: str, wanted: str) -> tuple[str, str, str]:
    kinds: tuple[tuple[type, str], ...] = ((bool, "bool"), (str, "string"), (list, "array"), (dict, "object"))
    found = next((name for kind, name in kinds if isinstance(value, kind)), "number" if value is not None else "null")
    return "other", path, f"{found} into Go struct field {path} of type {wanted}"
