"""gunicorn around the application: its settings, its one worker, and the calls of a connection."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from gunicorn.http.unreader import SocketUnreader  # type: ignore[import-untyped]  # has no types
from gunicorn.workers.gthread import ThreadWorker  # type: ignore[import-untyped]  # likewise

from extender.http.wsgi import (
    _PARK,
    GRACE_SECONDS,
    KEEP_ALIVE_SECONDS,
    THREADS,
    KeepAliveWorker,
    WebhookServer,
)
from extender.settings import Settings
from tests.cases import cases

# --- settings


def test_gunicorn_runs_with_the_settings_of_the_extender_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", "4")
    monkeypatch.setenv("GUNICORN_CMD_ARGS", "--workers=3 --bind=0.0.0.0:1")
    cfg = WebhookServer(Settings(listen="127.0.0.1:8889", log_level="warning")).cfg
    assert (cfg.workers, cfg.threads, cfg.worker_class) == (1, THREADS, KeepAliveWorker)
    assert (cfg.bind, cfg.loglevel, cfg.proc_name) == (
        ["127.0.0.1:8889"],
        "warning",
        "optimus-extender",
    )
    assert (cfg.keepalive, cfg.graceful_timeout) == (KEEP_ALIVE_SECONDS, GRACE_SECONDS)
    assert cfg.timeout == 30, "a worker that hangs for half a minute is started anew"
    assert cfg.control_socket_disable is True


@cases(
    ("chosen", "where", "line"),
    {
        "off": ("off", None, None),
        "plain": ("plain", "-", "%(h)s %(m)s"),
        "json": ("json", "-", '{"at":'),
    },
)
def test_requests_are_logged_as_chosen(chosen: str, where: str | None, line: str | None) -> None:
    cfg = WebhookServer(Settings(access_log=chosen)).cfg
    assert cfg.accesslog == where
    assert line is None or cfg.access_log_format.startswith(line)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_start_with_any_other_number_of_workers_ends(workers: int) -> None:
    cfg = WebhookServer(Settings()).cfg
    cfg.when_ready(SimpleNamespace(num_workers=1))
    with pytest.raises(SystemExit, match=f"one worker with threads is needed, not {workers} "):
        cfg.when_ready(SimpleNamespace(num_workers=workers))


@pytest.mark.parametrize("asked", [signal.SIGTTIN, signal.SIGTTOU, signal.SIGHUP])
def test_no_signal_makes_a_second_worker(asked: signal.Signals) -> None:
    arbiter: Any = SimpleNamespace(num_workers=1)
    WebhookServer(Settings()).cfg.on_starting(arbiter)
    getattr(arbiter, f"handle_{asked.name.lower().removeprefix('sig')}")()
    assert arbiter.num_workers == 1


# --- the application in the worker


class FakeApplication:
    """Notes what is done with it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.done: list[str] = []

    def start(self) -> None:
        self.done.append("start")

    def stop(self) -> None:
        self.done.append("stop")

    def wsgi(self) -> "FakeApplication":
        return self


