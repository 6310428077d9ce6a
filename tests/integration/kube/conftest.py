"""An API server double: pytest-httpserver, and a client that talks to it as to a real one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from kube.client import Client, connect

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: test
contexts: [{{name: test, context: {{cluster: test, user: test}}}}]
clusters: [{{name: test, cluster: {{server: "{server}"}}}}]
users: [{{name: test, user: {{tokenFile: token}}}}]
"""


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("first\n")
    return path


@pytest.fixture
def client(httpserver: HTTPServer, tmp_path: Path, token_file: Path) -> Iterator[Client]:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG.format(server=httpserver.url_for("").rstrip("/")))
    client = connect(kubeconfig, user_agent="test/1")
    yield client
    client.close()
