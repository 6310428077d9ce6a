"""The extender as a process, over real HTTP: one worker, kept connections, a clean end."""

import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from extender.http.wsgi import GRACE_SECONDS
from localcluster.node.launcher import tied
from optimus.runtime.health import MOST_CONNECTIONS
from tests.harness.waiting import LONG_SECONDS, wait_until

pytestmark = pytest.mark.integration

EMPTY: dict[str, Any] = {"metadata": {"resourceVersion": "1"}, "items": []}
NODE = {
    "metadata": {"name": "n1", "uid": "n1", "resourceVersion": "1"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
}
POD = {
    "metadata": {
        "name": "j-worker-0",
        "namespace": "ns",
        "uid": "u1",
        "labels": {
            "training.kubeflow.org/replica-type": "worker",
            "training.kubeflow.org/replica-index": "0",
        },
        "ownerReferences": [
            {
                "apiVersion": "kubeflow.org/v1",
                "kind": "TFJob",
                "name": "j",
                "uid": "job",
                "controller": True,
            }
        ],
    },
    "spec": {"containers": [{"name": "tensorflow", "resources": {"requests": {"cpu": "1"}}}]},
}
JOB = {
    "metadata": {"name": "j", "namespace": "ns", "uid": "job", "resourceVersion": "1"},
    "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1, "template": {"spec": POD["spec"]}}}},
}


@dataclass
class Extender:
    """A running `python -m extender`."""

    port: int
    health_port: int
    process: subprocess.Popen[bytes]
    log: Path
    connection: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def get(self, path: str, port: int | None = None) -> int:
        """The status of a GET on a connection of its own; 0 while nothing answers."""
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=60)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()

    def post(self, path: str, body: object) -> Any:
        """The answer to a POST, on one connection for all calls, as kube-scheduler does it."""
        self.connection.request(
            "POST", path, json.dumps(body), {"Content-Type": "application/json"}
        )
        answer = self.connection.getresponse()
        assert answer.status == 200
        return json.loads(answer.read())

    def workers(self) -> list[int]:
        """The process ids of gunicorn's workers."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(child) for child in children.split()]


@pytest.fixture
def api(httpserver: HTTPServer) -> HTTPServer:
    """An API server that knows one node, one job and its pod; every watch ends at once."""
    httpserver.expect_request("/api/v1/nodes").respond_with_json({**EMPTY, "items": [NODE]})
    httpserver.expect_request("/apis/kubeflow.org/v1/tfjobs").respond_with_json(
        {**EMPTY, "items": [JOB]}
    )
    httpserver.expect_request("/api/v1/pods").respond_with_json({**EMPTY, "items": [POD]})
    httpserver.expect_request("/api/v1/namespaces/ns/pods/j-worker-0/status").respond_with_json(POD)
    # Of every other kind it has no object.
    httpserver.expect_request(re.compile(r"/apis?/.*"), method="GET").respond_with_json(EMPTY)
    return httpserver


@pytest.fixture
def ports() -> Iterator[tuple[int, int]]:
    """Two ports that stay the test's own: bound, so that nobody else is given them, and listened on
    by the extender."""
    with ExitStack() as held:
        found = [held.enter_context(socket.socket()) for _ in range(2)]
        for each in found:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("127.0.0.1", 0))
        first, second = (int(each.getsockname()[1]) for each in found)
        yield first, second


def configured(folder: Path, **values: object) -> str:
    """The flag of a file with these values of the extender's."""
    path = folder / "config.yaml"
    path.write_text(json.dumps({"extender": values}))
    return f"--config={path}"


@pytest.fixture
def command(api: HTTPServer, kubeconfig: Path, ports: tuple[int, int], tmp_path: Path) -> list[str]:
    """How an extender is started."""
    del api  # it must be there
    addresses = [f"--listen=127.0.0.1:{ports[0]}", f"--health-listen=127.0.0.1:{ports[1]}"]
    others = [f"--kubeconfig={kubeconfig}", "--leader-lease=", configured(tmp_path)]
    return [sys.executable, "-m", "extender", *addresses, *others]


