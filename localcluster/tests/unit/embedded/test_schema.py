"""Schemas: pruning and defaults."""

from typing import Any

from localcluster.embedded.apiserver.schema import structured
from tests.cases import cases

SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1},
        "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
        "name": {"type": "string", "minLength": 2, "maxLength": 4},
        "at": {"type": "string", "format": "date-time"},
        "maybe": {"type": "string", "nullable": True},
        "list": {
            "type": "array",
            "items": {"type": "object", "properties": {"a": {"type": "integer", "default": 7}}},
        },
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
SCHEMA = {"type": "object", "properties": {"spec": SPEC}}


def whole(spec: Any) -> dict[str, Any]:
    return {"apiVersion": "a/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


@cases(
    ("spec", "kept"),
    {
        "an unknown field goes": ({"size": 1, "unknown": 2}, {"size": 1}),
        "where any may be, they stay": (
            {"free": {"any": {"thing": 1}}},
            {"free": {"any": {"thing": 1}}},
        ),
        "the keys of a map stay": ({"map": {"x": 1, "y": 2}}, {"map": {"x": 1, "y": 2}}),
        "also in the elements of a list": ({"list": [{"a": 1, "b": 2}]}, {"list": [{"a": 1}]}),
        "a whole number is an integer": ({"size": 2.0}, {"size": 2}),
        "also where any may be": ({"free": {"x": [2.0, 0.5]}}, {"free": {"x": [2, 0.5]}}),
    },
)
def test_pruning(spec: Any, kept: Any) -> None:
    found = structured(SCHEMA, {**whole(spec), "more": 1})["spec"]
    assert {key: value for key, value in found.items() if key != "color"} == kept


@cases(
    ("spec", "filled"),
    {
        "a default comes": ({}, {"color": "red"}),
        "and replaces nothing": ({"color": "green"}, {"color": "green"}),
        "null is as good as nothing": ({"color": None}, {"color": "red"}),
        "null without a default vanishes": ({"size": None}, {"color": "red"}),
        "unless the field may be null": ({"maybe": None}, {"maybe": None, "color": "red"}),
        "also in the elements of a list": ({"list": [{}]}, {"list": [{"a": 7}], "color": "red"}),
    },
)
def test_defaults(spec: Any, filled: Any) -> None:
    assert structured(SCHEMA, whole(spec)) == whole(filled)
