"""Applies a CustomResourceDefinition's schema: drops unknown fields and fills defaults.

Nothing is validated: what writes to this server is tested against the real one."""

from collections.abc import Mapping
from typing import Any, Final

from localcluster.embedded.apiserver.kinds import Json

Schema = Mapping[str, Any]

_ANY_FIELDS: Final = "x-kubernetes-preserve-unknown-fields"
_COMMON: Final = frozenset({"apiVersion", "kind", "metadata"})


def structured(schema: Schema, value: Any, *, top: bool = True) -> Any:
    """Return an object without unknown fields and with defaults; whole numbers become integers."""
    if isinstance(value, list):
        items = schema.get("items") or {_ANY_FIELDS: True}
        return [structured(items, each, top=False) for each in value]
    if not isinstance(value, dict):
        return int(value) if isinstance(value, float) and value.is_integer() else value
    properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
    others = extra if isinstance(extra, Mapping) else {_ANY_FIELDS: True}
    kept: Json = {}
    for key, each in value.items():
        if top and key in _COMMON:
            kept[key] = each
        elif key in properties:
            if each is not None or properties[key].get("nullable"):
                kept[key] = structured(properties[key], each, top=False)
        elif schema.get(_ANY_FIELDS) or extra:
            kept[key] = structured(others, each, top=False)
    for key, inner in properties.items():
        if key not in kept and "default" in inner:
            kept[key] = structured(inner, inner["default"], top=False)
    return kept