@contextmanager
def started(command: list[str], log: Path) -> Iterator[Extender]:
    """Run an extender for the length of the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            tied(command, Path.cwd()),
            stdout=output,
            stderr=output,
            env={**os.environ, "WEB_CONCURRENCY": "4"},
        )
    port, health_port = (
        int(argument.rpartition(":")[2]) for argument in command if "listen=" in argument
    )
    running = Extender(port, health_port, process, log)
    try:
        wait_until("the extender is ready", lambda: running.get("/readyz", health_port) == 200)
        yield running
    finally:
        running.connection.close()
        process.terminate()
        process.wait(LONG_SECONDS)  # gunicorn itself lets a worker finish for 30 s


@pytest.fixture
def extender(command: list[str], tmp_path: Path) -> Iterator[Extender]:
    with started(command, tmp_path / "extender.log") as running:
        yield running
    assert running.process.returncode == 0


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A certificate for both ends, with its key and its CA."""
    ca, folder = trustme.CA(), tmp_path / "secret"
    issued = ca.issue_cert("optimus-extender")
    folder.mkdir()
    ca.cert_pem.write_to_path(folder / "ca.crt")
    issued.cert_chain_pems[0].write_to_path(folder / "tls.crt")
    issued.private_key_pem.write_to_path(folder / "tls.key")
    return folder


def test_with_tls_only_clients_with_a_certificate_are_answered(
    command: list[str], secret: Path, tmp_path: Path
) -> None:
    flags = {
        "tls-cert-file": "tls.crt",
        "tls-private-key-file": "tls.key",
        "client-ca-file": "ca.crt",
    }
    command = [
        *command,
        *(f"--{flag}={secret / name}" for flag, name in flags.items()),
    ]
    context = ssl.create_default_context(cafile=secret / "ca.crt")
    context.check_hostname = False
    question = {"Pod": POD, "Nodes": None, "NodeNames": ["n1"]}
    with started(command, tmp_path / "extender.log") as running:
        assert running.get("/readyz") == 0, "not without TLS"
        running.connection = http.client.HTTPSConnection(
            "127.0.0.1", running.port, timeout=60, context=context
        )
        with pytest.raises(OSError, match=r"(?i)certificate required|closed|reset|eof|broken pipe"):
            running.post("/filter", question)
        running.connection.close()
        context.load_cert_chain(secret / "tls.crt", secret / "tls.key")
        assert running.post("/filter", question)["NodeNames"] == ["n1"]
        first = running.connection.sock
        for _ in range(50):
            assert running.post("/prioritize", question) == [{"Host": "n1", "Score": 10}]
        many = {**question, "NodeNames": ["n1", *(f"no-{number}" for number in range(9_000))]}
        assert running.post("/prioritize", many)[0] == {"Host": "n1", "Score": 10}
        assert running.connection.sock is first


