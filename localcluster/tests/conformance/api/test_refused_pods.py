"""Pods that cannot be, and what cannot be asked of one: found here, not on the first real
cluster."""

from typing import Any

import pytest

from tests.conformance.api.conftest import refusal_message
from tests.conformance.api_calls import MERGE, ApiCalls, Json, pod

PODS = "/api/v1/namespaces/{ns}/pods"
LABEL = (
    "must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character"
)
KEY = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric"
    " character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


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
            container(name="Main"),
            f'spec.containers[0].name: Invalid value: "Main": a lowercase RFC 1123 label {LABEL}'
            " (e.g. 'my-name',  or '123-abc', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            id="a container's name",
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
            container(
                resources={"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}}
            ),
            (
                'spec.containers[0].resources.requests: Invalid value: "1": must be equal to '
                "nvidia.com/gpu limit of 2"
            ),
            id="a part of the GPUs of the limit",
        ),
        pytest.param(
            container(resources={"limits": {"nvidia.com/gpu": "0.5"}}),
            '[spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be '
            "an integer,"
            ' spec.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: "500m": must '
            "be an integer]",
            id="half a GPU",
        ),
        pytest.param(
            {"tolerations": [{"key": "a", "operator": "Is"}]},
            (
                'spec.tolerations[0].operator: Unsupported value: "Is": supported values: "Equal", '
                '"Exists"'
            ),
            id="an operator of a toleration",
        ),
        pytest.param(
            {"nodeSelector": {"a b": "c"}},
            f'spec.nodeSelector: Invalid value: "a b": {KEY}',
            id="a label of nodes that none can have",
        ),
        pytest.param(
            {**container(name="A", image=""), "restartPolicy": "No"},
            f'[spec.containers[0].name: Invalid value: "A": a lowercase RFC 1123 label {LABEL}'
            " (e.g. 'my-name',  or '123-abc', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?'),"
            " spec.containers[0].image: Required value,"
            ' spec.restartPolicy: Unsupported value: "No": supported values: "Always", '
            '"OnFailure", "Never"]',
            id="three mistakes, in order",
        ),
    ],
)
def test_a_pod_that_cannot_run_is_refused(
    api: ApiCalls, namespace: str, spec: Json, message: str
) -> None:
    path = PODS.format(ns=namespace)
    found = refusal_message(api, 422, f"POST {path}", pod("p", **spec), "")
    assert found == f'Pod "p" is invalid: {message}'


def test_a_priority_that_is_not_the_classes_is_refused(api: ApiCalls, namespace: str) -> None:
    found = refusal_message(api, 403, f"POST {PODS.format(ns=namespace)}", pod("p", priority=5))
    assert found == (
        'pods "p" is forbidden: the integer value of priority (5) must not be provided in pod '
        "spec; priority admission"
        " controller computed 0 from the given PriorityClass name"
    )


def test_a_pod_behind_a_gate_says_so_and_takes_no_further_one(
    api: ApiCalls, namespace: str
) -> None:
    path = PODS.format(ns=namespace)
    made = api.request("POST", path, pod("p", schedulingGates=[{"name": "test/one"}]))
    (condition,) = made["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "SchedulingGated",
    )
    more = {"spec": {"schedulingGates": [{"name": "test/one"}, {"name": "test/two"}]}}
    found = refusal_message(api, 422, f"PATCH {path}/p", more, MERGE)
    sentence = "only deletion is allowed, but found new scheduling gate 'test/two'"
    assert found == f'Pod "p" is invalid: spec.schedulingGates[1].name: Forbidden: {sentence}'


def test_amounts_are_stored_with_the_largest_unit_that_needs_no_fraction(
    api: ApiCalls, namespace: str
) -> None:
    amounts = {"cpu": "0.5", "memory": "1.5Gi", "ephemeral-storage": "2000k"}
    body = pod("p", **container(resources={"requests": amounts}))
    made = api.request("POST", PODS.format(ns=namespace), body)
    assert made["spec"]["containers"][0]["resources"]["requests"] == {
        "cpu": "500m",
        "memory": "1536Mi",
        "ephemeral-storage": "2M",
    }


@pytest.mark.parametrize(
    ("query", "message"),
    [
        pytest.param(
            {"tailLines": "-1"},
            "tailLines: Invalid value: -1: must be greater than or equal to 0",
            id="fewer lines than none",
        ),
        pytest.param(
            {"limitBytes": "0"},
            "limitBytes: Invalid value: 0: must be greater than 0",
            id="no bytes at all",
        ),
        pytest.param(
            {"sinceTime": "2026-01-01T00:00:00Z", "sinceSeconds": "5"},
            "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
            id="since two instants",
        ),
    ],
)
def test_a_log_cannot_be_read_so(
    api: ApiCalls, populated: str, query: dict[str, str], message: str
) -> None:
    path = f"{PODS.format(ns=populated)}/p/log"
    assert (
        refusal_message(api, 422, f"GET {path}", **query)
        == f'PodLogOptions "p" is invalid: {message}'
    )


def test_a_binding_or_an_eviction_of_another_pod_than_the_path_names_is_refused(
    api: ApiCalls, populated: str
) -> None:
    path = f"{PODS.format(ns=populated)}/p"
    for part, kind in (("binding", "Binding"), ("eviction", "Eviction")):
        body = {"metadata": {"name": "q"}, "target": {"kind": "Node", "name": "n"}}
        found = refusal_message(api, 400, f"POST {path}/{part}", body)
        assert found == f"name in URL does not match name in {kind} object"
    assert "nodeName" not in api.get(path)["spec"]


@pytest.mark.parametrize("part", ["binding", "eviction"])
def test_a_dry_run_of_a_pods_part_changes_nothing(api: ApiCalls, populated: str, part: str) -> None:
    path = f"{PODS.format(ns=populated)}/p"
    before = api.get(path)
    body = (
        {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
        if part == "binding"
        else None
    )
    api.request("POST", f"{path}/{part}", body or {"metadata": {"name": "p"}}, dryRun="All")
    assert api.get(path) == before
