"""A kubeconfig for the API server double."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer


@pytest.fixture(scope="session")
def make_httpserver() -> Iterator[HTTPServer]:
    """The server of all tests, with a thread per request: a watch that hangs holds up no other."""
    server = HTTPServer(host="localhost", threaded=True)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def kubeconfig(httpserver: HTTPServer, tmp_path: Path) -> Path:
    """The file that names the double."""
    path = tmp_path / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [
                    {"name": "c", "cluster": {"server": httpserver.url_for("").rstrip("/")}}
                ],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return path
