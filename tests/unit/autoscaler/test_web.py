"""Health and metrics over HTTP."""

import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest
from prometheus_client import CollectorRegistry, Counter

from autoscaler.web import create_app
from optimus.runtime.health import MOST_CONNECTIONS, HealthServer, InTurns


def test_metrics_health_and_readiness_are_served() -> None:
    registry = CollectorRegistry()
    Counter("optimus_decisions", "Decisions.", registry=registry).inc()
    client = create_app(registry, lambda: None, lambda: "caches are not filled yet").test_client()
    assert b"optimus_decisions_total 1.0" in client.get("/metrics").data
    assert client.get("/healthz").status_code == 200
    unready = client.get("/readyz")
    assert (unready.status_code, unready.text) == (503, "caches are not filled yet\n")


def test_the_server_stops_with_its_block() -> None:
    with HealthServer(
        create_app(CollectorRegistry(), lambda: None, lambda: None), "127.0.0.1", 0
    ) as server:
        url = f"http://127.0.0.1:{server.port}/healthz"
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert answer.read() == b"ok\n"
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=60)


def test_many_requests_at_once_are_answered_one_by_one_and_a_probe_beside_them() -> None:
    at_once, most, guard = [0], list[int](), threading.Lock()
    probed = threading.Event()

    def app(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        start("200 OK", [("Content-Type", "text/plain")])
        if environ["PATH_INFO"] == "/healthz":
            probed.set()
            return [b"ok"]
        with guard:
            at_once[0] += 1
            most.append(at_once[0])
        assert probed.wait(60), "a probe has its own turn"
        with guard:
            at_once[0] -= 1
        return [b"metrics"]

    with HealthServer(InTurns(app), "127.0.0.1", 0) as server, ThreadPoolExecutor(9) as clients:

        def get(path: str) -> bytes:
            url = f"http://127.0.0.1:{server.port}{path}"
            with urllib.request.urlopen(url, timeout=60) as answer:
                return bytes(answer.read())

        answers = [clients.submit(get, "/metrics") for _ in range(8)]
        assert clients.submit(get, "/healthz").result() == b"ok"
        assert [each.result() for each in answers] == [b"metrics"] * 8
    assert max(most) == 1


def test_the_connections_of_one_client_displace_none_of_another() -> None:
    app = create_app(CollectorRegistry(), lambda: None, lambda: None)
    with HealthServer(app, "127.0.0.1", 0) as server:
        address = "127.0.0.1", server.port
        probe = socket.create_connection(address, 60, ("127.0.0.2", 0))
        flood = [socket.create_connection(address, 60) for _ in range(2 * MOST_CONNECTIONS)]
        assert flood[0].recv(1) == b"", "its oldest is closed"
        probe.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert probe.recv(12) == b"HTTP/1.1 200"
        for each in (probe, *flood):
            each.close()
