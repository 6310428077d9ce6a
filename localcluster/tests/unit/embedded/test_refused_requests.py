"""Requests that are refused, with the codes and messages of a real server."""

from typing import Any

import pytest

from tests.unit.embedded.api_server import NS, WIDGETS_PATH, ApiServer, config_map

STRATEGIC = "application/strategic-merge-patch+json"


@pytest.mark.parametrize(
    ("method", "path", "body", "content", "code", "message"),
    [
        pytest.param(
            "POST",
            f"{NS}/pods/p",
            {},
            "",
            405,
            "the server does not allow this method on the requested resource",
            id="a POST to an object",
        ),
        pytest.param(
            "POST",
            "/api/v1/pods",
            {},
            "",
            405,
            "the server does not allow this method on the requested resource",
            id="a new object in no namespace",
        ),
        pytest.param(
            "GET", f"{NS}/pods/zz", None, "", 404, 'pods "zz" not found', id="no such object"
        ),
        pytest.param(
            "GET",
            f"{WIDGETS_PATH}/zz",
            None,
            "",
            404,
            'widgets.test.io "zz" not found',
            id="no such custom object",
        ),
        pytest.param(
            "POST",
            "/api/v1/namespaces/nope/configmaps",
            config_map("c"),
            "",
            404,
            'namespaces "nope" not found',
            id="no such namespace",
        ),
        pytest.param(
            "POST",
            f"{NS}/configmaps",
            config_map("c"),
            "",
            409,
            'configmaps "c" already exists',
            id="a name that is taken",
        ),
        pytest.param(
            "POST",
            f"{NS}/configmaps",
            config_map("d", namespace="x"),
            "",
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
            id="another namespace",
        ),
        pytest.param(
            "POST",
            f"{NS}/configmaps",
            {"data": {}},
            "",
            422,
            (
                'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is '
                "required"
            ),
            id="no name",
        ),
        pytest.param(
            "POST",
            f"{NS}/configmaps",
            config_map("d", resourceVersion="5"),
            "",
            500,
            "resourceVersion should not be set on objects to be created",
            id="a version before there is one",
        ),
        pytest.param(
            "POST",
            f"{NS}/pods",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}},
            "",
            400,
            "the kind in the data (ConfigMap) does not match Pod",
            id="another kind",
        ),
        pytest.param(
            "POST",
            f"{NS}/pods",
            b"{",
            "",
            400,
            "couldn't get version/kind; json parse error: Input data was truncated",
            id="half a body",
        ),
        pytest.param(
            "POST",
            f"{NS}/pods",
            b"x",
            "text/plain",
            415,
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json, application/yaml",
            id="a body in another format",
        ),
        pytest.param(
            "POST",
            WIDGETS_PATH,
            {"apiVersion": "test.io/v2", "kind": "Widget", "metadata": {"name": "w"}},
            "",
            400,
            (
                "the API version in the data (test.io/v2) does not match the expected API version "
                "(test.io/v1)"
            ),
            id="another version",
        ),
        pytest.param(
            "POST",
            WIDGETS_PATH,
            {"apiVersion": "test.io/v1", "kind": "Gadget", "metadata": {"name": "w"}},
            "",
            400,
            "the kind in the data (Gadget) does not match Widget",
            id="another custom kind",
        ),
        pytest.param(
            "PUT",
            f"{NS}/configmaps/c",
            config_map("d"),
            "",
            400,
            "the name of the object (d) does not match the name on the URL (c)",
            id="another name",
        ),
        pytest.param(
            "PATCH",
            f"{NS}/configmaps/c",
            {},
            "application/json",
            415,
            "the body of the request was in an unknown format - accepted media types include: "
            "application/apply-patch+yaml, application/json-patch+json, "
            "application/merge-patch+json",
            id="a patch of no kind",
        ),
        pytest.param(
            "PATCH",
            f"{WIDGETS_PATH}/w",
            {},
            STRATEGIC,
            415,
            "the body of the request was in an unknown format - accepted media types include: "
            "application/apply-patch+yaml, application/json-patch+json, "
            "application/merge-patch+json",
            id="a strategic patch of a custom object",
        ),
    ],
)
def test_refusals(method: str, path: str, body: Any, content: str, code: int, message: str) -> None:
    server = ApiServer()
    server.create("configmaps", config_map("c"))
    server.create("widgets", {"metadata": {"name": "w"}, "spec": {"size": 1}})
    answered, response = server.request(method, path, body, content or "application/json")
    assert (answered, response["code"], response["message"]) == (code, code, message)
    assert (response["kind"], response["status"]) == ("Status", "Failure")


def test_what_a_refusal_is_about_is_in_its_details() -> None:
    server = ApiServer()
    assert server.request("GET", f"{WIDGETS_PATH}/zz")[1]["details"] == {
        "name": "zz",
        "group": "test.io",
        "kind": "widgets",
    }
    details = server.request("POST", f"{NS}/pods", {"metadata": {"name": "q"}, "spec": {}})[1][
        "details"
    ]
    cause = {
        "reason": "FieldValueRequired",
        "message": "Required value",
        "field": "spec.containers",
    }
    assert details == {"name": "q", "kind": "Pod", "causes": [cause]}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("GET", "pods?watch=true&timeoutSeconds=x", id="a time in letters"),
        pytest.param("GET", "pods?limit=x", id="a limit in letters"),
        pytest.param("DELETE", "configmaps/c?gracePeriodSeconds=x", id="a grace period in letters"),
        pytest.param("DELETE", "configmaps/c?propagationPolicy=Orphan", id="orphans"),
        pytest.param("DELETE", "configmaps/c?dryRun=All", id="a dry run"),
    ],
)
def test_an_option_that_is_not_served_is_refused_and_nothing_is_done(
    method: str, path: str
) -> None:
    server = ApiServer()
    server.create("configmaps", config_map("c"))
    assert server.request(method, f"{NS}/{path}")[0] == 400
    assert server.get("configmaps", "c") is not None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"metadata": {"annotations": {"a": 1}}}, id="a number as an annotation"),
        pytest.param({"metadata": {"labels": []}}, id="a list of labels"),
        pytest.param({"data": {"a": True}}, id="a truth as data"),
    ],
)
def test_what_is_no_string_is_not_stored(change: dict[str, Any]) -> None:
    server = ApiServer()
    server.create("configmaps", config_map("c"))
    merge = "application/merge-patch+json"
    code, _ = server.request("PATCH", f"{NS}/configmaps/c", change, merge)
    assert code in {400, 422}
