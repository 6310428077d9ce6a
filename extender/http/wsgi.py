"""gunicorn with exactly one worker process, with threads.

The ledger is memory of one process: a second worker would reserve the same room again. gunicorn's
environment and signals can ask for more workers; both are ignored, and a start-up check fails if
that ever changes. Connections are kept for longer than kube-scheduler leaves them idle. Health and
metrics are served by other threads at their own address: every pod of the cluster can reach that
one, and none may keep kube-scheduler waiting."""

import logging
import os
import select
import socket
import ssl
import sys
from typing import Any, Final

from flask import Flask
from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]  # gunicorn has no types
from gunicorn.workers.gthread import (  # type: ignore[import-untyped]  # likewise
    ThreadWorker,
)

from extender.application import Application
from extender.http.app import CALLS, Calls
from extender.http.direct import answer_call
from extender.http.parent_watch import end_with_parent
from extender.http.tls import Tls, TlsFiles
from extender.settings import Settings
from optimus.runtime.settings import address

_LOG = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS: Final = 75
GRACE_SECONDS: Final = 10

NEXT_CALL_SECONDS: Final = 0.05
"""How long a thread stays with a connection after a request. kube-scheduler's next call comes
within some milliseconds while it is busy: handing the connection to another thread and back costs
as much processor time as reading the request."""

_JSON_LINE: Final = (
    '{"at":"%(t)s","from":"%(h)s","method":"%(m)s","path":"%(U)s",'
    '"status":%(s)s,"bytes":"%(b)s","microseconds":%(D)s}'
)
_PLAIN_LINE: Final = "%(h)s %(m)s %(U)s %(s)s %(b)s bytes %(D)s us"


class KeepAliveWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's worker with threads, each of which waits a little for its connection's next
    request before it takes another connection."""

    def handle(self, conn: Any) -> Any:
        """Answer requests; true where the connection is to be kept. Runs on a worker thread."""
        if not self._secure(conn):
            return False
        while True:
            kept = self._answer_directly(conn)
            if kept is None:
                kept = super().handle(conn)
            if kept is not True or not self.alive or conn.parser.unreader.buf.getvalue():
                return kept
            if not _is_readable(conn.sock, NEXT_CALL_SECONDS):
                return kept

    def _secure(self, conn: Any) -> bool:
        """Shake hands on a new connection where TLS is set up; false where the client may not call.

        gunicorn's own TLS would let a client take any time for its handshake, and answer through
        gunicorn's parser."""
        tls: Tls | None = self.app.tls
        if tls is None or isinstance(conn.sock, ssl.SSLSocket):
            return True
        try:
            conn.sock = tls.secured(conn.sock)
        except OSError as error:
            _LOG.warning("a client at %s is not answered: %s", conn.client[0], error)
            return False
        return True

    def _answer_directly(self, conn: Any) -> bool | None:
        """Answer a call without gunicorn's parser; ``None`` leaves the request to gunicorn.

        gunicorn itself reads the first request of a connection, writes the access log, and informs
        clients that this process ends."""
        calls: Calls | None = getattr(self.wsgi, "extensions", {}).get(CALLS)
        if calls is None or not conn.initialized or conn.is_http2:
            return None
        full = len(self.keepalived_conns) >= self.max_keepalived
        if not self.alive or full or self.cfg.accesslog:
            return None
        try:
            conn.sock.setblocking(True)
            return answer_call(
                conn.sock, conn.parser.unreader, calls.by_request_line, calls.max_body_bytes
            )
        except OSError as error:
            _LOG.debug("a connection has failed: %s", error)
            return False


def _is_readable(sock: socket.socket, seconds: float) -> bool:
    """Whether something arrives within the time. (poll: select fails beyond 1,024 files.)"""
    waiting = select.poll()
    waiting.register(sock, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))


class Server(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn around one ``Application``, which lives in the worker.

    Raises BadCertificate where the settings name files that cannot be used."""

    def __init__(self, settings: Settings) -> None:
        files = TlsFiles.of(settings)
        self.tls = None if files is None else Tls(files)
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

    def load(self) -> Flask:
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
        "threads": settings.threads,
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
