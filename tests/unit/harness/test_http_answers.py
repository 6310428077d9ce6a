"""Answers of processes that are killed while they answer."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.harness.http_answers import body_of


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A server that sends so much to one client and closes the connection; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        server = threading.Thread(target=serve)
        server.start()
        yield listener.getsockname()[1]
        server.join(60)


def test_a_whole_answer_is_read() -> None:
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n") as port:
        assert body_of(port, "/readyz") == "ok\n"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\no",
        b"HTT",
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
    ],
    ids=["nothing", "no body", "a part of it", "a part of the head", "another status"],
)
def test_any_other_is_none(answer: bytes) -> None:
    with answering(answer) as port:
        assert body_of(port, "/readyz") is None


def test_so_is_none_at_all() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert body_of(port, "/readyz") is None
