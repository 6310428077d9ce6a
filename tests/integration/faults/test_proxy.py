"""What passes through the proxy, and how, before a small server of the test's own and before the
embedded one."""

import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

from localcluster.api_calls import ApiCalls
from localcluster.cluster import LocalCluster
from localcluster.faults.cluster import proxy_for
from localcluster.faults.faults import (
    Call,
    Calls,
    Compact,
    Cut,
    Drop,
    Effect,
    EndStream,
    ErrorResponse,
    Fault,
    Hang,
    Kill,
)
from localcluster.faults.proxy import FaultProxy
from localcluster.kubeconfig import Credentials
from optimus.kube.client import connect
from tests.harness.api import Json

ANY = Calls("GET", "")
CUT = (ConnectionError, http.client.HTTPException)
"""What a client meets where the connection is cut."""


class Echo(BaseHTTPRequestHandler):
    """Answers with the request; a target that begins with /watch gets three lines, each when
    `more` allows it."""

    protocol_version = "HTTP/1.1"
    more = threading.Semaphore(0)
    received: list[Call]

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.received.append(Call(self.command, self.path, body))
        self.send_response(200)
        if self.path.startswith("/watch"):
            self._watch()
            return
        seen = {
            "method": self.command,
            "body": body.decode(),
            "headers": dict(self.headers),
            "shown": self._shown(),
        }
        body = json.dumps(seen).encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PATCH = do_GET  # noqa: N815 - http.server's name

    def _shown(self) -> object:
        """Whom the caller's certificate names, where it showed one."""
        certificate = (
            self.connection.getpeercert() if isinstance(self.connection, ssl.SSLSocket) else None
        )
        return dict(certificate or {}).get("subjectAltName")

    def _watch(self) -> None:
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in (b"one\n", b"two\n", b"three\n"):
            assert self.more.acquire(timeout=180)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        pass


class Untouched:
    """A server that nobody restarts."""

    def restart(self) -> None:
        raise AssertionError("restarted")

    def compact(self) -> None:
        raise AssertionError("compacted")


