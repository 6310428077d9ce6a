"""The shapes of built-in objects: where an object, a list or a word belongs. A little of what Go's
types check.

Enough that whatever is stored can be read by everything here; null stands for nothing, as in Go.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from localcluster.embedded.apiserver.kinds import Json, Resource
from localcluster.embedded.apiserver.refusals import bad_request, invalid, required
from localcluster.node.quantity import parse_quantity

Shape = Any
"""A word of `_WORDS`, a list with the shape of its elements, or keys with their shapes. "*" is
every other key, and a key that ends in "!" has to be there."""

_WORDS: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "number": (int, float),
    "bool": (bool,),
    "object": (dict,),
    "amount": (str, int, float),
    "int32": (int,),
    "time": (str,),
    "micro": (str,),
}
_LAYOUTS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    kind: (
        *(("2006", r"\d{4}"), ("-", "-"), ("01", r"\d\d"), ("-", "-"), ("02", r"\d\d"), ("T", "T")),
        *(("15", r"\d\d"), (":", ":"), ("04", r"\d\d"), (":", ":"), ("05", r"\d\d")),
        (fraction, pattern),
        ("Z07:00", r"Z|[+-]\d\d:\d\d"),
    )
    for kind, fraction, pattern in (("time", "", r"(\.\d+)?"), ("micro", ".000000", r"\.\d{6}"))
}
"""How instants are written: parts of the layout as Go names them, each with what may stand
there."""
_STRINGS: Final = {"*": "string"}
_AMOUNTS: Final = {"*": "amount"}
_OWNER: Final = {
    "apiVersion": "string",
    "kind": "string",
    "name": "string",
    "uid": "string",
    "controller": "bool",
}
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
_CONDITION: Final = {
    "type!": "string",
    "status!": "string",
    "reason": "string",
    "message": "string",
    "lastTransitionTime": "time",
}
_STATUS: Final = {
    "conditions": [_CONDITION],
    "phase": "string",
    "capacity": _AMOUNTS,
    "allocatable": _AMOUNTS,
}
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
_QUANTITY_SAID: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_REPLICATED: Final = {
    "replicas": "number",
    "selector": _SELECTOR,
    "strategy": {"type": "string"},
    "template": {"metadata": _METADATA, "spec": _POD_SPEC},
}
_REFERENCE: Final = {"kind": "string", "namespace": "string", "name": "string", "uid": "string"}
_VOLUME: Final = {
    "storageClassName": "string",
    "volumeName": "string",
    "accessModes": ["string"],
    "capacity": _AMOUNTS,
}
_SPECS: Final[Mapping[str, Shape]] = {
    "pods": _POD_SPEC,
    "nodes": {"taints": [{"key!": "string", "effect!": "string"}], "unschedulable": "bool"},
    "namespaces": {"finalizers": ["string"]},
    "deployments": _REPLICATED,
    "replicasets": _REPLICATED,
    "services": {
        "ports": [{"port!": "number", "name": "string"}],
        "clusterIP": "string",
        "selector": _STRINGS,
    },
    "persistentvolumes": {**_VOLUME, "capacity!": _AMOUNTS, "claimRef": _REFERENCE},
    "persistentvolumeclaims": {**_VOLUME, "resources": {"requests": _AMOUNTS}},
    "leases": {
        "leaseDurationSeconds": "int32",
        "leaseTransitions": "int32",
        "holderIdentity": "string",
        "acquireTime": "micro",
        "renewTime": "micro",
    },
    "customresourcedefinitions": {
        "group!": "string",
        "scope": "string",
        "names!": {
            "plural!": "string",
            "kind!": "string",
            "listKind": "string",
            "shortNames": ["string"],
        },
        "versions!": [
            {"name!": "string", "schema": {"openAPIV3Schema": "object"}, "subresources": "object"}
        ],
    },
}

_NEED_SPEC: Final = _SPECS.keys() - {"pods", "nodes", "namespaces", "services", "leases"}


@dataclass(frozen=True, slots=True, eq=False)
class _Keys:
    """A shape of keys, made ready: looked up for every key of every object that is written."""

    known: Mapping[str, Any]
    other: Any
    needed: tuple[str, ...]


def _ready(shape: Shape) -> Any:
    if isinstance(shape, Mapping):
        known = {key.rstrip("!"): _ready(inner) for key, inner in shape.items()}
        return _Keys(
            known, known.get("*"), tuple(key.rstrip("!") for key in shape if key.endswith("!"))
        )
    return [_ready(shape[0])] if isinstance(shape, list) else shape


@cache
def _shape_of(plural: str, custom: bool) -> Any:
    if custom:
        return _ready({"metadata": _METADATA})
    spec = "spec!" if plural in _NEED_SPEC else "spec"
    shape: dict[str, Shape] = {
        "metadata": _METADATA,
        spec: _SPECS.get(plural, "object"),
        "status": _STATUS,
    }
    shape.update(
        {"eventTime": "micro", "firstTimestamp": "time", "lastTimestamp": "time", "count": "int32"}
    )
    return _ready({**shape, "data": _STRINGS, "stringData": _STRINGS, "involvedObject": _REFERENCE})


def check_shape(resource: Resource, body: Json) -> Json:
    """Return an object. Raises Refusal for one with something else where an object, a list or a
    word belongs."""
    shape = _shape_of("" if resource.custom else resource.plural, resource.custom)
    for kind, path, said in _misfits(shape, body, ""):
        if kind == "missing":
            raise invalid(
                resource, (body.get("metadata") or {}).get("name") or "", [required(path)]
            )
        named = f'{resource.kind} in version "{resource.version}"'
        unread = "json: cannot unmarshal " if kind == "other" else ""
        raise bad_request(f"{named} cannot be handled as a {resource.kind}: {unread}{said}")
    return body


def _misfits(shape: Shape, value: Any, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield what is wrong: "missing", "other" or "unread", the place, and what was found there and
    wanted."""
    if value is None or shape is None:
        return
    if isinstance(shape, str):
        numeric = isinstance(value, bool) and shape in {"number", "amount", "int32"}
        if numeric or not isinstance(value, _WORDS[shape]):
            yield _other(value, path, "string" if shape in _LAYOUTS else shape)
        else:
            yield from _badly_written(shape, value, path)
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield _other(value, path, "list")
            return
        for index, each in enumerate(value):
            place = f"{path}[{index}]"
            # An element that is null stands for an empty one, which nobody has a use for.
            yield from (
                _misfits(shape[0], each, place)
                if each is not None
                else [_other(each, place, "object")]
            )
    elif isinstance(value, dict):
        yield from _members(shape, value, path)
    else:
        yield _other(value, path, "object")


