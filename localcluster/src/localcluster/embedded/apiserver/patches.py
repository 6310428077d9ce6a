"""The three kinds of patches: JSON patch (RFC 6902), merge patch (RFC 7386), strategic merge patch.

All of them return a new object and leave the old one as it is. A strategic merge is a merge patch
in which some lists are merged too, element by element, by a key that depends on the field (a pod's
containers by their name)."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.refusals import bad_request, unprocessable

MERGE_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "env": ("name",),
    "ports": ("containerPort", "port"),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "podIPs": ("ip",),
    "hostIPs": ("ip",),
    "schedulingGates": ("name",),
    "topologySpreadConstraints": ("topologyKey",),
    "conditions": ("type",),
    "addresses": ("type",),
    "taints": ("key",),
    "ownerReferences": ("uid",),
    "secrets": ("name",),
}
"""By which key the elements of a list are told apart. Ports have one key in a pod and another in a
Service."""

_PRIMITIVE_SETS: Final = frozenset({"finalizers"})
_DIRECTIVES: Final = ("$setElementOrder/", "$deleteFromPrimitiveList/", "$retainKeys", "$patch")


def merge_patch(target: Any, patch: Any) -> Any:
    """Return `target` with a merge patch applied: objects are merged, null removes, all else
    replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def strategic_merge(target: Any, patch: Any) -> Any:
    """Return `target` with a strategic merge patch applied."""
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    merged = dict(target) if isinstance(target, dict) else {}
    if "$retainKeys" in patch:
        merged = {key: value for key, value in merged.items() if key in patch["$retainKeys"]}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.partition("/")[2]
            merged[field] = [each for each in merged.get(field) or () if each not in value]
        elif key.startswith(_DIRECTIVES):
            continue
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged_field(key, merged.get(key), value)
    return merged


def _merged_field(key: str, old: Any, new: Any) -> Any:
    if not isinstance(new, list):
        return strategic_merge(old, new)
    present = old if isinstance(old, list) else []
    if key in _PRIMITIVE_SETS:
        return [*present, *(each for each in new if each not in present)]
    name = merge_key(key, new)
    return _merged_list(present, new, name) if name else new


def merge_key(field: str, elements: Sequence[Any]) -> str | None:
    """Return the key that tells a list's elements apart, None for a list that is replaced as a
    whole."""
    candidates = MERGE_KEYS.get(field, ())
    found = (
        key
        for key in candidates
        if all(isinstance(one, dict) and (key in one or "$patch" in one) for one in elements)
    )
    return next(found, None)


def _merged_list(old: Sequence[Any], new: Sequence[Json], name: str) -> list[Any]:
    if any(each.get("$patch") == "replace" for each in new):
        return [each for each in new if "$patch" not in each]
    changes = {each[name]: each for each in new}
    merged: list[Any] = []
    for each in old:
        change = changes.pop(each.get(name), None)
        if change is None:
            merged.append(each)
        elif change.get("$patch") != "delete":
            merged.append(strategic_merge(each, change))
    added = [each for each in new if each[name] in changes and each.get("$patch") != "delete"]
    return merged + [strategic_merge({}, each) for each in added]


def json_patch(target: Any, operations: Any) -> Any:
    """Return `target` with a JSON patch applied. Raises Refusal, also where a test fails."""
    if not isinstance(operations, list):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type "
            "[]handlers.jsonPatchOp"
        )
    document = copy.deepcopy(target)
    try:
        for operation in operations:
            document = _OPERATIONS[operation["op"]](document, operation)
    except (KeyError, IndexError, ValueError, TypeError):
        raise unprocessable() from None
    return document


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise ValueError(text)
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _at(document: Any, parts: Sequence[str]) -> Any:
    for part in parts:
        document = document[_index(document, part)]
    return document


def _index(holder: Any, part: str) -> Any:
    """Return a part of a path as an index of what it leads into. Raises ValueError, also for a
    negative number."""
    if not isinstance(holder, list):
        return part
    if not part.isdecimal():
        raise ValueError(part)
    return int(part)


def _add(document: Any, path: Sequence[str], value: Any) -> Any:
    if not path:
        return value
    holder, last = _at(document, path[:-1]), path[-1]
    if not isinstance(holder, list):
        holder[last] = value
        return document
    place = len(holder) if last == "-" else _index(holder, last)
    if place > len(holder):
        raise IndexError(last)
    holder.insert(place, value)
    return document


def _remove(document: Any, path: Sequence[str]) -> Any:
    holder = _at(document, path[:-1])
    del holder[_index(holder, path[-1])]
    return document


def _op_add(document: Any, operation: Json) -> Any:
    return _add(document, _pointer(operation["path"]), operation["value"])


def _op_remove(document: Any, operation: Json) -> Any:
    return _remove(document, _pointer(operation["path"]))


def _op_replace(document: Any, operation: Json) -> Any:
    path = _pointer(operation["path"])
    if not path:
        return operation["value"]
    return _add(_remove(document, path), path, operation["value"])


def _op_move(document: Any, operation: Json) -> Any:
    origin = _pointer(operation["from"])
    value = _at(document, origin)
    return _add(_remove(document, origin), _pointer(operation["path"]), value)


def _op_copy(document: Any, operation: Json) -> Any:
    value = copy.deepcopy(_at(document, _pointer(operation["from"])))
    return _add(document, _pointer(operation["path"]), value)


def _op_test(document: Any, operation: Json) -> Any:
    if _at(document, _pointer(operation["path"])) != operation["value"]:
        raise ValueError("the test failed")
    return document


_OPERATIONS: Mapping[str, Callable[[Any, Json], Any]] = {
    "add": _op_add,
    "remove": _op_remove,
    "replace": _op_replace,
    "move": _op_move,
    "copy": _op_copy,
    "test": _op_test,
}