def test_the_application_lives_as_long_as_the_worker_and_ends_with_its_master(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    masters: list[int] = []
    monkeypatch.setattr("extender.http.wsgi.end_with_parent", masters.append)
    monkeypatch.setattr("extender.http.wsgi.Application", FakeApplication)
    settings = Settings()
    server = WebhookServer(settings)
    server.cfg.worker_exit(None, None)  # a worker that ends before it has loaded anything
    loaded: Any = server.load()
    assert (loaded.settings, loaded.done, masters) == (settings, ["start"], [os.getpid()])
    server.cfg.worker_exit(None, None)
    assert loaded.done == ["start", "stop"]


# --- a connection


def request(body: bytes) -> bytes:
    head = f"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Gunicorn(ThreadWorker):  # type: ignore[misc]  # likewise
    """What `KeepAliveWorker` leaves to gunicorn: the first request in its buffer."""

    calls: list[bytes]
    keeps: bool = True
    sends: socket.socket | None = None
    """By which the next request comes as soon as this one is answered."""

    def handle(self, conn: Any) -> bool:
        data = conn.parser.unreader.take_buffered()
        head, _, rest = data.partition(b"\r\n\r\n")
        length = int(head.rpartition(b" ")[2])
        self.calls.append(rest[:length])
        conn.parser.unreader.unread(rest[length:])
        if self.sends is not None and len(self.calls) < 3:
            self.sends.sendall(request(b"next"))
        return self.keeps


class Worker(KeepAliveWorker, Gunicorn):
    """gunicorn's worker without its process."""

    def __init__(self, *, keeps: bool = True) -> None:
        self.calls, self.keeps = [], keeps
        self.app: Any = SimpleNamespace(tls=None, max_body_bytes=100_000)
        self.alive = True


class Connection:
    """What gunicorn keeps of a connection, and its other end."""

    def __init__(self, *, initialized: bool = True) -> None:
        self.client, self.sock = socket.socketpair()
        self.parser = SimpleNamespace(unreader=SocketUnreader(self.sock))
        self.initialized = initialized

    def init(self) -> None:
        self.initialized = True


@pytest.fixture
def conn() -> Iterator[Connection]:
    made = Connection()
    yield made
    made.client.close()
    made.sock.close()


def test_a_thread_stays_with_a_connection_while_calls_come(conn: Connection) -> None:
    worker = Worker()
    worker.sends = conn.client
    conn.client.sendall(request(b"one"))
    assert worker.handle(conn) is True, "and the connection is kept"
    assert worker.calls == [b"one", b"next", b"next"]


def test_a_call_that_has_come_already_goes_back_to_the_queue(conn: Connection) -> None:
    worker = Worker()
    conn.client.sendall(request(b"one") + request(b"two"))
    assert worker.handle(conn) is True
    assert worker.calls == [b"one"]
    assert conn.parser.unreader.buf.getvalue() == request(b"two")


def test_no_thread_waits_for_the_rest_of_a_call(conn: Connection) -> None:
    worker, sent = Worker(), request(b"one and the rest")
    for part in (sent[:10], sent[10:40], sent[40:-8]):
        conn.client.sendall(part)
        assert worker.handle(conn) is _PARK
    conn.client.sendall(sent[-8:])
    assert worker.handle(conn) is True
    assert worker.calls == [b"one and the rest"]


def test_a_connection_without_a_request_waits_without_a_thread(conn: Connection) -> None:
    conn.initialized = False
    worker = Worker()
    assert worker.handle(conn) is _PARK
    assert worker.calls == []


def test_a_client_that_trickles_is_not_read_beyond_its_time(
    conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extender.http.wsgi.REQUEST_SECONDS", -1.0)
    conn.client.sendall(b"P")
    assert Worker().handle(conn) is False


def test_some_threads_alone_stay_with_a_connection(
    conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KeepAliveWorker, "_may_stay", threading.BoundedSemaphore(1))
    worker = Worker()
    worker.sends = conn.client
    with KeepAliveWorker._may_stay:
        conn.client.sendall(request(b"one"))
        assert worker.handle(conn) is True
    assert worker.calls == [b"one"], "its next call has come, and another thread answers it"


def test_a_connection_is_closed_where_gunicorn_does_not_keep_it(conn: Connection) -> None:
    worker = Worker(keeps=False)
    conn.client.sendall(request(b"one"))
    assert worker.handle(conn) is False
    assert worker.calls == [b"one"]


def test_a_worker_that_is_to_end_takes_no_further_call(conn: Connection) -> None:
    worker = Worker()
    worker.sends = conn.client
    worker.alive = False
    conn.client.sendall(request(b"one"))
    assert worker.handle(conn) is True
    assert worker.calls == [b"one"]


def test_a_connection_that_ends_is_not_kept(conn: Connection) -> None:
    conn.client.close()
    assert Worker().handle(conn) is False
