"""gunicorn around the application: its settings, its one worker, and the calls of a connection."""

import os
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from gunicorn.http.unreader import SocketUnreader  # type: ignore[import-untyped]  # has no types
from gunicorn.workers.gthread import ThreadWorker  # type: ignore[import-untyped]  # likewise

from extender.http.wsgi import (
    GRACE_SECONDS,
    KEEP_ALIVE_SECONDS,
    THREADS,
    KeepAliveWorker,
    WebhookServer,
)
from extender.settings import Settings

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


@pytest.mark.parametrize("workers", [0, 2])
def test_a_start_with_any_other_number_of_workers_ends(workers: int) -> None:
    cfg = WebhookServer(Settings()).cfg
    cfg.when_ready(SimpleNamespace(num_workers=1))
    with pytest.raises(SystemExit, match=f"one worker with threads is needed, not {workers} "):
        cfg.when_ready(SimpleNamespace(num_workers=workers))


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
