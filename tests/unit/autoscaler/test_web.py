"""Health and metrics over HTTP."""

import urllib.error
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, Counter

from autoscaler.web import create_app
from optimus.runtime.health import HealthServer


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
