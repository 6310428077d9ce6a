"""Readiness over HTTP: only a timely 200 counts."""

import ssl
from pathlib import Path

import pytest
import trustme
import yaml
from pytest_httpserver import HTTPServer
from werkzeug import Response

from localcluster import components
from localcluster.binaries.locate import Binaries
from localcluster.components import Ports, Recipe
from localcluster.paths import ClusterPaths
from localcluster.readiness import AllProbe, HttpProbe, LogLineProbe
from tests.cases import cases


@pytest.mark.parametrize(("status", "ready"), [(200, True), (500, False), (403, False)])
def test_only_a_200_counts(httpserver: HTTPServer, status: int, ready: bool) -> None:
    httpserver.expect_request("/readyz").respond_with_response(Response(status=status))
    assert HttpProbe(httpserver.port, "/readyz").ready(0) is ready


def test_nobody_listening_is_not_ready() -> None:
    with HTTPServer(host="127.0.0.1") as server:
        port = server.port
    assert not HttpProbe(port, "/readyz").ready(0)


def test_an_authority_that_is_not_there_yet_is_not_ready(
    httpserver: HTTPServer, tmp_path: Path
) -> None:
    assert not HttpProbe(httpserver.port, "/readyz", tmp_path / "absent.crt").ready(0)


def test_an_operator_is_ready_once_its_webhook_answers(
    httpserver: HTTPServer, tmp_path: Path
) -> None:
    """It says that it is ready before it has registered the webhooks of its kinds."""
    names = {"service": {"path": "/validate-tfjob"}}
    hooks = [{"clientConfig": names, "rules": [{"resources": ["tfjobs"]}]}]
    (tmp_path / "webhook").mkdir()
    (tmp_path / "webhook/manifests.yaml").write_text(yaml.safe_dump({"webhooks": hooks}))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("operator").configure_cert(context)
    httpserver.expect_request("/readyz").respond_with_data("ok")
    with HTTPServer(host="127.0.0.1", ssl_context=context) as served:
        ports = Ports(1, 2, 3, 4, 5, httpserver.port, served.port)
        binaries = Binaries({"training-operator": Path("/operator")}, tmp_path)
        recipe = Recipe(ClusterPaths(tmp_path), binaries, ports)
        probe = components.training_operator(recipe).probe
        assert not probe.ready(0)
        served.expect_request("/validate-tfjob").respond_with_data("{}")
        assert probe.ready(0)


def test_all_probes_must_succeed(tmp_path: Path) -> None:
    never = LogLineProbe(tmp_path / "absent.log", "ready")
    (tmp_path / "there.log").write_text("ready\n")
    at_once = LogLineProbe(tmp_path / "there.log", "ready")
    assert AllProbe((at_once, at_once)).ready(0)
    assert not AllProbe((at_once, never)).ready(0)


@cases(
    ("text", "offset", "ready"),
    {
        "the line stands alone": ("a\nready\n", 0, True),
        "it stems from an earlier life": ("ready\n", 6, False),
        "it is part of another line": ("not ready\n", 0, False),
        "nothing was written": ("", 0, False),
    },
)
def test_a_line_of_the_log(tmp_path: Path, text: str, offset: int, ready: bool) -> None:
    log = tmp_path / "a.log"
    log.write_text(text)
    assert LogLineProbe(log, "ready").ready(offset) is ready
