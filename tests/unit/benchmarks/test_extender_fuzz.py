"""The short form of ``benchmarks.extender_fuzz``, and that it notices a wrong answer."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks.extender_fuzz import Wrong, check, fuzz

ASKED: dict[str, Any] = {"Pod": {}, "Nodes": None, "NodeNames": ["a", "b"]}
WHOLE: dict[str, Any] = {"Pod": {}, "Nodes": {"items": [{"metadata": {"name": "a"}, "x": 1}]}}
OFFERED: dict[str, Any] = {"Pod": {}, "NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "1"}]}}}


def test_some_thousand_bodies_get_right_answers_and_leave_nothing_behind() -> None:
    found = fuzz(2500, seed=1)
    assert all(decided > 150 for decided in found["decided"].values())
    assert max(found["remembered"].values()) < 150


def result(*kept: str, refused: Mapping[str, str] | None = None) -> dict[str, Any]:
    return {"NodeNames": [*kept], "Nodes": None, "FailedAndUnresolvableNodes": refused or {}}


@pytest.mark.parametrize(
    ("verb", "asked", "answer"),
    [
        pytest.param("filter", ASKED, result("c"), id="a node that was not offered"),
        pytest.param("filter", ASKED, result(refused={"a": "x"}), id="a node is left out"),
        pytest.param("filter", ASKED, result("a", refused={"a": "x"}), id="kept and refused"),
        pytest.param("filter", ASKED, result("a", refused={"c": "x"}), id="refused, not offered"),
        pytest.param(
            "filter", ASKED, result(refused={"a": "", "b": "x"}), id="refused without a reason"
        ),
        pytest.param(
            "filter",
            WHOLE,
            {"Nodes": {"items": [{"metadata": {"name": "a"}}]}, "FailedAndUnresolvableNodes": {}},
            id="a node that is another",
        ),
        pytest.param("prioritize", ASKED, [{"Host": "a", "Score": 1}], id="a node has no score"),
        pytest.param(
            "prioritize",
            ASKED,
            [{"Host": "a", "Score": 11}, {"Host": "b", "Score": 0}],
            id="a score is too high",
        ),
        pytest.param(
            "preempt",
            OFFERED,
            {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "2"}]}}},
            id="another victim",
        ),
        pytest.param("filter", ASKED, {"Error": "internal error in filter"}, id="an exception"),
        pytest.param("filter", ASKED, result("a") | {"Error": "x"}, id="an error beside an answer"),
    ],
)
def test_a_wrong_answer_is_noticed(verb: str, asked: object, answer: object) -> None:
    with pytest.raises(Wrong):
        check(verb, json.dumps(asked).encode(), json.dumps(answer).encode())
