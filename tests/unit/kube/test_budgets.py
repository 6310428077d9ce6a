"""PodDisruptionBudgets as the API server has them."""

import json
from typing import Any, cast

from optimus.kube.budgets import Budget, BudgetReader
from optimus.kube.client import Client
from optimus.kube.errors import ErrorKind, KubeError
from optimus.kube.results import Refused
from tests.cases import cases


class Answers:
    """A client that answers one body, or fails."""

    def __init__(self, answer: dict[str, Any] | KubeError) -> None:
        self._answer = answer

    def get(self, what: str, path: str) -> bytes:
        assert (what, path) == ("list PodDisruptionBudgets", "/apis/policy/v1/poddisruptionbudgets")
        if isinstance(self._answer, KubeError):
            raise self._answer
        return json.dumps(self._answer).encode()


def read(answer: dict[str, Any] | KubeError) -> tuple[Budget, ...] | Refused:
    return BudgetReader(cast("Client", Answers(answer))).read()


def budget(selector: dict[str, Any] | None, allowed: int | None = 1) -> Budget:
    status = {} if allowed is None else {"status": {"disruptionsAllowed": allowed}}
    spec = {"minAvailable": 1} | ({} if selector is None else {"selector": selector})
    found = read(
        {"items": [{"metadata": {"name": "b", "namespace": "ns"}, "spec": spec, **status}]}
    )
    assert not isinstance(found, Refused)
    (one,) = found
    return one


LABELS = (("app", "train"), ("role", "ps"))


@cases(
    ("selector", "protects"),
    {
        "by a label": ({"matchLabels": {"app": "train"}}, True),
        "of another value": ({"matchLabels": {"app": "serve"}}, False),
        "by an expression": (
            {"matchExpressions": [{"key": "role", "operator": "In", "values": ["ps", "x"]}]},
            True,
        ),
        "an empty selector selects every pod": ({}, True),
        "none selects nothing": (None, False),
    },
)
def test_whose_pods_are_protected(selector: dict[str, Any] | None, protects: bool) -> None:
    assert budget(selector).protects("ns", LABELS) == protects
    assert not budget(selector).protects("other", LABELS)


def test_a_budget_without_a_status_allows_nothing() -> None:
    assert (budget({}, None).allowed, budget({}, 3).allowed) == (0, 3)


def test_a_cluster_without_budgets_has_none() -> None:
    assert read({"items": None}) == ()
    assert read(KubeError(ErrorKind.NOT_FOUND, "no such resource")) == ()


def test_what_may_not_be_read_is_refused() -> None:
    found = read(KubeError(ErrorKind.FORBIDDEN, "no right"))
    assert isinstance(found, Refused)
    assert found.kind is ErrorKind.FORBIDDEN
