"""Tables that kubectl prints, and the OpenAPI document that lets it write."""

from typing import Any

import msgspec

from localcluster.embedded.apiserver.wire import Request, Response
from tests.unit.embedded.api_server import WIDGETS, ApiServer, pod

NS = "/api/v1/namespaces/ns"
COLUMNS = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
    {"name": "State", "type": "string", "jsonPath": ".status.conditions[-1:].type"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


def printed(server: ApiServer, path: str) -> list[list[Any]]:
    """The rows of a table, its heading first."""
    accept = b"application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    answer = server.routes.handle(Request("GET", path, {}, accept=accept))
    assert isinstance(answer, Response)
    body = msgspec.json.decode(answer.body)
    assert body["kind"] == "Table"
    shown = [place for place, each in enumerate(body["columnDefinitions"]) if each["priority"] == 0]
    rows = [
        [each["name"] for each in body["columnDefinitions"]],
        *(each["cells"] for each in body["rows"]),
    ]
    return [[row[place] for place in shown] for row in rows]


def test_pods_are_printed_as_kubectl_prints_them() -> None:
    server = ApiServer()
    server.create("pods", pod())
    server.clock.pass_seconds(90)
    heading = ["Name", "Ready", "Status", "Restarts", "Age"]
    assert printed(server, f"{NS}/pods") == [heading, ["p", "0/1", "Pending", "0", "90s"]]
    assert printed(server, f"{NS}/pods/p") == printed(server, f"{NS}/pods")


def test_a_pods_status_is_the_reason_of_its_container() -> None:
    server = ApiServer()
    server.create("pods", pod())
    status = {
        "ready": False,
        "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    }
    body = {"status": {"containerStatuses": [status]}}
    server.request("PATCH", f"{NS}/pods/p/status", body, "application/merge-patch+json")
    assert printed(server, f"{NS}/pods")[1][1:4] == ["0/1", "CrashLoopBackOff", "3"]


def test_custom_resources_have_the_columns_of_their_definition() -> None:
    server = ApiServer()
    versions: Any = [{**WIDGETS["spec"]["versions"][0], "additionalPrinterColumns": COLUMNS}]  # type: ignore[index]
    patch = {"spec": {"versions": versions}}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.test.io"
    server.request("PATCH", path, patch, "application/merge-patch+json")
    server.settle()
    server.create("widgets", {"metadata": {"name": "w"}, "spec": {"size": 2}})
    rows = printed(server, "/apis/test.io/v1/namespaces/ns/widgets")
    assert rows == [["Name", "Size", "State", "Age"], ["w", 2, None, "0s"]]


def test_openapi_says_that_the_server_validates_fields() -> None:
    server = ApiServer()
    index = server.request("GET", "/openapi/v3")[1]["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/test.io/v1"} <= set(index)
    code, document = server.request("GET", index["apis/test.io/v1"]["serverRelativeURL"])
    (patch,) = [each["patch"] for each in document["paths"].values()]
    assert code == 200
    assert patch["x-kubernetes-group-version-kind"] == {
        "group": "test.io",
        "version": "v1",
        "kind": "Widget",
    }
    assert "fieldValidation" in [each["name"] for each in patch["parameters"]]
    assert server.request("GET", "/openapi/v3/apis/none/v1")[0] == 404
