"""Logs with the reader's token: nothing of this process goes along, and answers are bounded."""

import logging
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from optimus.jobs import NodeConstraints
from optimus.kube.client import connect
from optimus.kube.errors import KubeError
from optimus.kube.pods import Pod
from optimus.kube.reader_logs import LAST_LINES, LIMIT_BYTES, LONGEST_LINE, ReaderLogs, harmless
from optimus.resources import Resources
from tests.cases import cases

TOKEN = "readers.own-token_1"
POD = Pod(
    uid="uid-1",
    namespace="team-a",
    name="resnet-worker-0",
    created_at=0.0,
    resources=Resources(),
    constraints=NodeConstraints(),
    log_container="tensorflow",
)


class ApiServer(ThreadingHTTPServer):
    """Answers with ``status`` and ``body``, and keeps what it was asked with."""

    status, body, location = 200, b"epoch 1 loss 0.5\n", ""
    drips = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.certificates: list[Any] = []


class _Handler(BaseHTTPRequestHandler):
    server: ApiServer

    def do_GET(self) -> None:
        server = self.server
        server.asked.append((self.path, dict(self.headers)))
        assert isinstance(self.connection, ssl.SSLSocket)
        server.certificates.append(self.connection.getpeercert())
        self.send_response(server.status)
        if server.location:
            self.send_header("Location", server.location)
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(server.body)
            while server.drips:
                self.wfile.write(b"x" * 65536)

    def log_request(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def api_server(folder: Path) -> Iterator[tuple[ApiServer, Path]]:
    """A server, and a kubeconfig for it with a client certificate and a token of its own."""
    ca = trustme.CA()
    ours, served = ca.issue_cert("autoscaler.test"), ca.issue_cert("127.0.0.1")
    ca.cert_pem.write_to_path(folder / "ca.crt")
    ours.private_key_and_cert_chain_pem.write_to_path(folder / "client.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.configure_cert(context)
    ca.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    server = ApiServer()
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    pair = str(folder / "client.pem")
    user = {"client-certificate": pair, "client-key": pair, "token": "autoscalers-own"}
    cluster = {
        "server": f"https://127.0.0.1:{server.server_port}",
        "certificate-authority": str(folder / "ca.crt"),
    }
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    (folder / "config").write_text(yaml.safe_dump(config))
    try:
        yield server, folder / "config"
    finally:
        server.drips = False
        server.shutdown()
        server.server_close()
        thread.join(10)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[ApiServer, ReaderLogs]]:
    with api_server(tmp_path) as (found, config):
        yield found, ReaderLogs(connect(config, user_agent="test").anonymous_server())


def test_the_readers_token_alone_goes_to_the_api_server(
    server: tuple[ApiServer, ReaderLogs], caplog: pytest.LogCaptureFixture
) -> None:
    api, logs = server
    with caplog.at_level(logging.DEBUG):
        found = logs.read(POD, TOKEN, previous=True)
    assert found == ("epoch 1 loss 0.5\n", "")
    ((path, headers),) = api.asked
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    assert not any(name.lower().startswith("impersonate") for name in headers)
    assert api.certificates in ([None], [{}])
    assert path == (
        "/api/v1/namespaces/team-a/pods/resnet-worker-0/log"
        f"?container=tensorflow&tailLines={LAST_LINES}&limitBytes={LIMIT_BYTES}&previous=true"
    )
    assert TOKEN not in caplog.text


@cases(
    ("status", "says"),
    {
        "an expired token": (401, "does not accept this token"),
        "a token without the right": (403, "needs the right to get pods/log"),
        "a pod that is gone": (404, "is not there any more"),
        "a container that has not started": (400, "is waiting to start"),
        "a broken API server": (500, "HTTP 500"),
    },
)
def test_a_refusal_is_one_sentence(
    server: tuple[ApiServer, ReaderLogs], status: int, says: str
) -> None:
    api, logs = server
    api.status, api.body = status, b'{"message": "container \\"x\\" is waiting to start"}'
    found = logs.read(POD, TOKEN, previous=False)
    assert found.text == ""
    assert says in found.problem
    assert "\n" not in found.problem
    assert TOKEN not in found.problem


def test_a_token_follows_no_redirect(server: tuple[ApiServer, ReaderLogs]) -> None:
    api, logs = server
    api.status, api.location = 307, f"https://127.0.0.1:{api.server_port}/elsewhere"
    assert "HTTP 307" in logs.read(POD, TOKEN, previous=False).problem
    assert len(api.asked) == 1


@pytest.mark.parametrize("token", ["", "a b", "a\r\nImpersonate-User: admin", "ü", "x" * 20_000])
def test_what_is_no_token_is_not_sent(server: tuple[ApiServer, ReaderLogs], token: str) -> None:
    api, logs = server
    assert "this is no token" in logs.read(POD, token, previous=False).problem
    assert api.asked == []


def test_a_server_that_never_ends_is_cut(server: tuple[ApiServer, ReaderLogs]) -> None:
    api, logs = server
    api.drips = True
    began = time.monotonic()
    found = logs.read(POD, TOKEN, previous=False)
    assert len(found.text) <= LIMIT_BYTES
    assert time.monotonic() - began < 30


def test_a_server_that_is_not_there_is_said_without_the_request(tmp_path: Path) -> None:
    with api_server(tmp_path) as (_, config):
        logs = ReaderLogs(connect(config, user_agent="test").anonymous_server())
    found = logs.read(POD, TOKEN, previous=False)
    assert found == ("", "the API server did not answer")


def test_without_a_verified_server_no_token_is_taken(tmp_path: Path) -> None:
    with api_server(tmp_path) as (_, path):
        config = yaml.safe_load(path.read_text())
    config["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
    del config["clusters"][0]["cluster"]["certificate-authority"]
    path.write_text(yaml.safe_dump(config))
    with pytest.raises(KubeError, match="verified certificate"):
        connect(path, user_agent="test").anonymous_server()


@cases(
    ("body", "shown"),
    {
        "colours": (b"\x1b[31;1mred\x1b[0m", "red"),
        "a link and a title of a terminal": (b"\x1b]8;;http://x\x07a\x1b]0;t\x1b\\b", "ab"),
        "a progress bar": (b"1 %\r50 %\r100 %\r\nnext", "100 %\nnext"),
        "text that is reordered": ("a\u202eb".encode(), "a\ufffdb"),
        "control characters": (b"a\x00\x08b\tc", "a\ufffd\ufffdb\tc"),
        "markup": (b"<script>x</script>", "<script>x</script>"),
        "no UTF-8": (b"a\xffb", "a\ufffdb"),
        "one endless line": (b"y" * 70_000, "y" * LONGEST_LINE),
        "half an escape sequence": (b"a\x1b[", "a"),
    },
)
def test_a_log_is_text_and_nothing_else(body: bytes, shown: str) -> None:
    assert harmless(body) == shown


def test_a_log_of_many_escapes_is_shown_at_once() -> None:
    began = time.monotonic()
    for hostile in (b"\x1b[" * 32_000, b"\x1b]" * 32_000, b"\x1b[1;" * 16_000, b"\r" * 65_000):
        harmless(hostile)
    assert time.monotonic() - began < 5