def _badly_written(shape: str, value: Any, path: str) -> Iterator[tuple[str, str, str]]:
    if shape == "int32" and not -(2**31) <= value < 2**31:
        yield "other", path, f"number {value} into Go struct field {path} of type int32"
    if shape == "amount" and not _is_amount(value):
        yield "unread", path, _QUANTITY_SAID
    rest = value
    for part, pattern in _LAYOUTS.get(shape, ()):
        found = re.match(pattern, rest)
        if found is None:
            layout = "".join(each for each, _ in _LAYOUTS[shape])
            yield (
                "unread",
                path,
                f'parsing time "{value}" as "{layout}": cannot parse "{rest}" as "{part}"',
            )
            return
        rest = rest[found.end() :]


def _is_amount(value: str | float) -> bool:
    try:
        parse_quantity(value)
    except ValueError:
        return False
    return True


def _members(shape: _Keys, value: Json, path: str) -> Iterator[tuple[str, str, str]]:
    for key, each in value.items():
        inner = shape.known.get(key, shape.other)
        if inner is None or each is None or (inner == "string" and isinstance(each, str)):
            continue  # most of what an object has, and told quickly
        yield from _misfits(inner, each, f"{path}.{key}" if path else key)
    for key in shape.needed:
        if value.get(key) is None:
            yield "missing", f"{path}.{key}" if path else key, ""


def _other(value: Any, path: str, wanted: str) -> tuple[str, str, str]:
    kinds: tuple[tuple[type, str], ...] = (
        (bool, "bool"),
        (str, "string"),
        (list, "array"),
        (dict, "object"),
    )
    found = next(
        (name for kind, name in kinds if isinstance(value, kind)),
        "number" if value is not None else "null",
    )
    return "other", path, f"{found} into Go struct field {path} of type {wanted}"
