"""Applies a CustomResourceDefinition's schema: drops unknown fields, fills defaults, validates.

The structural OpenAPI schemas of Kubernetes, with the words of its error messages, as far as the
definitions of this project and of the operator use them: of the rules in CEL only
`self == oldSelf`, and neither `maximum` nor `pattern`."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from localcluster.embedded.apiserver.errors import (
    FieldError,
    invalid_value,
    required,
    shown,
    unsupported,
)
from localcluster.embedded.apiserver.kinds import Json

Schema = Mapping[str, Any]

_ANY_FIELDS: Final = "x-kubernetes-preserve-unknown-fields"
_COMMON: Final = frozenset({"apiVersion", "kind", "metadata"})
_ABSENT: Final = object()
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


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


def field_errors(schema: Schema, value: Json, old: Json | None = None) -> list[FieldError]:
    """Return what is wrong with an object, ordered by field; `old` is what it replaces."""
    found = _errors(schema, value, _ABSENT if old is None else old, "")
    return sorted(found, key=lambda each: each.field)


def _errors(schema: Schema, value: Any, old: Any, field: str) -> Iterator[FieldError]:
    if value is None and schema.get("nullable"):
        return
    wanted = schema.get("type")
    if wanted and not _is_of_type(wanted, value):
        yield _type_error(field, value, wanted)
        return
    yield from _value_errors(schema, value, field)
    for rule in schema.get("x-kubernetes-validations") or ():
        if rule["rule"] == "self == oldSelf" and old is not _ABSENT and old != value:
            why = rule.get("message") or f"failed rule: {rule['rule']}"
            value_shown = "" if isinstance(value, dict | list) else f"{shown(value)}: "
            yield FieldError("FieldValueInvalid", field, f"Invalid value: {value_shown}{why}")
    if isinstance(value, dict):
        yield from _member_errors(schema, value, old, field)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _errors(schema.get("items") or {}, each, _ABSENT, f"{field}[{index}]")


def _is_of_type(wanted: str, value: Any) -> bool:
    # A bool is an int to Python.
    return isinstance(value, _TYPES[wanted]) and isinstance(value, bool) == (wanted == "boolean")


def _type_error(field: str, value: Any, wanted: str) -> FieldError:
    found = next((name for name, types in _TYPES.items() if isinstance(value, types)), "null")
    why = f'Invalid value: "{found}": {field} in body must be of type {wanted}: "{found}"'
    return FieldError("FieldValueTypeInvalid", field, why)


def _value_errors(schema: Schema, value: Any, field: str) -> Iterator[FieldError]:
    if "enum" in schema and value not in schema["enum"]:
        yield unsupported(field, value, schema["enum"])
    if "minimum" in schema and value < schema["minimum"]:
        why = f"{field} in body should be greater than or equal to {schema['minimum']}"
        yield invalid_value(field, value, why)
    if isinstance(value, str):
        yield from _string_errors(schema, value, field)


def _string_errors(schema: Schema, value: str, field: str) -> Iterator[FieldError]:
    longest, shortest = schema.get("maxLength"), schema.get("minLength") or 0
    if longest is not None and len(value) > longest:
        why = f"Too long: may not be more than {longest} bytes"
        yield FieldError("FieldValueTooLong", field, why)
    if len(value) < shortest:
        why = f"{field} in body should be at least {shortest} chars long"
        yield invalid_value(field, value, why)
    if schema.get("format") == "date-time" and not _is_instant(value):
        why = f'Invalid value: "{value}": {field} in body must be of type date-time: "{value}"'
        yield FieldError("FieldValueTypeInvalid", field, why)


def _member_errors(schema: Schema, value: Json, old: Any, field: str) -> Iterator[FieldError]:
    prefix = f"{field}." if field else ""
    for name in schema.get("required") or ():
        if name not in value:
            yield required(f"{prefix}{name}")
    properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
    before = old if isinstance(old, dict) else {}
    for key, each in value.items():
        inner = properties.get(key, extra)
        if isinstance(inner, Mapping):
            yield from _errors(inner, each, before.get(key, _ABSENT), f"{prefix}{key}")


def _is_instant(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
