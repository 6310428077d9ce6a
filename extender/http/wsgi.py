"""gunicorn with exactly one worker process, with threads.

The ledger is memory of one process: a second worker would reserve the same room again. gunicorn's
environment and signals can ask for more workers; both are ignored, and a start-up check fails if
that ever changes. Connections are kept for longer than kube-scheduler leaves them idle. Health and
metrics are served by other threads at their own address: every pod of the cluster can reach that
one, and none may keep kube-scheduler waiting."""

import logging
import os
import select
import selectors
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]  # gunicorn has no types
from gunicorn.workers.gthread import (  # type: ignore[import-untyped]  # likewise
    ThreadWorker,
)

from extender.application import Application
from extender.http.app import MAX_BODY_BYTES, RoutedApp
from extender.http.incoming import Incoming, TooLarge
from extender.http.parent_watch import end_with_parent
from extender.http.tls import Tls, TlsFiles
from extender.settings import Settings
from optimus.runtime.settings import address

_LOG = logging.getLogger(__name__)

THREADS: Final = 8
"""Requests served at the same time; kube-scheduler sends one, the others are for health and
metrics."""

KEEP_ALIVE_SECONDS: Final = 75
GRACE_SECONDS: Final = 10

REQUEST_SECONDS: Final = 10.0
"""How long a client may take from its connection, or from the first byte of a further request, to
the last byte: twice as long as kube-scheduler waits for an answer by default."""

ANSWER_SECONDS: Final = 5.0
"""How long a client may take to read an answer: a thread waits for it."""

PART_SECONDS: Final = 0.005
"""How long a thread waits, once, for the rest of a request: its parts follow at once."""

CLOSE_SECONDS: Final = 2.0
"""How long a connection is closed after its last answer, unless the client closes it."""

MOST_STAYING: Final = 2
"""Threads that may stay with a connection at a time. kube-scheduler has one connection."""

_READ_BYTES: Final = 65536

NEXT_CALL_SECONDS: Final = 0.05
"""How long a thread stays with a connection after a request. kube-scheduler's next call comes
within some milliseconds while it is busy: handing the connection to another thread and back costs
as much processor time as reading the request."""

_JSON_LINE: Final = (
    '{"at":"%(t)s","from":"%(h)s","method":"%(m)s","path":"%(U)s",'
    '"status":%(s)s,"bytes":"%(b)s","microseconds":%(D)s}'
)
_PLAIN_LINE: Final = "%(h)s %(m)s %(U)s %(s)s %(b)s bytes %(D)s us"


_PARK: Final = object()
"""What ``handle`` returns of a connection that is to wait, without a thread, for more to arrive."""


class KeepAliveWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's worker with threads that never wait for a client.

    A request is read as it arrives, by whichever thread is free, and answered once it is whole;
    connections between two readings are the poller's. gunicorn itself would read the head and the
    body on a blocking socket: as many silent clients as there are threads would keep kube-scheduler
    waiting for as long as they like."""

    _may_stay = threading.BoundedSemaphore(MOST_STAYING)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._parked: dict[Any, float] = {}
        """Connections by when they are closed (monotonic), the one that came first first."""

    # --- the thread with the poller

    def finish_request(self, conn: Any, fs: Any) -> None:
        """Keep, park or close a connection that a thread is done with."""
        error = None if fs.cancelled() else fs.exception()
        if error is not None:
            _LOG.error("a connection has failed", exc_info=error, extra={"where": "connection"})
        result = False if error is not None or fs.cancelled() else fs.result()
        if result is _PARK:
            self._park(conn, conn.incoming.deadline, self._arrived)
        elif result:
            super().finish_request(conn, fs)
        else:
            self._begin_to_close(conn)

    def _park(self, conn: Any, until: float, then: Callable[[Any], None]) -> None:
        try:
            conn.sock.setblocking(False)

            def wake(_sock: object) -> None:
                self._unpark(conn)
                then(conn)

            self.poller.register(conn.sock, selectors.EVENT_READ, wake)
            self._parked[conn] = until
        except (OSError, ValueError):
            self._close(conn)

    def _unpark(self, conn: Any) -> None:
        del self._parked[conn]
        self.poller.unregister(conn.sock)

    def _arrived(self, conn: Any) -> None:
        self.enqueue_req(conn)

    def _begin_to_close(self, conn: Any) -> None:
        """Say that no more is sent, and close once the client has, or soon: closed at once, with
        something unread, a connection loses the end of its answer. (gunicorn would wait for it
        here, where it keeps every other connection waiting.)"""
        try:
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._close(conn)
            return
        self._park(conn, time.monotonic() + CLOSE_SECONDS, self._discard)

    def _discard(self, conn: Any) -> None:
        try:
            rest = conn.sock.recv(_READ_BYTES)
        except OSError:
            rest = b""
        if not rest:
            self._close(conn)
        else:
            self._park(conn, time.monotonic() + CLOSE_SECONDS / 10, self._discard)

    def _close(self, conn: Any) -> None:
        self.nr_conns -= 1
        conn.close()

    def murder_keepalived(self, force: bool = False) -> None:
        """Close what has had its time, and the oldest where there are too many connections."""
        super().murder_keepalived(force)
        now = time.monotonic()
        all_of_them = force or not self.alive
        over = [conn for conn, until in self._parked.items() if all_of_them or until <= now]
        for conn in over:
            self._unpark(conn)
            self._close(conn)
        if self.nr_conns >= self.worker_connections and self.alive:
            if self._parked:
                oldest = next(iter(self._parked))
                self._unpark(oldest)
                self._close(oldest)
            elif self.keepalived_conns:
                self.keepalived_conns[0].timeout = now
                super().murder_keepalived()

    # --- the other threads

    def handle(self, conn: Any) -> Any:
        """Answer requests; true where the connection is to be kept."""
        while True:
            whole = self._receive(conn)
            if whole is not True:
                return whole
            kept = super().handle(conn)
            if kept is not True or not self.alive or conn.parser.unreader.buf.getvalue():
                return kept
            if not self._next_comes(conn):
                return kept

    def _receive(self, conn: Any) -> Any:
        """Whether a whole request is in gunicorn's buffer; ``_PARK`` where more has to arrive,
        false where the connection is to be closed."""
        incoming = getattr(conn, "incoming", None)
        if incoming is None:
            deadline = time.monotonic() + REQUEST_SECONDS
            incoming = conn.incoming = Incoming(self.app.max_body_bytes, deadline)
        try:
            if not self._is_open(conn):
                return _PARK
            conn.sock.setblocking(False)
            arrived = conn.parser.unreader.take_buffered()
            while not incoming.feed(arrived):
                found = self._read(conn, incoming)
                if found is None:
                    return _PARK
                if not found or time.monotonic() > incoming.deadline:
                    return False
                arrived = found
        except TooLarge:
            _LOG.warning("a request of a client at %s is too large", conn.client)
            return False
        except OSError as error:
            if self.app.tls is None or conn.initialized:
                _LOG.debug("a connection has failed: %s", error)
            else:
                _LOG.warning("a client at %s is not answered: %s", conn.client[0], error)
            return False
        conn.parser.unreader.unread(incoming.take())
        conn.incoming = None
        return True

    def _is_open(self, conn: Any) -> bool:
        """Whether a connection may be read: with TLS, once hands are shaken.

        gunicorn's own TLS would let a client take any time for its handshake, and answer through
        gunicorn's parser."""
        tls: Tls | None = self.app.tls
        if conn.initialized:
            return True
        if tls is not None:
            if not isinstance(conn.sock, ssl.SSLSocket):
                conn.sock.setblocking(False)
                conn.sock = tls.wrapped(conn.sock)
            try:
                conn.sock.do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return False
        conn.init()
        # For what gunicorn writes and reads itself: a socket that blocks has no other limit.
        limit = struct.pack("ll", int(ANSWER_SECONDS), 0)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            conn.sock.setsockopt(socket.SOL_SOCKET, option, limit)
        return True

    def _read(self, conn: Any, incoming: Incoming) -> bytes | None:
        """What has arrived; empty: the client has closed its end; ``None``: nothing.

        Most requests come in one piece or two: a thread waits for the second, once."""
        while True:
            try:
                return bytes(conn.sock.recv(_READ_BYTES))
            except (BlockingIOError, ssl.SSLWantReadError):
                if not incoming.may_wait:
                    return None
                incoming.may_wait = False
                if not _is_readable(conn.sock, PART_SECONDS):
                    return None

    def _next_comes(self, conn: Any) -> bool:
        """Stay with a connection for a moment; some threads at a time may, not all of them."""
        if not self._may_stay.acquire(blocking=False):
            return False
        try:
            return _is_readable(conn.sock, NEXT_CALL_SECONDS)
        finally:
            self._may_stay.release()


