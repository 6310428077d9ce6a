"""Patches follow their definitions and never change the object that they are applied to."""

import copy
from typing import Any

import pytest
from hypothesis import strategies as st

from localcluster.embedded.apiserver.errors import StatusError
from localcluster.embedded.apiserver.patches import json_patch, merge_patch, strategic_merge
from tests.cases import cases

LEAVES = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["a", "b"])
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)
    ),
)


@pytest.mark.parametrize(
    ("target", "patch", "wanted"),
    [
        # The examples of RFC 7386, appendix A, that JSON objects can show.
        pytest.param({"a": "b"}, {"a": "c"}, {"a": "c"}, id="a value is replaced"),
        pytest.param({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}, id="a value is added"),
        pytest.param({"a": "b"}, {"a": None}, {}, id="null removes"),
        pytest.param({"a": ["b"]}, {"a": "c"}, {"a": "c"}, id="a list gives way"),
        pytest.param({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}, id="a list comes"),
        pytest.param(
            {"a": {"b": "c"}},
            {"a": {"b": "d", "c": None}},
            {"a": {"b": "d"}},
            id="objects are merged",
        ),
        pytest.param({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}, id="lists are not merged"),
        pytest.param({"e": None}, {"a": 1}, {"e": None, "a": 1}, id="a null that was there stays"),
        pytest.param(
            {}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}, id="nulls in something new vanish"
        ),
    ],
)
def test_merge_patches(target: Any, patch: Any, wanted: Any) -> None:
    assert merge_patch(target, patch) == wanted


CONTAINERS = {"containers": [{"name": "c", "image": "1"}, {"name": "d", "image": "2"}]}


@cases(
    ("target", "patch", "wanted"),
    {
        "containers are merged by name": (
            CONTAINERS,
            {"containers": [{"name": "c", "image": "9"}]},
            {"containers": [{"name": "c", "image": "9"}, {"name": "d", "image": "2"}]},
        ),
        "a new name is appended": (
            CONTAINERS,
            {"containers": [{"name": "e", "image": "3"}]},
            {"containers": [*CONTAINERS["containers"], {"name": "e", "image": "3"}]},
        ),
        "an element is deleted": (
            CONTAINERS,
            {"containers": [{"name": "c", "$patch": "delete"}]},
            {"containers": [{"name": "d", "image": "2"}]},
        ),
        "a list is replaced": (
            CONTAINERS,
            {"containers": [{"$patch": "replace"}, {"name": "e", "image": "3"}]},
            {"containers": [{"name": "e", "image": "3"}]},
        ),
        "conditions are merged by type": (
            {"conditions": [{"type": "Ready", "status": "False"}]},
            {
                "conditions": [
                    {"type": "Ready", "status": "True"},
                    {"type": "New", "status": "True"},
                ]
            },
            {
                "conditions": [
                    {"type": "Ready", "status": "True"},
                    {"type": "New", "status": "True"},
                ]
            },
        ),
        "statuses of containers are replaced": (
            {"containerStatuses": [{"name": "c", "ready": False}, {"name": "d"}]},
            {"containerStatuses": [{"name": "c", "ready": True}]},
            {"containerStatuses": [{"name": "c", "ready": True}]},
        ),
        "no key, no merge": (
            {"tolerations": [{"key": "a"}]},
            {"tolerations": []},
            {"tolerations": []},
        ),
        "a set of words grows": (
            {"finalizers": ["a"]},
            {"finalizers": ["b"]},
            {"finalizers": ["a", "b"]},
        ),
        "a word is taken from a set": (
            {"finalizers": ["a", "b"]},
            {"$deleteFromPrimitiveList/finalizers": ["a"]},
            {"finalizers": ["b"]},
        ),
        "only these keys stay": ({"a": 1, "b": 2}, {"$retainKeys": ["b"], "b": 3}, {"b": 3}),
        "an object is replaced": (
            {"a": {"x": 1}},
            {"a": {"$patch": "replace", "y": 2}},
            {"a": {"y": 2}},
        ),
        "an order alone changes nothing": (
            CONTAINERS,
            {"$setElementOrder/containers": [{"name": "d"}, {"name": "c"}]},
            CONTAINERS,
        ),
    },
)
def test_strategic_merges(target: Any, patch: Any, wanted: Any) -> None:
    before = copy.deepcopy(target)
    assert strategic_merge(target, patch) == wanted
    assert target == before


@cases(
    "operation",
    {
        "a test that fails": {"op": "test", "path": "/a/b", "value": 2},
        "nothing to remove": {"op": "remove", "path": "/none"},
        "nothing to replace": {"op": "replace", "path": "/a/none", "value": 1},
        "beyond the end": {"op": "add", "path": "/l/3", "value": 1},
        "a negative place": {"op": "add", "path": "/l/-1", "value": 1},
        "no pointer": {"op": "add", "path": "a", "value": 1},
        "an unknown operation": {"op": "fly", "path": "/a"},
        "no value": {"op": "add", "path": "/c"},
    },
)
def test_json_patches_that_cannot_be_applied(operation: Any) -> None:
    with pytest.raises(StatusError) as refused:
        json_patch({"a": {"b": 1}, "l": [1, 2]}, [operation])
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")
