"""What a CustomResourceDefinition's schema does to an object: unknown fields go, defaults come, the
rest is checked.

The structural OpenAPI schemas of Kubernetes, with the words of its error messages. Of the rules in
CEL only `self == oldSelf` is known, which is the one that this project's own definition has.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.refusals import Problem, invalid_value, required, shown

Schema = Mapping[str, Any]

_ANY_FIELDS: Final = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_RULES: Final = "x-kubernetes-validations"
_OUTSIDE: Final = frozenset({"apiVersion", "kind", "metadata"})
_ABSENT: Final = object()
_BLOCKING: Final = frozenset(
    {
        "FieldValueRequired",
        "FieldValueTypeInvalid",
        "FieldValueNotSupported",
        "FieldValueTooLong",
        "FieldValueTooMany",
    }
)
_UNCHECKED: Final = (
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing"
    " errors to complete validation"
)
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def prune(schema: Schema, value: Any, *, top: bool = True) -> Any:
    """Return an object without the fields that its schema does not know; whole numbers become
    integers, as in Go."""
    if isinstance(value, list):
        items = schema.get("items") or {_ANY_FIELDS: True}
        return [prune(items, each, top=False) for each in value]
    if not isinstance(value, dict):
        return int(value) if isinstance(value, float) and value.is_integer() else value
    properties = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    keeps = bool(schema.get(_ANY_FIELDS) or others)
    # What every object has is not for the schema to say.
    outside = _OUTSIDE if top or schema.get("x-kubernetes-embedded-resource") else frozenset()
    pruned: Json = {}
    for key, each in value.items():
        if key in outside:
            pruned[key] = each
        elif key in properties:
            pruned[key] = prune(properties[key], each, top=False)
        elif keeps:
            inner = others if isinstance(others, Mapping) else {_ANY_FIELDS: True}
            pruned[key] = prune(inner, each, top=False)
    return pruned


def unknown_fields(schema: Schema, value: Any, at: str = "") -> Iterator[str]:
    """Yield the fields that `prune` drops, as paths like `spec.steps[0].at`."""
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from unknown_fields(
                schema.get("items") or {_ANY_FIELDS: True}, each, f"{at}[{index}]"
            )
    if not isinstance(value, dict):
        return
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    top = not at or schema.get("x-kubernetes-embedded-resource")
    for key, each in value.items():
        place = _joined(at, key)
        if key in properties and not (top and key in _OUTSIDE):
            yield from unknown_fields(properties[key], each, place)
        elif isinstance(others, Mapping):
            yield from unknown_fields(others, each, place)
        elif not (schema.get(_ANY_FIELDS) or others or (top and key in _OUTSIDE)):
            yield place


def with_defaults(schema: Schema, value: Any) -> Any:
    """Return an object with the defaults of its schema in the fields that are missing."""
    if isinstance(value, list):
        items = schema.get("items")
        return [with_defaults(items, each) for each in value] if items else value
    if not isinstance(value, dict):
        return value
    others = schema.get("additionalProperties")
    filled: Json = dict(value)
    for key, inner in (schema.get("properties") or {}).items():
        if key in filled and filled[key] is None and not inner.get("nullable"):
            del filled[key]
        if key not in filled and "default" in inner:
            filled[key] = inner["default"]
        if key in filled:
            filled[key] = with_defaults(inner, filled[key])
    if isinstance(others, Mapping):
        known = schema.get("properties") or {}
        filled = {
            key: each if key in known else with_defaults(others, each)
            for key, each in filled.items()
        }
    return filled


def problems(schema: Schema, value: Json, old: Json | None) -> list[Problem]:
    """Return what is wrong with an object, in the order of the fields' names; `old` is what it
    replaces."""
    found = sorted(
        check(schema, value, _ABSENT if old is None else old), key=lambda each: each.field
    )
    if any(each.kind in _BLOCKING for each in found) and _has_rules(schema):
        found.append(Problem("FieldValueInvalid", "<nil>", _UNCHECKED))
    return found


def _has_rules(schema: Schema) -> bool:
    inner = [
        *(schema.get("properties") or {}).values(),
        schema.get("items"),
        schema.get("additionalProperties"),
    ]
    return bool(schema.get(_RULES)) or any(
        _has_rules(each) for each in inner if isinstance(each, Mapping)
    )


def check(schema: Schema, value: Any, old: Any = _ABSENT, field: str = "") -> Iterator[Problem]:
    """Yield what is wrong with a value; `old` is what it replaces."""
    if value is None and schema.get("nullable"):
        return
    wrong = _type_problem(schema, value, field)
    if wrong is not None:
        yield wrong
        return
    if "enum" in schema and value not in schema["enum"]:
        supported = ", ".join(shown(each) for each in schema["enum"])
        yield Problem(
            "FieldValueNotSupported",
            field,
            f"Unsupported value: {shown(value)}: supported values: {supported}",
        )
    yield from _bounds(schema, value, field)
    yield from _rules(schema, value, old, field)
    if isinstance(value, dict):
        yield from _members(schema, value, old, field)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from check(schema.get("items") or {}, each, _ABSENT, f"{field}[{index}]")


def _type_problem(schema: Schema, value: Any, field: str) -> Problem | None:
    if schema.get(_INT_OR_STRING):
        fits = isinstance(value, int | str) and not isinstance(value, bool)
        return None if fits else _type_said(field, value, "integer,string")
    wanted = schema.get("type")
    if not wanted:
        return None
    fits = isinstance(value, _TYPES[wanted])
    if isinstance(value, bool) and wanted in {"integer", "number"}:
        fits = False
    if wanted == "integer" and isinstance(value, float) and value.is_integer():
        fits = True
    return None if fits else _type_said(field, value, wanted)


def _type_said(field: str, value: Any, wanted: str) -> Problem:
    found = next((name for name, types in _TYPES.items() if isinstance(value, types)), "null")
    if isinstance(value, dict | list):
        return Problem(
            "FieldValueTypeInvalid",
            field,
            f'Invalid value: "{found}": {field} in body must be of type {wanted}: "{found}"',
        )
    said = f'"{found}"' if not isinstance(value, str) else '"string"'
    return Problem(
        "FieldValueTypeInvalid",
        field,
        f"Invalid value: {said}: {field} in body must be of type {wanted}: {said}",
    )


def _bounds(schema: Schema, value: Any, field: str) -> Iterator[Problem]:
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield from _number_bounds(schema, value, field)
    elif isinstance(value, str):
        yield from _string_bounds(schema, value, field)
    elif isinstance(value, list):
        yield from _length_bounds(schema, value, field, "Items", "items")
    elif isinstance(value, dict):
        yield from _length_bounds(schema, value, field, "Properties", "properties")


def _number_bounds(schema: Schema, value: float, field: str) -> Iterator[Problem]:
    lowest, highest = schema.get("minimum"), schema.get("maximum")
    if lowest is not None and (
        value < lowest or (schema.get("exclusiveMinimum") and value == lowest)
    ):
        orequal = "" if schema.get("exclusiveMinimum") else " or equal to"
        yield invalid_value(
            field, value, f"{field} in body should be greater than{orequal} {lowest}"
        )
    if highest is not None and (
        value > highest or (schema.get("exclusiveMaximum") and value == highest)
    ):
        orequal = "" if schema.get("exclusiveMaximum") else " or equal to"
        yield invalid_value(field, value, f"{field} in body should be less than{orequal} {highest}")


def _string_bounds(schema: Schema, value: str, field: str) -> Iterator[Problem]:
    shortest, longest, pattern = (
        schema.get("minLength"),
        schema.get("maxLength"),
        schema.get("pattern"),
    )
    # Of several mistakes in one word only the first is told.
    if longest is not None and len(value) > longest:
        yield Problem("FieldValueTooLong", field, f"Too long: may not be more than {longest} bytes")
    elif shortest is not None and len(value) < shortest:
        yield invalid_value(
            field, value, f"{field} in body should be at least {shortest} chars long"
        )
    elif pattern and not re.search(pattern, value):
        yield invalid_value(field, value, f"{field} in body should match '{pattern}'")
    if schema.get("format") == "date-time" and not _is_instant(value):
        said = f'Invalid value: "{value}": {field} in body must be of type date-time: "{value}"'
        yield Problem("FieldValueTypeInvalid", field, said)


def _length_bounds(
    schema: Schema, value: Any, field: str, suffix: str, word: str
) -> Iterator[Problem]:
    fewest, most = schema.get(f"min{suffix}"), schema.get(f"max{suffix}")
    if fewest is not None and len(value) < fewest:
        yield invalid_value(
            field, len(value), f"{field} in body should have at least {fewest} {word}"
        )
    if most is not None and len(value) > most:
        yield Problem(
            "FieldValueTooMany", field, f"Too many: {len(value)}: must have at most {most} items"
        )


def _rules(schema: Schema, value: Any, old: Any, field: str) -> Iterator[Problem]:
    for each in schema.get(_RULES) or ():
        if each["rule"] == "self == oldSelf" and old is not _ABSENT and old != value:
            why = each.get("message") or f"failed rule: {each['rule']}"
            whole = isinstance(value, dict | list)
            yield (
                Problem("FieldValueInvalid", field, f"Invalid value: {why}")
                if whole
                else invalid_value(field, value, why)
            )


def _members(schema: Schema, value: Json, old: Any, field: str) -> Iterator[Problem]:
    for name in schema.get("required") or ():
        if name not in value:
            yield required(_joined(field, name))
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    before = old if isinstance(old, dict) else {}
    for key, each in value.items():
        if key in properties:
            yield from check(properties[key], each, before.get(key, _ABSENT), _joined(field, key))
        elif isinstance(others, Mapping):
            yield from check(others, each, before.get(key, _ABSENT), _joined(field, key))


def _joined(field: str, name: str) -> str:
    return f"{field}.{name}" if field else name


def _is_instant(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
