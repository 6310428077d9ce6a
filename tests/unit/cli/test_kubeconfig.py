"""A person's connection by the plain entries of a kubeconfig, beside that of the client library."""

import base64
import json
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from optimus.cli.kubeconfig import connect_user, user_access
from optimus.kube.client import connect
from optimus.kube.errors import KubeError
from tests.cases import cases

Written = Callable[..., Path]


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration of whoever runs the tests is found."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def server(authority: trustme.CA) -> Iterator[HTTPServer]:
    """Answers with the token that it is shown; whoever has no certificate of the authority is cut
    off."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    with HTTPServer(host="localhost", ssl_context=context) as found:

        def answer(request: Request) -> Response:
            asked = {"token": request.headers.get("authorization"), "path": request.full_path}
            acting = {name: value for name, value in request.headers if name.startswith("Imp")}
            agent = request.headers["User-Agent"]
            return Response(json.dumps(asked | {"agent": agent, "as": acting}))

        found.expect_request("/api").respond_with_handler(answer)
        yield found


@pytest.fixture
def kubeconfig(tmp_path: Path, server: HTTPServer, authority: trustme.CA) -> Written:
    known = authority.issue_cert("me@example.org")
    pem = b"".join(each.bytes() for each in known.cert_chain_pems)
    (tmp_path / "me.crt").write_bytes(pem)
    (tmp_path / "me.key").write_bytes(known.private_key_pem.bytes())
    (tmp_path / "ca.crt").write_bytes(authority.cert_pem.bytes())
    (tmp_path / "token").write_text("of a file\n")

    def write(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> Path:
        known_by = {"certificate-authority": "ca.crt", "server": server.url_for("")}
        certified = {"client-certificate": "me.crt", "client-key": "me.key"}
        document = {
            "clusters": [{"name": "c", "cluster": known_by if cluster is None else cluster}],
            "users": [{"name": "u", "user": certified | (user or {})}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path = tmp_path / "config"
        path.write_text(json.dumps(document))
        return path

    return write


def asked(path: Path, context: str | None = None) -> dict[str, Any]:
    client = connect_user(path, context, user_agent="optimus-test")
    try:
        found: dict[str, Any] = json.loads(client.get("ask", "/api", [("a", "b c")]))
    finally:
        client.close()
    return found


@cases(
    ("user", "token"),
    {
        "a certificate alone": ({}, None),
        "a token": ({"token": "of mine"}, "Bearer of mine"),
        "the file of a token": ({"tokenFile": "token"}, "Bearer of a file"),
    },
)
def test_the_server_is_asked_as_the_kubeconfig_says(
    kubeconfig: Written, user: dict[str, Any], token: str | None
) -> None:
    path = kubeconfig(user=user)
    assert user_access(path, None, "agent") is not None
    assert asked(path) == {"token": token, "path": "/api?a=b+c", "agent": "optimus-test", "as": {}}
    library = connect(path, user_agent="optimus-test")
    assert json.loads(library.get("ask", "/api", [("a", "b c")]))["token"] == token
    library.close()


@pytest.mark.parametrize("by_library", [False, True])
def test_another_user_is_acted_as_with_every_group(
    kubeconfig: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_library: bool
) -> None:
    others = {"as-uid": "7", "as-groups": ["g", "h"], "as-user-extra": {"a/b": ["x", "y"]}}
    path = kubeconfig(user={"as": "you", **others})
    if by_library:
        second = tmp_path / "second"
        second.write_text("{}")
        monkeypatch.setenv("KUBECONFIG", f"{path}:{second}")
    client = connect_user(None if by_library else path, None, user_agent="optimus-test")
    expected = {
        "Impersonate-User": "you",
        "Impersonate-Uid": "7",
        # This server joins the values of repeated headers by a comma without a blank.
        "Impersonate-Group": "g,h",
        "Impersonate-Extra-A%2Fb": "x,y",
    }
    assert json.loads(client.get("ask", "/api"))["as"] == expected
    client.close()


def test_data_within_the_kubeconfig_stand_for_files(
    kubeconfig: Written, tmp_path: Path, server: HTTPServer
) -> None:
    def data(name: str) -> str:
        return base64.b64encode((tmp_path / name).read_bytes()).decode()

    named = {"certificate-authority-data": data("ca.crt"), "server": server.url_for("")}
    user = {"client-certificate-data": data("me.crt"), "client-key-data": data("me.key")}
    assert asked(kubeconfig(named, user), "x")["token"] is None


def test_a_server_of_another_authority_is_not_believed(kubeconfig: Written, tmp_path: Path) -> None:
    path = kubeconfig()
    (tmp_path / "ca.crt").write_bytes(trustme.CA().cert_pem.bytes())
    with pytest.raises(KubeError, match="CERTIFICATE_VERIFY_FAILED"):
        asked(path)


@cases(
    ("cluster", "user"),
    {
        "a plugin": (None, {"exec": {"command": "aws"}}),
        "a password": (None, {"username": "me", "password": "p"}),
        "a proxy": ({"server": "https://127.0.0.1:1", "proxy-url": "http://127.0.0.1:2"}, None),
        "no server": ({}, None),
        "no verification": (
            {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True},
            None,
        ),
        "a file that is not there": (None, {"tokenFile": "none"}),
    },
)
def test_what_else_a_kubeconfig_says_is_left_to_the_library(
    kubeconfig: Written, cluster: dict[str, Any] | None, user: dict[str, Any] | None
) -> None:
    assert user_access(kubeconfig(cluster, user), None, "agent") is None


def test_neither_is_a_proxy_of_the_environment_or_a_context_that_is_not_there(
    kubeconfig: Written, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = kubeconfig()
    assert user_access(path, "other", "agent") is None
    assert user_access(tmp_path / "none", None, "agent") is None
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:2")
    assert user_access(path, None, "agent") is None