def is_over(process: int) -> bool:
    """Whether a process has ended, be it that nobody has asked for its end yet."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].startswith(("Z", "X"))
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_bad_call_does_not_break_the_connection(extender: Extender) -> None:
    assert "Error" in extender.post("/filter", "nonsense")
    too_large = extender.post("/filter", "x" * 34_000_000)
    assert "more than the 33554432 bytes that are read" in too_large["Error"]
    assert extender.post("/filter", {"Pod": POD, "NodeNames": ["n1"]})["NodeNames"] == ["n1"]


def test_the_second_address_serves_health_alone(extender: Extender) -> None:
    assert [
        extender.get(path, extender.health_port) for path in ("/healthz", "/readyz", "/metrics")
    ] == [200] * 3
    connection = http.client.HTTPConnection("127.0.0.1", extender.health_port, timeout=60)
    connection.request("POST", "/filter", json.dumps({"Pod": POD, "NodeNames": ["n1"]}))
    assert connection.getresponse().status == 404
    connection.close()


def test_half_sent_requests_at_the_health_address_keep_nobody_waiting(extender: Extender) -> None:
    half_sent = [
        socket.create_connection(("127.0.0.1", extender.health_port))
        for _ in range(MOST_CONNECTIONS + 8)
    ]
    try:
        for connection in half_sent:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nX-")
        assert extender.post("/filter", {"Pod": POD, "NodeNames": ["n1"]})["NodeNames"] == ["n1"]
        assert extender.get("/healthz", extender.health_port) == 200
    finally:
        for connection in half_sent:
            connection.close()


@pytest.fixture
def silent_nodes(httpserver: HTTPServer) -> Iterator[None]:
    """The first watch of nodes is opened, and nothing comes on it."""
    over = threading.Event()

    def pieces() -> Iterator[bytes]:
        yield b"\n"  # the double sends its headers with the first bytes
        over.wait(LONG_SECONDS)

    def list_or_watch(request: Request) -> Response:
        if "watch" in request.args:
            return Response(pieces())
        body = json.dumps({**EMPTY, "items": [NODE]})
        return Response(body, content_type="application/json")

    for _ in ("list", "watch"):
        httpserver.expect_oneshot_request("/api/v1/nodes").respond_with_handler(list_or_watch)
    yield
    over.set()


def test_no_new_plans_are_made_while_a_watch_is_silent(
    silent_nodes: None, command: list[str], tmp_path: Path
) -> None:
    limit = configured(tmp_path, **{"cache-age-limit-seconds": 8})
    question = {"Pod": POD, "NodeNames": ["n1"]}
    with started([*command, limit], tmp_path / "extender.log") as extender:
        wait_until("it is not ready", lambda: extender.get("/readyz") == 503)
        refused = extender.post("/filter", question)["FailedAndUnresolvableNodes"]["n1"]
        extender.connection.request("GET", "/metrics")
        metrics = extender.connection.getresponse().read().decode()
    why = r"the cache of nodes is as of \S+Z, older than the limit of 8 s"
    assert re.match(rf"job ns/j is not planned: {why}", refused), refused
    assert 'refusals_total{cause="cache too old"} 1.0' in metrics
    (age,) = re.findall(r"^optimus_extender_cache_age_seconds (\S+)$", metrics, re.MULTILINE)
    assert float(age) > 8.0


def test_signals_do_not_change_the_number_of_workers(extender: Extender) -> None:
    (worker,) = extender.workers()
    extender.process.send_signal(signal.SIGTTIN)
    extender.process.send_signal(signal.SIGHUP)
    wait_until(
        "both signals are logged",
        lambda: extender.log.read_text().count("the number of workers stays 1") == 2,
    )
    assert extender.workers() == [worker]


def test_a_killed_worker_is_replaced_and_becomes_ready_again(extender: Extender) -> None:
    (worker,) = extender.workers()
    os.kill(worker, signal.SIGKILL)
    wait_until("another worker runs", lambda: extender.workers() not in ([], [worker]))
    wait_until("the extender is ready", lambda: extender.get("/readyz") == 200)


def test_a_killed_master_leaves_nothing_in_the_way_of_the_next_one(
    command: list[str], tmp_path: Path
) -> None:
    with started(command, tmp_path / "killed.log") as killed:
        (worker,) = killed.workers()
        with socket.create_connection(("127.0.0.1", killed.port)) as calling:
            calling.sendall(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
            assert killed.get("/healthz") == 200  # by now it serves the call that is under way, too
            killed.process.kill()
            killed.process.wait(LONG_SECONDS)
            # Less than the time that gunicorn's worker gives a call that is under way.
            wait_until("its worker ends too", lambda: is_over(worker), seconds=GRACE_SECONDS - 2)
        with started(command, tmp_path / "next.log") as following:
            assert following.post("/filter", {"Pod": POD, "NodeNames": ["n1"]})["NodeNames"] == [
                "n1"
            ]
