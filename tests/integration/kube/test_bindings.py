"""Bindings as libcurl sends them, and what becomes of each answer."""

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme
from pytest_httpserver import HTTPServer

from extender.bindings import CONNECTIONS, PodBinder
from optimus.kube.client import Client, connect
from optimus.kube.errors import ErrorKind
from optimus.kube.results import Refused, Written
from tests.cases import cases
from tests.harness.waiting import LONG_SECONDS
from tests.integration.kube.recorder import Recorder, pod, refusal, stored

pytestmark = pytest.mark.integration

PATH = "/api/v1/namespaces/ns/pods/j-ps-0/binding"


def test_a_binding_names_the_very_pod_and_uses_a_token_that_was_replaced(
    httpserver: HTTPServer, client: Client, token_file: Path
) -> None:
    server = Recorder(httpserver, PATH, [stored(), stored()])
    binder = PodBinder(client, LONG_SECONDS)
    assert binder.bind([(pod(), "n1")]) == [Written()]
    token_file.write_text("second, longer\n")
    assert binder.bind([(pod(), "n2")]) == [Written()]
    assert server.body(1) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "j-ps-0", "namespace": "ns", "uid": "p1"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n2"},
    }
    assert [
        (request.headers["Authorization"], request.headers["User-Agent"])
        for request in server.requests
    ] == [("Bearer first", "test/1"), ("Bearer second, longer", "test/1")]


def test_a_token_is_asked_of_a_plugin(httpserver: HTTPServer, tmp_path: Path) -> None:
    plugin, kubeconfig = tmp_path / "plugin", tmp_path / "with-plugin"
    answer = '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"'
    plugin.write_text(f"""#!/bin/sh\necho '{answer}, "status": {{"token": "plugged"}}}}'\n""")
    plugin.chmod(0o755)
    kubeconfig.write_text(f"""
apiVersion: v1
kind: Config
current-context: t
contexts: [{{name: t, context: {{cluster: t, user: t}}}}]
clusters: [{{name: t, cluster: {{server: "{httpserver.url_for("")}"}}}}]
users: [{{name: t, user: {{exec: {{apiVersion: client.authentication.k8s.io/v1, command: {plugin},
  interactiveMode: Never}}}}}}]
""")
    server = Recorder(httpserver, PATH, [stored()])
    client = connect(kubeconfig, user_agent="test/1")
    assert PodBinder(client, LONG_SECONDS).bind([(pod(), "n1")]) == [Written()]
    assert server.requests[0].headers["Authorization"] == "Bearer plugged"
    client.close()


def test_a_binding_is_not_sent_once_its_time_is_over(
    httpserver: HTTPServer, client: Client
) -> None:
    server = Recorder(httpserver, PATH, [stored()])
    (outcome,) = PodBinder(client, LONG_SECONDS).bind([(pod(), "n1")], lambda *_: "it is over")
    assert isinstance(outcome, Refused)
    assert outcome.kind is ErrorKind.NOT_LEADING
    assert server.requests == []


def test_no_further_pod_is_bound_after_a_failure_that_may_concern_all(
    httpserver: HTTPServer, client: Client
) -> None:
    answers = [refusal(403) for _ in range(100)]
    bound = Recorder(httpserver, PATH, answers)
    path = "/api/v1/namespaces/ns/pods/j-ps-0"
    httpserver.expect_request(path).respond_with_json({"metadata": {"uid": "p1"}, "spec": {}})
    outcomes = PodBinder(client, LONG_SECONDS).bind([(pod(), "n1")] * 100)
    kinds = [each.kind for each in outcomes if isinstance(each, Refused)]
    assert len(bound.requests) == kinds.count(ErrorKind.FORBIDDEN) <= CONNECTIONS
    assert kinds.count(ErrorKind.NOT_LEADING) == 100 - len(bound.requests)


@pytest.mark.parametrize("connection", ["cut_off", "frozen"])
def test_a_binding_without_an_answer_may_have_happened(
    request: pytest.FixtureRequest, connection: str
) -> None:
    client: Client = request.getfixturevalue(connection)
    (outcome,) = PodBinder(client, 0.1).bind([(pod(), "n1")])
    assert isinstance(outcome, Refused)
    assert outcome.kind is ErrorKind.TRANSIENT


