"""What an extender is sent and how its answers are read, held to what a real kube-scheduler was
seen to send."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from localcluster.embedded.raw_objects import raw_objects
from localcluster.embedded.scheduler.configuration import ExtenderConfiguration
from localcluster.embedded.scheduler.extenders import (
    ExtenderFailed,
    Filtered,
    HttpExtender,
    question,
)
from tests.cases import cases

WIRE = Path(__file__).resolve().parents[4] / "tests" / "data" / "wire"


class Answering(HttpExtender):
    """An extender with one answer."""

    def __init__(self, answer: Any) -> None:
        super().__init__(ExtenderConfiguration("http://x", "filter", "prioritize", weight=121))
        self._answer = answer

    def _post(self, verb: str, pod: dict[str, Any], nodes: Sequence[str]) -> Any:
        return self._answer


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
    assert question(pod, sent["NodeNames"]) == sent


OFFERED = ("a", "b")


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
    assert Answering(answer).filter({}, OFFERED) == expected


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
        Answering(answer).filter({}, OFFERED)


def test_scores_are_weighed_against_the_schedulers_own() -> None:
    answer = [{"Host": "a", "Score": 10}, {"host": "b"}]
    assert Answering(answer).prioritize({}, OFFERED) == {"a": 12100, "b": 0}


def test_an_extender_that_does_not_filter_keeps_every_node() -> None:
    assert HttpExtender(ExtenderConfiguration("http://x")).filter({}, OFFERED) == Filtered(
        ("a", "b")
    )