def _is_readable(sock: socket.socket, seconds: float) -> bool:
    """Whether something arrives within the time. (poll: select fails beyond 1,024 files.)"""
    waiting = select.poll()
    waiting.register(sock, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))


class WebhookServer(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn around one ``Application``, which lives in the worker.

    Raises BadCertificate where the settings name files that cannot be used."""

    def __init__(self, settings: Settings) -> None:
        files = TlsFiles.of(settings)
        self.tls = None if files is None else Tls(files)
        self.max_body_bytes = MAX_BODY_BYTES
        self._settings = settings
        self._application: Application | None = None
        self._master = os.getpid()
        super().__init__()

    def load_config(self) -> None:
        """gunicorn's settings, from ours alone."""
        hooks = {
            "when_ready": lambda arbiter: check_single(
                arbiter.num_workers, self.cfg.worker_class_str
            ),
            "worker_exit": self._stop,
            "on_starting": _ignore_worker_signals,
        }
        for name, value in (options(self._settings) | hooks).items():
            self.cfg.set(name, value)

    def load(self) -> RoutedApp:
        """Called in the worker: threads do not survive a fork."""
        end_with_parent(self._master)
        self._application = Application(self._settings)
        self._application.start()
        return self._application.wsgi()

    def _stop(self, _arbiter: Any, _worker: Any) -> None:
        if self._application is not None:
            self._application.stop()


def options(settings: Settings) -> dict[str, object]:
    """gunicorn's settings."""
    host, port = address(settings.listen)
    return {
        "bind": f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        "workers": 1,
        "worker_class": KeepAliveWorker,
        "threads": THREADS,
        "keepalive": KEEP_ALIVE_SECONDS,
        "graceful_timeout": GRACE_SECONDS,
        "timeout": 30,
        "accesslog": None if settings.access_log == "off" else "-",
        "access_log_format": _JSON_LINE if settings.access_log == "json" else _PLAIN_LINE,
        "loglevel": settings.log_level,
        "control_socket_disable": True,
        "proc_name": "optimus-extender",
    }


def check_single(workers: int, worker_class: str) -> None:
    """Exit where gunicorn is about to run anything but one worker process with threads."""
    if workers != 1 or worker_class != KeepAliveWorker.__name__:
        needed = "the ledger is in one process's memory: one worker with threads is needed"
        sys.exit(f"{needed}, not {workers} {worker_class}")


def _ignore_worker_signals(arbiter: Any) -> None:
    def refuse() -> None:
        _LOG.warning("the number of workers stays 1: the ledger is in one process's memory")

    # SIGTTIN and SIGTTOU ask for more and fewer workers, SIGHUP for a new one beside the old one.
    arbiter.handle_ttin = arbiter.handle_ttou = arbiter.handle_hup = refuse
