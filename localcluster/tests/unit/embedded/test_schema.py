"""Schemas: pruning and defaults."""

from typing import Any

import pytest

from localcluster.embedded.apiserver.schema import structured

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


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        pytest.param({"size": 1, "unknown": 2}, {"size": 1}, id="an unknown field goes"),
        pytest.param(
            {"free": {"any": {"thing": 1}}},
            {"free": {"any": {"thing": 1}}},
            id="where any may be, they stay",
        ),
        pytest.param(
            {"map": {"x": 1, "y": 2}}, {"map": {"x": 1, "y": 2}}, id="the keys of a map stay"
        ),
        pytest.param(
            {"list": [{"a": 1, "b": 2}]}, {"list": [{"a": 1}]}, id="also in the elements of a list"
        ),
        pytest.param({"size": 2.0}, {"size": 2}, id="a whole number is an integer"),
        pytest.param(
            {"free": {"x": [2.0, 0.5]}}, {"free": {"x": [2, 0.5]}}, id="also where any may be"
        ),
    ],
)
def test_pruning(spec: Any, kept: Any) -> None:
    found = structured(SCHEMA, {**whole(spec), "more": 1})["spec"]
    assert {key: value for key, value in found.items() if key != "color"} == kept


@pytest.mark.parametrize(
    ("spec", "filled"),
    [
        pytest.param({}, {"color": "red"}, id="a default comes"),
        pytest.param({"color": "green"}, {"color": "green"}, id="and replaces nothing"),
        pytest.param({"color": None}, {"color": "red"}, id="null is as good as nothing"),
        pytest.param({"size": None}, {"color": "red"}, id="null without a default vanishes"),
        pytest.param(
            {"maybe": None}, {"maybe": None, "color": "red"}, id="unless the field may be null"
        ),
        pytest.param(
            {"list": [{}]},
            {"list": [{"a": 7}], "color": "red"},
            id="also in the elements of a list",
        ),
    ],
)
def test_defaults(spec: Any, filled: Any) -> None:
    assert structured(SCHEMA, whole(spec)) == whole(filled)


def test_a_default_inside_a_missing_object_does_not_create_it() -> None:
    inner = {"type": "object", "properties": {"count": {"type": "integer", "default": 0}}}
    schema = {"type": "object", "properties": {"status": inner}}
    assert structured(schema, {}) == {}
    assert structured(schema, {"status": {}}) == {"status": {"count": 0}}
