"""An API server double: pytest-httpserver, and a client that talks to it as to a real one."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from localcluster.kubeconfig import write_kubeconfig
from optimus.kube.client import READ_SECONDS, Client, connect

USER = {"tokenFile": "token"}


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("first\n")
    return path


@pytest.fixture
def client(httpserver: HTTPServer, tmp_path: Path, token_file: Path) -> Iterator[Client]:
    yield from _connected(httpserver.url_for("").rstrip("/"), tmp_path)


@pytest.fixture
def cut_off(tmp_path: Path, token_file: Path) -> Iterator[Client]:
    """A client of a server that is not there: its port is taken, but nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield from _connected(f"http://127.0.0.1:{taken.getsockname()[1]}", tmp_path)


@pytest.fixture
def frozen(tmp_path: Path, token_file: Path) -> Iterator[Client]:
    """A client of a server that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield from _connected(
            f"http://127.0.0.1:{silent.getsockname()[1]}", tmp_path, read_seconds=0.05
        )


def _connected(server: str, folder: Path, read_seconds: float = READ_SECONDS) -> Iterator[Client]:
    kubeconfig = folder / "kubeconfig"
    write_kubeconfig(kubeconfig, server, "", USER)
    client = connect(kubeconfig, user_agent="test/1", read_seconds=read_seconds)
    yield client
    client.close()
