"""Probes against real servers and commands."""

import queue
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from localcluster.node.containers import Launch
from localcluster.node.probes import Prober, ProbeTarget, check, run_command
from localcluster.node.spec import parse_pod
from tests.unit.node.pods import container, pod


def target(port: int = 0, **fields: Any) -> ProbeTarget:
    """Return a container whose declared port 80 is a local one, and whose commands are shell
    scripts."""

    def run(command: list[str], timeout_seconds: float) -> str | None:
        return run_command(
            Launch("/bin/sh", ("sh", "-c", *command), {"PATH": "/bin:/usr/bin"}, "/"),
            timeout_seconds,
        )

    raw = container(ports=[{"name": "web", "containerPort": 80}], **fields)
    return ProbeTarget(raw, lambda number: port if number == 80 else number, run)


@pytest.mark.parametrize(
    ("status", "fails"),
    [
        pytest.param(200, None, id="200 is healthy"),
        pytest.param(302, None, id="so is a redirection"),
        pytest.param(404, "statuscode: 404", id="404 is not"),
        pytest.param(503, "statuscode: 503", id="nor is 503"),
    ],
)
def test_http(httpserver: HTTPServer, status: int, fails: str | None) -> None:
    httpserver.expect_request("/z", headers={"X-Probe": "yes"}).respond_with_data("", status=status)
    headers = [{"name": "X-Probe", "value": "yes"}]
    action = {"httpGet": {"path": "/z", "port": "web", "httpHeaders": headers}}
    found = check(action, target(httpserver.port), 5)
    assert found is None if fails is None else fails in str(found)


def test_tcp() -> None:
    with HTTPServer(host="127.0.0.1") as server:
        assert check({"tcpSocket": {"port": 80}}, target(server.port), 5) is None
    assert "dial tcp" in str(check({"tcpSocket": {"port": 80}}, target(server.port), 5))


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        pytest.param("exit 0", None, id="exit code 0"),
        pytest.param(
            "echo why; exit 2", "exit code 2: why", id="another exit code, with what it printed"
        ),
        pytest.param("sleep 1000", "timed out", id="a command that does not end"),
    ],
)
def test_exec(script: str, sentence: str | None) -> None:
    found = check({"exec": {"command": [script]}}, target(), 0.3)
    assert found is None if sentence is None else sentence in str(found)


@pytest.mark.parametrize(
    ("handler", "sentence"),
    [
        pytest.param(
            {"httpGet": {"port": "nope"}}, 'port "nope"', id="a port's name that is not declared"
        ),
        pytest.param({}, "no handler", id="no handler at all"),
    ],
)
def test_a_probe_that_cannot_be_made_fails_with_a_sentence(
    handler: dict[str, Any], sentence: str
) -> None:
    assert sentence in str(check(handler, target(), 1))


def test_a_probe_succeeds_after_enough_failures_are_followed_by_a_success(tmp_path: Path) -> None:
    reports: queue.Queue[tuple[str, bool]] = queue.Queue()
    command = {"exec": {"command": [f"test -e {tmp_path}/well"]}}
    timing = {"periodSeconds": 0.05, "failureThreshold": 2}
    raw = container(
        startupProbe={**command, **timing, "failureThreshold": 1000},
        readinessProbe={**command, **timing},
    )
    prober = Prober(
        parse_pod(pod(raw)).main[0], target(), lambda probe, ok, _: reports.put((probe, ok))
    )
    prober.start()
    (tmp_path / "well").touch()
    assert reports.get(timeout=30) == ("startup", True)
    assert reports.get(timeout=30) == ("readiness", True)
    (tmp_path / "well").unlink()
    assert reports.get(timeout=30) == ("readiness", False)
    prober.stop()
    prober.join(timeout=30)
    assert not prober.is_alive()


def test_a_startup_that_fails_is_reported_and_ends_the_probing() -> None:
    reports: queue.Queue[tuple[str, bool]] = queue.Queue()
    probe = {"exec": {"command": ["exit 1"]}, "periodSeconds": 0.02, "failureThreshold": 3}
    plan = parse_pod(pod(container(startupProbe=probe, livenessProbe=probe))).main[0]
    prober = Prober(plan, target(), lambda name, ok, _: reports.put((name, ok)))
    prober.start()
    prober.join(timeout=30)
    assert reports.get(timeout=30) == ("startup", False)
    assert reports.empty()
