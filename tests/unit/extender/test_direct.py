"""kube-scheduler's calls on a connection: read and answered as gunicorn would, or left to it."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import IO

import pytest
from gunicorn.http.unreader import SocketUnreader  # type: ignore[import-untyped]  # has no types

from extender.http.app import CALLS, Calls
from extender.http.direct import answer_call, by_request_line
from extender.http.wsgi import KeepAliveWorker

LIMIT = 100_000


def echo(body: IO[bytes]) -> bytes:
    return b"filter " + body.read()


def score(body: IO[bytes]) -> bytes:
    return b"prioritize " + body.read()


VERBS = by_request_line({"/filter": echo, "/prioritize": score})


def request(
    body: bytes = b"{}", line: str = "POST /filter HTTP/1.1", length: object = None, more: str = ""
) -> bytes:
    """A request as Go's client writes it."""
    known = {
        "Host": "127.0.0.1:8888",
        "User-Agent": "Go-http-client/1.1",
        "Content-Length": str(len(body) if length is None else length),
        "Content-Type": "application/json",
        "Accept-Encoding": "gzip",
    }
    lines = [f"{name}: {value}" for name, value in known.items()]
    lines += [more] if more else []
    return "\r\n".join([line, *lines, "", ""]).encode() + body


class Connection:
    """Both ends of a connection, and gunicorn's buffer at the server's."""

    def __init__(self) -> None:
        self.client, self.server = socket.socketpair()
        self.client.settimeout(30.0)
        self.server.settimeout(30.0)
        self.unreader = SocketUnreader(self.server)

    def answer(self) -> bool | None:
        return answer_call(self.server, self.unreader, VERBS, LIMIT)

    def read(self) -> tuple[dict[str, str], bytes]:
        """The next answer: its headers and body."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.client.recv(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        assert status == "HTTP/1.1 200 OK"
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        while len(body) < int(headers["content-length"]):
            body += self.client.recv(65536)
        return headers, body


@pytest.fixture
def connection() -> Iterator[Connection]:
    made = Connection()
    yield made
    made.client.close()
    made.server.close()


def in_background(act: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


def test_a_call_is_answered_with_what_its_verb_says(connection: Connection) -> None:
    connection.client.sendall(request(b'{"Pod": 1}'))
    assert connection.answer() is True
    headers, body = connection.read()
    assert body == b'filter {"Pod": 1}'
    assert headers["content-type"] == "application/json"
    assert headers["date"].endswith(" GMT")
    connection.client.sendall(request(b"[]", "POST /prioritize HTTP/1.1"))
    assert connection.answer() is True
    assert connection.read()[1] == b"prioritize []"


def test_a_long_body_arrives_in_parts(connection: Connection) -> None:
    body = json.dumps({"NodeNames": [f"node-{at}" for at in range(7000)]}).encode()
    assert len(body) > 65536
    sender = in_background(lambda: connection.client.sendall(request(body)))
    answers: list[bool | None] = []
    worker = in_background(lambda: answers.append(connection.answer()))
    assert connection.read()[1] == b"filter " + body
    sender.join(180.0)
    worker.join(180.0)
    assert answers == [True]


def test_a_body_and_a_length_of_just_the_limit_are_read(connection: Connection) -> None:
    connection.client.sendall(request(b"{}", length="0000000002"))
    assert answer_call(connection.server, connection.unreader, VERBS, 2) is True
    assert connection.read()[1] == b"filter {}"


def test_a_request_behind_the_first_is_kept_for_the_next_reader(connection: Connection) -> None:
    connection.client.sendall(request(b"one") + request(b"two"))
    assert connection.answer() is True
    assert connection.read()[1] == b"filter one"
    assert connection.unreader.buf.getvalue() == request(b"two")
    assert connection.answer() is True
    assert connection.read()[1] == b"filter two"


@pytest.mark.parametrize(
    "other",
    [
        request(line="GET /filter HTTP/1.1"),
        request(line="POST /filter HTTP/1.0"),
        request(line="POST /inspect HTTP/1.1"),
        request(line="POST /filter?a=b HTTP/1.1"),
        request(more="Transfer-Encoding: chunked"),
        request(more="Expect: 100-continue"),
        request(more="Connection: close"),
        request(more="content-length: 2"),
        request(length="+2"),
        request(length="-1"),
        request(length=""),
        request(length="2\x0b"),
        request(length="00000000002"),
        request(length="٢").replace("٢".encode(), b"\xb2"),  # a digit of Latin-1
        request(b"x" * 8, length=LIMIT + 1),
        request().replace(b"Host: 127.0.0.1:8888\r\n", b""),
        request().replace(b"Content-Length: 2\r\n", b""),
        request().replace(b"Host: ", b"Host : "),
        request().replace(b"\r\nUser-Agent", b"\r\n folded\r\nUser-Agent"),
        request().replace(b"\r\n", b"\n"),
        request()[:40],
    ],
)
def test_any_other_request_is_left_to_gunicorn_as_it_came(
    connection: Connection, other: bytes
) -> None:
    connection.client.sendall(other)
    assert connection.answer() is None
    assert connection.unreader.buf.getvalue() == other


def test_a_connection_that_the_client_has_closed_is_not_kept(connection: Connection) -> None:
    connection.client.close()
    assert connection.answer() is False


def test_a_client_that_leaves_in_the_middle_of_its_body_is_not_answered(
    connection: Connection,
) -> None:
    connection.client.sendall(request(b"half", length=8))
    connection.client.shutdown(socket.SHUT_WR)
    assert connection.answer() is False
    connection.server.shutdown(socket.SHUT_WR)
    assert connection.client.recv(10) == b""


@dataclass
class FakeConnection:
    """What gunicorn keeps of a connection."""

    sock: socket.socket
    parser: SimpleNamespace
    initialized: bool = True
    is_http2: bool = False


@dataclass
class Worker:
    """gunicorn's worker without its process, and one of its connections."""

    connection: Connection
    conn: FakeConnection
    worker: KeepAliveWorker

    def answer(self) -> bool | None:
        return self.worker._answer_directly(self.conn)


@pytest.fixture
def worker(connection: Connection) -> Worker:
    made = KeepAliveWorker.__new__(KeepAliveWorker)
    made.wsgi = SimpleNamespace(extensions={CALLS: Calls(VERBS, LIMIT)})
    made.cfg = SimpleNamespace(accesslog=None)
    made.alive, made.keepalived_conns, made.max_keepalived = True, [], 1
    connection.server.setblocking(False)  # as a connection comes from gunicorn's poller
    parser = SimpleNamespace(unreader=connection.unreader)
    return Worker(connection, FakeConnection(connection.server, parser), made)


@pytest.mark.parametrize(
    "set_up",
    [
        lambda each: setattr(each.conn, "initialized", False),
        lambda each: setattr(each.conn, "is_http2", True),
        lambda each: setattr(each.worker.cfg, "accesslog", "-"),
        lambda each: setattr(each.worker, "alive", False),
        lambda each: each.worker.keepalived_conns.append(each.conn),
        lambda each: each.worker.wsgi.extensions.clear(),
    ],
)
def test_the_worker_leaves_to_gunicorn_what_only_gunicorn_does(
    worker: Worker, set_up: Callable[[Worker], object]
) -> None:
    set_up(worker)
    worker.connection.client.sendall(request())
    assert worker.answer() is None


def test_the_worker_closes_a_connection_that_has_failed(worker: Worker) -> None:
    worker.connection.server.close()
    assert worker.answer() is False
