"""The agent's client against a server that refuses, cuts and stalls."""

import base64
import json
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from localcluster.node.api import Api, ApiError, Credentials, object_path, pod_path, read_kubeconfig


@pytest.fixture
def api(httpserver: HTTPServer) -> Api:
    """A client of the test's server."""
    return Api(
        Credentials(httpserver.url_for("").rstrip("/"), "", ssl.create_default_context(), "secret")
    )


def test_calls_carry_the_token_and_the_kind_of_patch(api: Api, httpserver: HTTPServer) -> None:
    kinds = []

    def answer(request: Request) -> Response:
        kinds.append(
            (request.method, request.headers.get("Content-Type"), request.headers["Authorization"])
        )
        return Response(
            json.dumps({"ok": request.get_json(silent=True)}), mimetype="application/json"
        )

    httpserver.expect_request("/x").respond_with_handler(answer)
    assert api.get("/x") == {"ok": None}
    assert api.create("/x", {"a": 1}) == {"ok": {"a": 1}}
    api.merge("/x", {})
    api.patch("/x", {})
    api.delete("/x", {"gracePeriodSeconds": 0})
    assert kinds == [
        ("GET", None, "Bearer secret"),
        ("POST", "application/json", "Bearer secret"),
        ("PATCH", "application/merge-patch+json", "Bearer secret"),
        ("PATCH", "application/strategic-merge-patch+json", "Bearer secret"),
        ("DELETE", "application/json", "Bearer secret"),
    ]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        pytest.param(
            '{"message": "pods \\"p\\" not found"}', 'pods "p" not found', id="a Status object"
        ),
        pytest.param("plain", "plain", id="plain text"),
        pytest.param("", "GET /x: HTTP 404", id="nothing at all"),
    ],
)
def test_a_refusal_says_what_the_server_said(
    api: Api, httpserver: HTTPServer, body: str, sentence: str
) -> None:
    httpserver.expect_request("/x").respond_with_data(body, status=404)
    with pytest.raises(ApiError, match=sentence) as caught:
        api.get("/x")
    assert caught.value.status == 404


def test_an_answer_that_is_no_json_is_an_error(api: Api, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/x").respond_with_data("<html>")
    with pytest.raises(ApiError, match="no JSON") as caught:
        api.get("/x")
    assert caught.value.status == 0


def test_a_server_that_is_not_there_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    api = Api(Credentials(f"http://127.0.0.1:{port}", "", ssl.create_default_context(), None))
    with pytest.raises(ApiError) as caught:
        api.get("/x")
    assert caught.value.status == 0


def test_a_watch_yields_event_by_event_however_the_stream_is_cut_into_pieces(
    api: Api, httpserver: HTTPServer
) -> None:
    events: list[dict[str, Any]] = [{"type": "ADDED", "object": {"n": index}} for index in range(3)]
    text = "".join(json.dumps(each) + "\n" for each in events)

    def answer(request: Request) -> Response:
        assert request.args["watch"] == "true"
        assert request.args["resourceVersion"] == "7"
        return Response(
            (text[at : at + 5] for at in range(0, len(text), 5)), mimetype="application/json"
        )

    httpserver.expect_request("/w").respond_with_handler(answer)
    assert list(api.watch("/w", "7", 5)) == events


def test_a_watch_of_nonsense_is_an_error(api: Api, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/w").respond_with_data("{}\n{broken\n")
    stream = api.watch("/w", "7", 5)
    assert next(stream) == {}
    with pytest.raises(ApiError, match="broke"):
        next(stream)


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


def test_a_kubeconfig_names_files_or_holds_what_is_in_them(tmp_path: Path) -> None:
    authority = trustme.CA()
    client = authority.issue_cert("client")
    (tmp_path / "ca").write_bytes(authority.cert_pem.bytes())
    (tmp_path / "cert").write_bytes(client.cert_chain_pems[0].bytes())
    (tmp_path / "key").write_bytes(client.private_key_pem.bytes())
    (tmp_path / "token").write_text("secret\n")
    files = {"client-certificate": "cert", "client-key": "key", "tokenFile": "token"}
    found = read_kubeconfig(kubeconfig(tmp_path, files, {"certificate-authority": "ca"}))
    assert (found.host, found.port, found.token) == ("127.0.0.1", 6443, "secret")
    inline = {
        f"{name}-data": base64.b64encode((tmp_path / file).read_bytes()).decode()
        for name, file in (("client-certificate", "cert"), ("client-key", "key"))
    }
    data = base64.b64encode(authority.cert_pem.bytes()).decode()
    again = read_kubeconfig(kubeconfig(tmp_path, inline, {"certificate-authority-data": data}))
    assert (again.ca_pem, again.token) == (found.ca_pem, None)


def test_a_kubeconfig_without_a_context_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "k").write_text("kind: Config\n")
    with pytest.raises(ValueError, match="no complete current context"):
        read_kubeconfig(tmp_path / "k")


def test_paths_of_objects() -> None:
    assert pod_path("ns", "p", "status") == "/api/v1/namespaces/ns/pods/p/status"
    assert object_path("events", "ns") == "/api/v1/namespaces/ns/events"
