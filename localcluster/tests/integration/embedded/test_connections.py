"""Clients that read late or not at all hold up no other client, and lose nothing."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from localcluster.cluster import LocalCluster
from localcluster.kubeconfig import read_kubeconfig
from localcluster.paths import REPOSITORY
from localcluster.ports import pick_ports
from localcluster.readiness import HttpProbe
from tests.integration.embedded.waiting import Core, until

WATCHERS = 200
WRITES = 60
LARGE = "x" * 50_000
"""More of it is written than a connection holds of what its reader has not taken."""


@pytest.fixture
def late(cluster: LocalCluster, core: Core) -> Iterator[list[socket.socket]]:
    """Watches of ConfigMaps that were answered, and of which nothing is read then."""
    version = core.list_config_map_for_all_namespaces().metadata.resource_version
    with ExitStack() as opened:
        yield [opened.enter_context(watch(cluster, version)) for _ in range(WATCHERS)]


def watch(cluster: LocalCluster, version: str) -> socket.socket:
    credentials = read_kubeconfig(cluster.kubeconfig)
    server = urlsplit(credentials.server)
    asking = socket.socket()
    asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    asking.settimeout(180)
    asking.connect((server.hostname, server.port))
    path = f"/api/v1/namespaces/default/configmaps?watch=1&resourceVersion={version}"
    asking.sendall(
        f"GET {path} HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {credentials.token}\r\n\r\n".encode()
    )
    assert asking.recv(12) == b"HTTP/1.1 200"
    return asking


def events(asking: socket.socket, count: int) -> list[tuple[str, str]]:
    """So many events, whatever is between them on the wire: type and name of each."""
    found: list[tuple[str, str]] = []
    with asking.makefile("rb") as stream:
        for line in stream:
            if line.startswith(b'{"type"'):
                event = json.loads(line)
                found.append((event["type"], event["object"]["metadata"]["name"]))
            if len(found) == count:
                return found
    raise AssertionError(f"the stream ended after {found}")


def test_slow_watchers_block_no_writer_and_receive_every_event(
    late: list[socket.socket], core: Core
) -> None:
    names = [f"late-{number:02}" for number in range(WRITES)]
    for name in names:
        core.create_namespaced_config_map(
            "default", {"metadata": {"name": name}, "data": {"a": LARGE}}
        )
    for name in names:
        core.delete_namespaced_config_map(name, "default")
    wanted = [("ADDED", name) for name in names] + [("DELETED", name) for name in names]
    for each in (late[0], late[-1]):
        assert events(each, len(wanted)) == wanted


def test_an_incomplete_delete_request_deletes_nothing(cluster: LocalCluster, core: Core) -> None:
    core.create_namespaced_config_map("default", {"metadata": {"name": "kept"}})
    credentials = read_kubeconfig(cluster.kubeconfig)
    server = urlsplit(credentials.server)
    head = (
        "DELETE /api/v1/namespaces/default/configmaps/kept HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {credentials.token}\r\nContent-Type: "
        "application/json\r\nContent-Length: 60\r\n\r\n"
    )
    for body in (b"", b'{"preconditions":', b"{}"):
        with socket.create_connection((server.hostname, server.port)) as asking:
            asking.sendall(head.encode() + body)
            asking.shutdown(socket.SHUT_WR)
            while asking.recv(4096):  # until the server has taken note that no more will come
                pass
    assert core.read_namespaced_config_map("kept", "default").metadata.name == "kept"
    core.delete_namespaced_config_map("kept", "default")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_sigterm_ends_the_server_and_its_watches_cleanly(number: signal.Signals) -> None:
    (port,) = pick_ports(1)
    command = [sys.executable, "-m", "localcluster.embedded.apiserver", "--port", str(port)]
    with subprocess.Popen(command, cwd=REPOSITORY) as server:
        until(lambda: HttpProbe(port, "/readyz").ready(0), "the server answers")
        with (
            socket.create_connection(("127.0.0.1", port)) as asking,
            asking.makefile("rb") as stream,
        ):
            asking.sendall(b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert stream.readline().startswith(b"HTTP/1.1 200")
            server.send_signal(number)
            assert stream.read().endswith(b"0\r\n\r\n"), "the end of the stream is told"
        assert server.wait(180) == 0
