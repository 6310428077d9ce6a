"""What an extender is sent and how its answers are read, held to what a real kube-scheduler was
seen to send."""

import json
from pathlib import Path
from typing import Any

import pytest

from localcluster.embedded.raw_objects import raw_objects
from localcluster.embedded.scheduler.configuration import ExtenderConfiguration
from localcluster.embedded.scheduler.extenders import (
    ExtenderFailed,
    Filtered,
    HttpExtender,
    ask,
    read_filtered,
    read_scores,
)
from tests.cases import cases

WIRE = Path(__file__).resolve().parents[4] / "tests" / "data" / "wire"
EXTENDER = ExtenderConfiguration("http://x", filter_verb="filter")


def recorded() -> list[Path]:
    return [
        path
        for path in sorted(WIRE.glob("*.request.json"))
        if json.loads(path.read_text()).get("NodeNames")
    ]


@pytest.mark.parametrize("path", recorded(), ids=lambda path: path.name)
def test_the_question_is_the_one_that_was_recorded(path: Path) -> None:
    sent = json.loads(path.read_text())
    stored = {**sent["Pod"], "kind": "Pod", "apiVersion": "v1"}
    stored["metadata"] = {**stored["metadata"], "managedFields": [{"manager": "somebody"}]}
    pod = raw_objects("", "v1", "pods", "Pod").decode(json.dumps(stored).encode()).body
    assert ask(pod, {name: {} for name in sent["NodeNames"]}) == sent


OFFERED: dict[str, Any] = {"a": {}, "b": {}}


@cases(
    ("answer", "expected"),
    {
        "names": ({"NodeNames": ["b"]}, Filtered(("b",))),
        "in any case": ({"nodenames": ["b"]}, Filtered(("b",))),
        "nothing": ({}, Filtered(())),
        "null": ({"NodeNames": None}, Filtered(())),
        "reasons": (
            {"NodeNames": [], "FailedNodes": {"a": "x"}, "FailedAndUnresolvableNodes": {"b": "y"}},
            Filtered((), {"a": "x", "b": "y"}),
        ),
    },
)
def test_filters_answer_is_read(answer: Any, expected: Filtered) -> None:
    assert read_filtered(answer, OFFERED, EXTENDER) == expected


@cases(
    ("answer", "why"),
    {
        "an error": ({"Error": "not ready", "NodeNames": ["a"]}, "not ready"),
        "a stranger": ({"NodeNames": ["a", "z"]}, 'claims a filtered node "z" which is not found'),
        "a list": ([], "no object"),
    },
)
def test_an_answer_that_cannot_be_used_says_why(answer: Any, why: str) -> None:
    with pytest.raises(ExtenderFailed, match=why):
        read_filtered(answer, OFFERED, EXTENDER)


def test_scores_are_weighed_against_the_schedulers_own() -> None:
    assert read_scores([{"Host": "a", "Score": 10}, {"host": "b"}], 121) == {"a": 12100, "b": 0}


@pytest.mark.parametrize(
    "answer", [{"Error": "x"}, None, [{"Score": 1}], [{"Host": "a", "Score": 1.5}], ["a"]]
)
def test_scores_of_another_form_are_refused(answer: Any) -> None:
    with pytest.raises(ExtenderFailed):
        read_scores(answer, 1)


def test_an_extender_that_does_not_filter_keeps_every_node() -> None:
    assert HttpExtender(ExtenderConfiguration("http://x")).filter({}, OFFERED) == Filtered(
        ("a", "b")
    )
