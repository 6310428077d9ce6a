"""Pods that are invalid, found here and not on the first real cluster."""

from typing import Any

import pytest

from tests.conformance.api.conftest import refusal_message
from tests.conformance.api_calls import ApiCalls, Json, pod

PODS = "/api/v1/namespaces/{ns}/pods"


def container(**rest: Any) -> Json:
    return {"containers": [{"name": "main", "image": "image:1", **rest}]}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"restartPolicy": "No"},
            (
                'spec.restartPolicy: Unsupported value: "No": supported values: "Always", '
                '"OnFailure", "Never"'
            ),
            id="a restart policy that is none",
        ),
        pytest.param(
            {"containers": container()["containers"] * 2},
            'spec.containers[1].name: Duplicate value: "main"',
            id="two containers of one name",
        ),
        pytest.param(
            container(volumeMounts=[{"name": "data", "mountPath": "/data"}]),
            'spec.containers[0].volumeMounts[0].name: Not found: "data"',
            id="a mount of a volume that is not there",
        ),
        pytest.param(
            container(resources={"requests": {"cpu": "-1"}}),
            (
                'spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater '
                "than or equal to 0"
            ),
            id="less than nothing",
        ),
        pytest.param(
            container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}}),
            'spec.containers[0].resources.requests: Invalid value: "2": must be less than or '
            "equal to cpu limit of"
            " 1500m",
            id="more than the limit",
        ),
        pytest.param(
            container(resources={"requests": {"nvidia.com/gpu": "1"}}),
            (
                "spec.containers[0].resources.limits: Required value: Limit must be set for non "
                "overcommitable resources"
            ),
            id="a GPU without a limit",
        ),
        pytest.param(
            {**container(image=""), "restartPolicy": "No"},
            "[spec.containers[0].image: Required value,"
            ' spec.restartPolicy: Unsupported value: "No": supported values: "Always", '
            '"OnFailure", "Never"]',
            id="two mistakes, in order",
        ),
    ],
)
def test_a_pod_that_cannot_run_is_refused(
    api: ApiCalls, namespace: str, spec: Json, message: str
) -> None:
    path = PODS.format(ns=namespace)
    found = refusal_message(api, 422, f"POST {path}", pod("p", **spec), "")
    assert found == f'Pod "p" is invalid: {message}'


def test_a_binding_of_another_pod_than_the_path_names_is_refused(
    api: ApiCalls, populated: str
) -> None:
    path = f"{PODS.format(ns=populated)}/p"
    body = {"metadata": {"name": "q"}, "target": {"kind": "Node", "name": "n"}}
    found = refusal_message(api, 400, f"POST {path}/binding", body)
    assert found == "name in URL does not match name in Binding object"
    assert "nodeName" not in api.get(path)["spec"]
