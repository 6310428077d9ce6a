"""A ResourceQuota limits what a namespace holds, and its status says what is used."""

from typing import Any

import pytest

from tests.cases import cases
from tests.unit.embedded.api_server import NS, ApiServer, config_map, patched, pod


def asking(name: str, cpu: str, **limits: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu}, "limits": limits}
    container = {"name": "c", "image": "i:1", "resources": resources}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


@pytest.fixture
def server() -> ApiServer:
    server = ApiServer()
    hard = {
        "pods": "2",
        "requests.cpu": "1500m",
        "limits.memory": "3Gi",
        "count/widgets.test.io": "1",
    }
    server.create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    server.request("POST", f"{NS}/pods", asking("a", "1", memory="1Gi"))
    server.settle()
    return server


def used(server: ApiServer) -> dict[str, str]:
    found = server.get("resourcequotas", "q")
    assert found is not None
    counted: dict[str, str] = found["status"]["used"]
    return counted


def test_what_is_used_stands_in_the_status(server: ApiServer) -> None:
    gi = str(1 << 30)
    counts = {"pods": "1", "requests.cpu": "1", "limits.memory": gi, "count/widgets.test.io": "0"}
    assert used(server) == counts
    patched(server, "pods", "a", {"status": {"phase": "Succeeded"}}, "status")
    server.settle()
    assert set(used(server).values()) == {"0"}


@cases(
    ("body", "why"),
    {
        "too much": (
            asking("b", "600m", memory="1Gi"),
            "exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=1, limited: r",
        ),
        "nothing said": (pod("b"), "failed quota: q: must specify limits.memory,requests.cpu"),
    },
)
def test_a_pod_without_room_is_refused(server: ApiServer, body: dict[str, Any], why: str) -> None:
    code, status = server.request("POST", f"{NS}/pods", body)
    said = f'pods "b" is forbidden: {why}'
    assert (code, status["message"][: len(said)]) == (403, said)


def test_a_pod_with_room_is_made_and_the_next_is_one_too_many(server: ApiServer) -> None:
    assert server.request("POST", f"{NS}/pods", asking("b", "500m", memory="1Gi"))[0] == 201
    code, status = server.request("POST", f"{NS}/pods", asking("c", "0", memory="1Gi"))
    assert (code, "requested: pods=1, used: pods=2, limited: pods=2" in status["message"]) == (
        403,
        True,
    )


def test_objects_of_a_kind_are_counted(server: ApiServer) -> None:
    codes = [
        server.request(
            "POST",
            "/apis/test.io/v1/namespaces/ns/widgets",
            {"apiVersion": "test.io/v1", "kind": "Widget", "metadata": {"name": name}},
        )[0]
        for name in "ab"
    ]
    assert codes == [201, 403]
    server.create("configmaps", config_map("other"))


def test_a_quota_of_some_pods_alone_is_not_obeyed() -> None:
    server = ApiServer()
    spec = {"hard": {"pods": "0"}, "scopes": ["BestEffort"]}
    server.create("resourcequotas", {"metadata": {"name": "q"}, "spec": spec})
    assert server.request("POST", f"{NS}/pods", pod())[0] == 201
