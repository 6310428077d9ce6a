"""Probes against real servers."""

from typing import Any

from pytest_httpserver import HTTPServer

from localcluster.node.pod_spec import ContainerSpec, parse_pod
from localcluster.node.probes import check
from tests.cases import cases
from tests.unit.node.pods import container, pod


def probed(**probes: Any) -> ContainerSpec:
    """A container that declares port 80 as web and has these probes."""
    raw = container(ports=[{"name": "web", "containerPort": 80}], **probes)
    return parse_pod(pod(raw)).main[0]


def failure(http_get: dict[str, Any], local_port: int) -> str | None:
    """Probe once, with port 80 at a local port."""
    spec = probed(livenessProbe={"httpGet": http_get, "timeoutSeconds": 5})
    assert spec.liveness is not None
    return check(spec.liveness, spec.raw, {80: local_port}.__getitem__)


@cases(
    ("status", "fails"),
    {
        "200 is healthy": (200, None),
        "so is a redirection": (302, None),
        "404 is not": (404, "statuscode: 404"),
        "nor is 503": (503, "statuscode: 503"),
    },
)
def test_http(httpserver: HTTPServer, status: int, fails: str | None) -> None:
    httpserver.expect_request("/z", headers={"X-Probe": "yes"}).respond_with_data("", status=status)
    headers = [{"name": "X-Probe", "value": "yes"}]
    found = failure({"path": "/z", "port": "web", "httpHeaders": headers}, httpserver.port)
    assert found is None if fails is None else fails in str(found)


def test_a_missing_server_and_an_undeclared_port_fail_the_probe_with_a_message() -> None:
    with HTTPServer(host="127.0.0.1") as server:
        port = server.port
    assert f"Get http://127.0.0.1:{port}/" in str(failure({"port": 80}, port))
    assert 'port "nope"' in str(failure({"port": "nope"}, port))
