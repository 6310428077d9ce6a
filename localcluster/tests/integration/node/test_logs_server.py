"""The log endpoint over TLS, with a client that reads, follows and leaves."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
import urllib3

from localcluster.node.logs import LogFile
from localcluster.node.logs_server import serve_logs
from localcluster.tls_server import TlsServer
from tests.cases import cases


class OneLog:
    """One pod with one container."""

    def __init__(self, folder: Path) -> None:
        self.file = LogFile(folder / "0.log")

    def log(
        self, namespace: str, pod: str, container: str, *, previous: bool
    ) -> tuple[Path, LogFile | None] | str:
        if (namespace, pod, container, previous) != ("ns", "p", "main", False):
            return f'container "{container}" in pod "{pod}" is waiting to start: ContainerCreating'
        return self.file.path, self.file


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[tuple[OneLog, TlsServer, urllib3.PoolManager]]:
    """A served log and a client."""
    source, authority = OneLog(tmp_path), trustme.CA()
    server = serve_logs(source, authority)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    client = urllib3.PoolManager(ssl_context=context, retries=False, timeout=urllib3.Timeout(180))
    yield source, server, client
    client.clear()
    server.stop()
    if not source.file.closed:
        source.file.close()


Served = tuple[OneLog, TlsServer, urllib3.PoolManager]


def get(logs: Served, path: str) -> urllib3.BaseHTTPResponse:
    """Ask the server."""
    _, server, client = logs
    response = client.request(
        "GET", f"https://127.0.0.1:{server.server_port}{path}", preload_content=False
    )
    assert isinstance(response, urllib3.BaseHTTPResponse)
    return response


def test_a_log_is_read(logs: Served) -> None:
    logs[0].file.write("stdout", b"one\ntwo\n")
    answer = get(logs, "/containerLogs/ns/p/main?tailLines=1")
    assert (answer.status, answer.read()) == (200, b"two\n")


def test_a_followed_log_arrives_line_by_line_and_ends_with_the_container(logs: Served) -> None:
    file = logs[0].file
    file.write("stdout", b"one\n")
    answer = get(logs, "/containerLogs/ns/p/main?follow=true")
    pieces = answer.stream(65536)
    assert next(pieces) == b"one\n"
    file.write("stderr", b"two\n")
    assert next(pieces) == b"two\n"
    file.close()
    assert list(pieces) == []


def test_a_disconnected_follower_does_not_block_the_server(logs: Served) -> None:
    logs[0].file.write("stdout", b"one\n")
    answer = get(logs, "/containerLogs/ns/p/main?follow=true")
    assert next(answer.stream(65536)) == b"one\n"
    answer.close()
    assert get(logs, "/containerLogs/ns/p/main").read() == b"one\n"


@cases(
    ("path", "status", "sentence"),
    {
        "no such log": ("/containerLogs/ns/p/other", 400, "is waiting to start"),
        "a bad query": ("/containerLogs/ns/p/main?tailLines=x", 400, "cannot be understood"),
        "another endpoint of a kubelet": ("/exec/ns/p/main", 501, "only logs are"),
    },
)
def test_a_log_request_that_cannot_be_served_is_answered_with_a_message(
    logs: Served, path: str, status: int, sentence: str
) -> None:
    answer = get(logs, path)
    assert answer.status == status
    assert sentence in answer.read().decode()
