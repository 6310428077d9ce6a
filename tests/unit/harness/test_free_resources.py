"""Free room as the scenarios work it out from stored objects."""

from typing import Any

import pytest

from tests.harness.free_resources import admits, amount, free_resources, requests_of


@pytest.mark.parametrize(
    ("resource", "quantity", "units"),
    [
        pytest.param("cpu", "500m", 500, id="millicores"),
        pytest.param("cpu", "1.5", 1500, id="cores with a fraction"),
        pytest.param("memory", "64Mi", 64 * 2**20, id="binary suffix"),
        pytest.param("memory", "2G", 2 * 10**9, id="decimal suffix"),
        pytest.param("pods", "110", 110, id="pieces"),
    ],
)
def test_quantities(resource: str, quantity: str, units: int) -> None:
    assert amount(resource, quantity) == units


def _container(cpu: str, **more: str) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}}, **more}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param(
            {"containers": [_container("1"), _container("500m")]}, 1500, id="containers are summed"
        ),
        pytest.param(
            {"containers": [_container("1")], "initContainers": [_container("3")]},
            3000,
            id="a greater init container",
        ),
        pytest.param(
            {
                "containers": [_container("1")],
                "initContainers": [_container("1", restartPolicy="Always")],
            },
            2000,
            id="a sidecar runs beside them",
        ),
    ],
)
def test_what_a_pod_asks_for(spec: dict[str, Any], cpu: int) -> None:
    assert requests_of(spec) == {"cpu": cpu, "pods": 1}


def _node(**spec: Any) -> dict[str, Any]:
    allocatable = {"cpu": "4", "pods": "10"}
    return {
        "metadata": {"name": "n1", "labels": {"pool": "a"}},
        "spec": spec,
        "status": {"allocatable": allocatable},
    }


TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("node", "template", "allowed"),
    [
        pytest.param(_node(), {}, True, id="nothing speaks against it"),
        pytest.param(_node(), {"nodeSelector": {"pool": "b"}}, False, id="another pool is wanted"),
        pytest.param(_node(unschedulable=True), {}, False, id="the node is cordoned"),
        pytest.param(_node(taints=[TAINT]), {}, False, id="a taint that nobody tolerates"),
        pytest.param(
            _node(taints=[TAINT]),
            {"tolerations": [{"key": "k", "operator": "Exists"}]},
            True,
            id="key tolerated",
        ),
        pytest.param(
            _node(taints=[TAINT]),
            {"tolerations": [{"key": "k", "value": "v"}]},
            True,
            id="key and value tolerated",
        ),
        pytest.param(
            _node(taints=[TAINT]),
            {"tolerations": [{"key": "k", "value": "w"}]},
            False,
            id="another value tolerated",
        ),
    ],
)
def test_which_nodes_a_template_may_go_to(
    node: dict[str, Any], template: dict[str, Any], allowed: bool
) -> None:
    assert admits(node, template) is allowed


def test_free_resources_exclude_running_pods_and_include_ended_ones() -> None:
    spec = {"containers": [_container("1")], "nodeName": "n1"}
    pods = [
        {"spec": spec, "status": {"phase": "Running"}},
        {"spec": spec, "status": {"phase": "Pending"}},
        {"spec": spec, "status": {"phase": "Succeeded"}},
        {"spec": {**spec, "nodeName": "n2"}, "status": {"phase": "Running"}},
    ]
    assert free_resources([_node()], pods, {}) == {"n1": {"cpu": 2000, "pods": 8}}
