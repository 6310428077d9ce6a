"""The three kinds of patches: JSON patch (RFC 6902), merge patch (RFC 7386), strategic merge patch.

All return a new object and leave the old one as it is. A strategic merge is a merge patch in which
some lists are merged too, element by element, by a key that depends on the field (a pod's
containers by their name)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import jsonpatch

from localcluster.embedded.apiserver.errors import StatusError
from localcluster.embedded.apiserver.kinds import Json

_BY_NAME: Final = (
    *("containers", "initContainers", "env", "volumes", "imagePullSecrets", "schedulingGates"),
    "secrets",
)
_MERGE_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(_BY_NAME, ("name",)),
    **dict.fromkeys(("conditions", "addresses"), ("type",)),
    "ports": ("containerPort", "port"),
    "volumeMounts": ("mountPath",),
    "podIPs": ("ip",),
    "hostIPs": ("ip",),
    "topologySpreadConstraints": ("topologyKey",),
    "taints": ("key",),
    "ownerReferences": ("uid",),
}
"""The key that identifies the elements of a list; ports differ between a pod and a Service."""

_DIRECTIVES: Final = ("$setElementOrder/", "$retainKeys", "$patch")


def merge_patch(target: Any, patch: Any) -> Any:
    """Return `target` with a merge patch applied: objects merge, null removes, others replace."""
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


def _merged_field(field: str, old: Any, new: Any) -> Any:
    if not isinstance(new, list):
        return strategic_merge(old, new)
    present = old if isinstance(old, list) else []
    if field == "finalizers":
        return [*present, *(each for each in new if each not in present)]
    for key in _MERGE_KEYS.get(field, ()):
        if all(isinstance(each, dict) and (key in each or "$patch" in each) for each in new):
            return _merged_list(present, new, key)
    return new


def _merged_list(old: Sequence[Any], new: Sequence[Json], key: str) -> list[Any]:
    if any(each.get("$patch") == "replace" for each in new):
        return [each for each in new if "$patch" not in each]
    changes = {each[key]: each for each in new}
    merged: list[Any] = []
    for each in old:
        change = changes.pop(each.get(key), {})
        if change.get("$patch") != "delete":
            merged.append(strategic_merge(each, change))
    added = [each for each in new if each[key] in changes and each.get("$patch") != "delete"]
    return merged + [strategic_merge({}, each) for each in added]


def json_patch(target: Any, operations: Sequence[Json]) -> Any:
    """Return `target` with a JSON patch applied, whole or not at all. Raises StatusError."""
    try:
        return jsonpatch.apply_patch(target, operations)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException):
        message = "the server rejected our request due to an error in our request"
        raise StatusError(422, "Invalid", message, {}) from None
