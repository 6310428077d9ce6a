"""Nodes from JSON."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given

from optimus.kube.errors import Malformed
from optimus.kube.nodes import ClusterNode, decode_node
from optimus.nodes import Node, Taint
from optimus.resources import Resources
from tests.unit.kube.test_pods import json_values


def decoded(**fields: Any) -> ClusterNode:
    return decode_node(
        json.dumps(
            {"metadata": {"name": "n1", "uid": "u", "labels": {"a": "b"}}, **fields}
        ).encode()
    )


def test_a_node_is_what_it_offers_and_whom_it_admits() -> None:
    status = {
        "allocatable": {"cpu": "3900m", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": "2"}
    }
    spec = {
        "unschedulable": True,
        "taints": [{"key": "optimus.dl/training", "effect": "NoSchedule"}],
    }
    found = decoded(spec=spec, status=status)
    resources = Resources({"cpu": 3900, "memory": 8 << 30, "pods": 110, "nvidia.com/gpu": 2})
    assert found.node == Node(
        "n1", resources, {"a": "b"}, (Taint("optimus.dl/training"),), cordoned=True
    )
    assert (found.problem, found.namespace) == (None, "")


@pytest.mark.parametrize(
    "fields", [{}, {"spec": None, "status": None}, {"status": {"allocatable": {}}}]
)
def test_a_node_without_capacity_says_so(fields: dict[str, Any]) -> None:
    assert decoded(**fields).problem == "node n1 has no allocatable resources: nothing fits on it"


def test_an_amount_that_is_none_is_refused() -> None:
    with pytest.raises(Malformed, match="cpu: 'lots' is not a quantity"):
        decoded(status={"allocatable": {"cpu": "lots"}})


@given(json_values)
def test_any_json_is_a_node_or_refused(value: object) -> None:
    for candidate in (
        value,
        {"metadata": {"name": "n", "uid": "u"}, "spec": value, "status": value},
    ):
        with suppress(Malformed):
            assert isinstance(decode_node(json.dumps(candidate).encode()), ClusterNode)
