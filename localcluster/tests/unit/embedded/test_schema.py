"""Schemas: pruning, defaults and errors in the words recorded from a real server."""

from typing import Any

import pytest

from localcluster.embedded.apiserver.schema import field_errors, structured

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


@pytest.mark.parametrize(
    ("spec", "sentences"),
    [
        pytest.param({"size": 1}, [], id="all is well"),
        pytest.param({}, ["spec.size: Required value"], id="a field is missing"),
        pytest.param(
            {"size": "x"},
            [
                (
                    'spec.size: Invalid value: "string": spec.size in body must be of type '
                    "integer: "
                    '"string"'
                )
            ],
            id="a word for a number",
        ),
        pytest.param(
            {"size": 1.5},
            [
                (
                    'spec.size: Invalid value: "number": spec.size in body must be of type '
                    "integer: "
                    '"number"'
                )
            ],
            id="a fraction for an integer",
        ),
        pytest.param(
            {"size": True},
            [
                (
                    'spec.size: Invalid value: "boolean": spec.size in body must be of type '
                    "integer: "
                    '"boolean"'
                )
            ],
            id="a truth for a number",
        ),
        pytest.param(
            {"size": 0},
            ["spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"],
            id="too small",
        ),
        pytest.param(
            {"size": 1, "color": "blue"},
            ['spec.color: Unsupported value: "blue": supported values: "red", "green"'],
            id="none of the words",
        ),
        pytest.param(
            {"size": 1, "name": "a"},
            ['spec.name: Invalid value: "a": spec.name in body should be at least 2 chars long'],
            id="too short",
        ),
        pytest.param(
            {"size": 1, "name": "aaaaa"},
            ["spec.name: Too long: may not be more than 4 bytes"],
            id="too long",
        ),
        pytest.param(
            {"size": 1, "at": "yesterday"},
            [
                (
                    'spec.at: Invalid value: "yesterday": spec.at in body must be of type '
                    "date-time: "
                    '"yesterday"'
                )
            ],
            id="no instant",
        ),
        pytest.param({"size": 1, "at": "2026-01-01T00:00:00Z"}, [], id="an instant"),
        pytest.param(
            {"size": 1, "list": {}},
            [
                (
                    'spec.list: Invalid value: "object": spec.list in body must be of type array: '
                    '"object"'
                )
            ],
            id="an object for a list",
        ),
        pytest.param(
            {"size": 1, "list": [{"a": "x"}]},
            [
                (
                    'spec.list[0].a: Invalid value: "string": spec.list[0].a in body must be of '
                    "type "
                    'integer: "string"'
                )
            ],
            id="deep inside",
        ),
        pytest.param(
            {"size": 1, "map": {"x": "y"}},
            [
                (
                    'spec.map.x: Invalid value: "string": spec.map.x in body must be of type '
                    "integer: "
                    '"string"'
                )
            ],
            id="in a map",
        ),
        pytest.param(
            "x",
            ['spec: Invalid value: "string": spec in body must be of type object: "string"'],
            id="no object at all",
        ),
        pytest.param(
            {"size": 0, "color": "blue"},
            [
                'spec.color: Unsupported value: "blue": supported values: "red", "green"',
                (
                    "spec.size: Invalid value: 0: spec.size in body should be greater than or "
                    "equal "
                    "to 1"
                ),
            ],
            id="two at once",
        ),
    ],
)
def test_errors_have_the_words_of_a_real_server(spec: Any, sentences: list[str]) -> None:
    assert [each.sentence for each in field_errors(SCHEMA, whole(spec), None)] == sentences


FIXED = {
    "type": "object",
    "properties": {
        "ref": {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "a ref stays"}],
        },
        "size": {"type": "integer"},
    },
}


def test_a_field_that_must_stay() -> None:
    old, new = {"ref": {"name": "a"}}, {"ref": {"name": "b"}}
    assert (
        field_errors(FIXED, old, old)
        == field_errors(FIXED, new, None)
        == field_errors(FIXED, new, {})
        == []
    )
    assert [each.sentence for each in field_errors(FIXED, new, old)] == [
        "ref: Invalid value: a ref stays"
    ]
