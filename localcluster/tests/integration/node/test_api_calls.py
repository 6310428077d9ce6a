"""Calls with JSON objects against a server that refuses, and kubeconfigs."""

import base64
import json
import socket
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from kubernetes.config import ConfigException
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from localcluster.api_calls import STRATEGIC_PATCH, ApiCalls, object_path
from localcluster.kubeconfig import kubeconfig_body, read_kubeconfig
from optimus.kube.client import connect
from optimus.kube.errors import ErrorKind, KubeError


def calls_on(url: str, folder: Path) -> ApiCalls:
    """Calls as the user of a kubeconfig with a token."""
    path = folder / "kubeconfig"
    path.write_text(json.dumps(kubeconfig_body(url.rstrip("/"), "", {"token": "secret"})))
    return ApiCalls(connect(path, user_agent="test"))


@pytest.fixture
def api(httpserver: HTTPServer, tmp_path: Path) -> ApiCalls:
    """Calls on the test's server."""
    return calls_on(httpserver.url_for(""), tmp_path)


def test_calls_carry_the_token_and_the_kind_of_patch(api: ApiCalls, httpserver: HTTPServer) -> None:
    requests = []

    def answer(request: Request) -> Response:
        kind = request.headers.get("Content-Type")
        requests.append((request.method, kind, request.headers["Authorization"]))
        return Response(request.get_data() or b"{}", mimetype="application/json")

    httpserver.expect_request("/x").respond_with_handler(answer)
    assert api.get("/x?limit=1") == {}
    assert api.create("/x", {"a": 1}) == {"a": 1}
    api.patch("/x", {"a": 1})
    api.patch("/x", {"a": 1}, STRATEGIC_PATCH)
    assert api.patch("/x", {"a": 1}, "application/apply-patch+yaml") == {"a": 1}
    api.delete("/x", {"gracePeriodSeconds": 0})
    assert [each[2] for each in requests] == ["Bearer secret"] * 6
    assert [each[:2] for each in requests[1:]] == [
        ("POST", "application/json"),
        ("PATCH", "application/merge-patch+json"),
        ("PATCH", "application/strategic-merge-patch+json"),
        ("PATCH", "application/apply-patch+yaml"),
        ("DELETE", "application/json"),
    ]


def test_a_refused_call_raises_with_the_servers_message(
    api: ApiCalls, httpserver: HTTPServer
) -> None:
    httpserver.expect_request("/x").respond_with_data('{"message": "no such pod"}', status=404)
    with pytest.raises(KubeError, match="cannot GET /x: no such pod") as caught:
        api.get("/x")
    assert caught.value.kind is ErrorKind.NOT_FOUND


def test_a_response_that_is_not_an_object_is_an_error(
    api: ApiCalls, httpserver: HTTPServer
) -> None:
    httpserver.expect_request("/x").respond_with_data("<html>")
    with pytest.raises(KubeError, match="the answer is no object") as caught:
        api.get("/x")
    assert caught.value.kind is ErrorKind.TRANSIENT


def test_an_unreachable_server_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(KubeError) as caught:
        calls_on(f"http://127.0.0.1:{port}", tmp_path).get("/x")
    assert caught.value.kind is ErrorKind.TRANSIENT


def test_paths_of_objects() -> None:
    assert object_path("pods", "ns", "p", "status") == "/api/v1/namespaces/ns/pods/p/status"
    assert object_path("events", "ns") == "/api/v1/namespaces/ns/events"


def kubeconfig(folder: Path, user: dict[str, Any], cluster: dict[str, Any]) -> Path:
    """Write a kubeconfig."""
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:6443/", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def test_a_kubeconfig_may_name_files_or_embed_their_contents(tmp_path: Path) -> None:
    authority = trustme.CA()
    client = authority.issue_cert("client")
    (tmp_path / "ca").write_bytes(authority.cert_pem.bytes())
    (tmp_path / "cert").write_bytes(client.cert_chain_pems[0].bytes())
    (tmp_path / "key").write_bytes(client.private_key_pem.bytes())
    (tmp_path / "token").write_text("secret\n")
    files = {"client-certificate": "cert", "client-key": "key", "tokenFile": "token"}
    found = read_kubeconfig(kubeconfig(tmp_path, files, {"certificate-authority": "ca"}))
    assert (found.server, found.token) == ("https://127.0.0.1:6443", "secret")
    inline = {
        f"{name}-data": base64.b64encode((tmp_path / file).read_bytes()).decode()
        for name, file in (("client-certificate", "cert"), ("client-key", "key"))
    }
    data = base64.b64encode(authority.cert_pem.bytes()).decode()
    again = read_kubeconfig(kubeconfig(tmp_path, inline, {"certificate-authority-data": data}))
    assert (again.ca_pem, again.token) == (found.ca_pem, None)


def test_a_kubeconfig_without_a_context_is_refused_with_a_message(tmp_path: Path) -> None:
    (tmp_path / "k").write_text("kind: Config\n")
    with pytest.raises(ConfigException, match="current-context"):
        read_kubeconfig(tmp_path / "k")