class ChunkedServer(ThreadingHTTPServer):
    """An API server by TLS that answers each binding with 500, after its effect, and in chunks."""

    daemon_threads = True

    def __init__(self, authority: trustme.CA) -> None:
        super().__init__(("127.0.0.1", 0), _Chunked)
        self.connections: set[object] = set()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.verify_mode = ssl.CERT_REQUIRED
        authority.configure_trust(context)
        authority.issue_cert("api.example").configure_cert(context)
        self.socket = context.wrap_socket(self.socket, server_side=True)


class _Chunked(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ChunkedServer

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(500, b'{"message": ', b'"a webhook failed"}')

    def do_GET(self) -> None:
        self._answer(200, b'{"metadata": {"uid": "p1"},', b' "spec": {"nodeName": "n1"}}')

    def _answer(self, code: int, *parts: bytes) -> None:
        self.server.connections.add(self.client_address)
        self.send_response(code)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in (*parts, b""):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def chunked(tmp_path: Path) -> Iterator[tuple[ChunkedServer, Client]]:
    authority = trustme.CA()
    server = ChunkedServer(authority)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    authority.cert_pem.write_to_path(tmp_path / "ca")
    authority.issue_cert("somebody").private_key_and_cert_chain_pem.write_to_path(tmp_path / "me")
    address = f"https://127.0.0.1:{server.server_port}"
    (tmp_path / "kubeconfig").write_text(f"""
apiVersion: v1
kind: Config
current-context: t
contexts: [{{name: t, context: {{cluster: t, user: t}}}}]
clusters: [{{name: t, cluster: {{server: "{address}", certificate-authority: ca,
  tls-server-name: api.example}}}}]
users: [{{name: t, user: {{client-certificate: me, client-key: me}}}}]
""")
    client = connect(tmp_path / "kubeconfig", user_agent="test/1")
    yield server, client
    client.close()
    server.shutdown()
    serving.join()
    server.server_close()


def test_chunked_answers_come_over_one_connection_by_tls(
    chunked: tuple[ChunkedServer, Client],
) -> None:
    server, client = chunked
    binder = PodBinder(client, LONG_SECONDS)
    assert [binder.bind([(pod(), "n1")]) for _ in range(5)] == [[Written()]] * 5
    (elsewhere,) = binder.bind([(pod(), "n2")])
    assert isinstance(elsewhere, Refused)
    assert elsewhere.sentence == "cannot bind pod ns/j-ps-0: a webhook failed (HTTP 500)"
    assert len(server.connections) == 1


@cases(
    ("answer", "found", "outcome"),
    {
        "500 after its effect": (500, "n1", None),
        "429 after its effect": (429, "n1", None),
        "404 after its effect": (404, "n1", None),
        "409, since it was bound before": (409, "n1", None),
        "409 and bound elsewhere": (409, "n2", ErrorKind.CONFLICT),
        "500 without effect so far": (500, None, ErrorKind.TRANSIENT),
        "429 without effect": (429, None, ErrorKind.THROTTLED),
        "404 of a webhook": (404, None, ErrorKind.NOT_FOUND),
        "403": (403, None, ErrorKind.FORBIDDEN),
    },
)
def test_a_read_decides_what_a_failed_binding_means(
    httpserver: HTTPServer,
    client: Client,
    answer: int,
    found: str | None,
    outcome: ErrorKind | None,
) -> None:
    path = "/api/v1/namespaces/ns/pods/j-ps-0"
    spec = {} if found is None else {"nodeName": found}
    httpserver.expect_request(f"{path}/binding").respond_with_response(refusal(answer))
    httpserver.expect_request(path).respond_with_json({"metadata": {"uid": "p1"}, "spec": spec})
    (got,) = PodBinder(client, LONG_SECONDS).bind([(pod(), "n1")])
    assert (got.kind if isinstance(got, Refused) else None) is outcome


@cases(
    ("read", "outcome"),
    {
        "the pod is gone": (404, ErrorKind.NOT_FOUND),
        "the read fails, too": (500, ErrorKind.TRANSIENT),
    },
)
def test_without_the_pod_a_failed_binding_is_unknown_unless_the_pod_is_gone(
    httpserver: HTTPServer, client: Client, read: int, outcome: ErrorKind
) -> None:
    path = "/api/v1/namespaces/ns/pods/j-ps-0"
    httpserver.expect_request(f"{path}/binding").respond_with_response(refusal(404))
    httpserver.expect_request(path).respond_with_response(refusal(read))
    (got,) = PodBinder(client, LONG_SECONDS).bind([(pod(), "n1")])
    assert isinstance(got, Refused)
    assert got.kind is outcome