class Quiet(ThreadingHTTPServer):
    """A caller that is gone is what these tests are about."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        pass


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[tuple[str, type[Echo]]]:
    handler: type[Echo] = type("Handler", (Echo,), {"more": threading.Semaphore(0), "received": []})
    server = Quiet(("127.0.0.1", 0), handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"{'https' if context else 'http'}://127.0.0.1:{server.server_port}", handler
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def echo() -> Iterator[tuple[FaultProxy, type[Echo]]]:
    with serving() as (url, handler):
        credentials = Credentials(url, "", ssl.create_default_context(), "secret")
        with FaultProxy(credentials, Untouched()) as proxy:
            yield proxy, handler


@contextmanager
def asking(proxy: FaultProxy) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(proxy.url).port, timeout=180)
    try:
        yield connection
    finally:
        connection.close()


def ask(
    proxy: FaultProxy, target: str = "/x", method: str = "GET", **headers: str
) -> tuple[int, Json]:
    with asking(proxy) as connection:
        connection.request(method, target, b"{}" if method == "PATCH" else None, headers)
        answer = connection.getresponse()
        body: Json = json.loads(answer.read())
        return answer.status, body


Echoing = tuple[FaultProxy, type[Echo]]


def test_a_call_passes_with_its_body_and_its_callers_token(echo: Echoing) -> None:
    proxy, _ = echo
    code, body = ask(proxy, method="PATCH", Authorization="Bearer own")
    assert (code, body["method"], body["body"]) == (200, "PATCH", "{}")
    assert body["headers"]["Authorization"] == "Bearer own"
    assert [(each.call.target, each.fault, each.status) for each in proxy.calls] == [
        ("/x", None, 200)
    ]


def test_a_caller_without_a_token_is_who_the_kubeconfig_names(echo: Echoing) -> None:
    assert ask(echo[0])[1]["headers"]["Authorization"] == "Bearer secret"


def test_several_calls_go_over_one_connection(echo: Echoing) -> None:
    with asking(echo[0]) as connection:
        for _ in range(3):
            connection.request("GET", "/x")
            assert connection.getresponse().read()


def test_what_a_watch_brings_passes_line_by_line_as_it_comes(echo: Echoing) -> None:
    proxy, handler = echo
    with asking(proxy) as connection:
        connection.request("GET", "/watch")
        answer = connection.getresponse()
        for line in (b"one\n", b"two\n", b"three\n"):
            # the next line is not written before the one before was read here
            handler.more.release()
            assert answer.readline() == line
        assert answer.read() == b""


@pytest.mark.parametrize(
    ("effect", "received", "status"),
    [
        pytest.param(ErrorResponse(429, retry_after_seconds=7), 0, 0, id="instead of asking"),
        pytest.param(
            ErrorResponse(429, retry_after_seconds=7, after_effect=True), 1, 200, id="after asking"
        ),
    ],
)
def test_an_error_is_answered(
    echo: Echoing, effect: ErrorResponse, received: int, status: int
) -> None:
    proxy, handler = echo
    proxy.inject(Fault(ANY, effect))
    with asking(proxy) as connection:
        connection.request("GET", "/x")
        answer = connection.getresponse()
        body = json.loads(answer.read())
        assert (answer.status, answer.getheader("Retry-After"), body["reason"]) == (
            429,
            "7",
            "TooManyRequests",
        )
        assert (len(handler.received), [each.status for each in proxy.calls]) == (
            received,
            [status],
        )
        connection.request("GET", "/x")
        assert connection.getresponse().status == 200


@pytest.mark.parametrize(
    ("effect", "received"),
    [
        pytest.param(Cut(), 0, id="before the server is called"),
        pytest.param(Cut(after_effect=True), 1, id="after the server has answered"),
        pytest.param(Hang(0.1), 0, id="after a silence"),
    ],
)
def test_the_connection_is_cut(echo: Echoing, effect: Effect, received: int) -> None:
    proxy, handler = echo
    proxy.inject(Fault(ANY, effect))
    with pytest.raises(CUT):
        ask(proxy)
    assert len(handler.received) == received
    assert proxy.is_spent
    assert ask(proxy)[0] == 200


@pytest.mark.parametrize("after_effect", [False, True])
def test_the_client_is_killed_at_its_call(echo: Echoing, after_effect: bool) -> None:
    proxy, handler = echo
    received: list[int] = []
    proxy.kill_client = lambda: received.append(len(handler.received))
    proxy.inject(Fault(ANY, Kill(after_effect=after_effect)))
    with pytest.raises(CUT):
        ask(proxy)
    assert received == [int(after_effect)]
    assert ask(proxy)[0] == 200


def test_each_call_is_passed_on_before_the_server_gets_it(echo: Echoing) -> None:
    proxy, handler = echo
    calls: list[tuple[str, int]] = []
    proxy.on_call = lambda call: calls.append((call.target, len(handler.received)))
    ask(proxy, "/a")
    ask(proxy, "/b")
    assert calls == [("/a", 0), ("/b", 1)]


@pytest.mark.parametrize(
    ("effect", "code"),
    [
        pytest.param(Cut(after_effect=True), None, id="is cut"),
        pytest.param(ErrorResponse(410, after_effect=True), 410, id="is refused"),
    ],
)
def test_a_watch_without_an_event_yet(echo: Echoing, effect: Effect, code: int | None) -> None:
    proxy, handler = echo
    proxy.inject(Fault(ANY, effect))
    with asking(proxy) as connection:
        connection.request("GET", "/watch")
        if code is None:
            with pytest.raises(CUT):
                connection.getresponse()
        else:
            assert connection.getresponse().status == code
    handler.more.release()


def test_a_server_that_is_not_there_is_a_connection_cut(echo: Echoing) -> None:
    dead = Credentials("http://127.0.0.1:1", "", ssl.create_default_context(), None)
    with FaultProxy(dead, Untouched()) as proxy, pytest.raises(CUT):
        ask(proxy)


@pytest.mark.parametrize(
    ("effect", "expected"),
    [
        pytest.param(Drop(1), b"two\nthree\n", id="its first line never comes"),
        pytest.param(
            EndStream(1, code=410), b"one\n" + b'{"type": "ERROR"', id="it ends with an error"
        ),
    ],
)
def test_a_watch_ends_in_order_though(echo: Echoing, effect: Effect, expected: bytes) -> None:
    proxy, handler = echo
    proxy.inject(Fault(ANY, effect))
    handler.more.release(3)
    with asking(proxy) as connection:
        connection.request("GET", "/watch")
        assert connection.getresponse().read().startswith(expected)


def test_a_watch_is_cut_after_its_first_line(echo: Echoing) -> None:
    proxy, handler = echo
    proxy.inject(Fault(ANY, EndStream(1)))
    handler.more.release(3)
    with asking(proxy) as connection:
        connection.request("GET", "/watch")
        answer = connection.getresponse()
        assert answer.readline() == b"one\n"
        with pytest.raises(CUT):
            answer.read()


def test_every_open_watch_is_cut_at_once(echo: Echoing) -> None:
    proxy, handler = echo
    with asking(proxy) as one, asking(proxy) as other:
        answers = []
        for connection in (one, other):
            connection.request("GET", "/watch")
            answers.append(connection.getresponse())
        proxy.cut_streams()
        for answer in answers:
            with pytest.raises(CUT):
                answer.read()
    handler.more.release(2)


@pytest.mark.parametrize(
    ("token", "certificate"),
    [
        pytest.param(
            "",
            [["DNS", "client.invalid"]],
            id="without a token the kubeconfig's certificate is shown",
        ),
        pytest.param("Bearer own", None, id="with a token no certificate stands in its way"),
    ],
)
def test_a_server_behind_tls_is_reached(token: str, certificate: object) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    with serving(context) as (url, _):
        own = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
        authority.issue_cert("client.invalid").configure_cert(own)
        credentials = Credentials(url, authority.cert_pem.bytes().decode(), own, None)
        with FaultProxy(credentials, Untouched()) as proxy:
            code, body = ask(proxy, **({"Authorization": token} if token else {}))
    assert (code, body["headers"].get("Authorization", "")) == (200, token)
    assert body["shown"] == certificate


def test_a_watch_of_the_embedded_server_meets_a_forgotten_history(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    path = tmp_path / "kubeconfig"
    with proxy_for(cluster) as proxy:
        proxy.write_kubeconfig(path)
        client = connect(path, user_agent="test")
        api = ApiCalls(client)
        version = api.get("/api/v1/namespaces")["metadata"]["resourceVersion"]
        api.create("/api/v1/namespaces", {"metadata": {"name": "later"}})
        proxy.inject(Fault(Calls("GET", r"/namespaces\?.*watch=true"), Compact(0.0)))
        watch = [("watch", "true"), ("resourceVersion", version), ("timeoutSeconds", "5")]
        event = json.loads(client.get("watch", "/api/v1/namespaces", watch))
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        api.delete("/api/v1/namespaces/later", {})
