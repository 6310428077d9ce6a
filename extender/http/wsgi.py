"""gunicorn with exactly one worker process, with threads.

The ledger is memory of one process: a second worker would reserve the same room again. gunicorn's
environment and signals can ask for more workers; both are ignored, and a start-up check fails if
that ever changes. Connections are kept for longer than kube-scheduler leaves them idle.

A thread waits for a client that sends half a request: the listener is for kube-scheduler alone, at
127.0.0.1 of its own pod. Health and metrics, which every pod of the cluster can reach, are served
by other threads at their own address."""

import logging
import os
import sys
from typing import Any, Final

from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]  # gunicorn has no types

from extender.application import Application
from extender.http.app import RoutedApp
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


class WebhookServer(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn around one ``Application``, which lives in the worker.

    Raises BadCertificate where the settings name files that cannot be used."""

    def __init__(self, settings: Settings) -> None:
        files = TlsFiles.of(settings)
        self._tls = None if files is None else Tls(files)
        self._settings = settings
        self._application: Application | None = None
        self._master = os.getpid()
        super().__init__()

    def load_config(self) -> None:
        """gunicorn's settings, from ours alone."""
        hooks: dict[str, object] = {
            "when_ready": lambda arbiter: check_single(arbiter.num_workers),
            "worker_exit": self._stop,
            "on_starting": _ignore_worker_signals,
        }
        if self._tls is not None:
            newest = self._tls.newest
            hooks["ssl_context"] = lambda _config, _default: newest()  # for each connection
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
        "worker_class": "gthread",
        "threads": THREADS,
        "keepalive": KEEP_ALIVE_SECONDS,
        "graceful_timeout": GRACE_SECONDS,
        "timeout": 30,
        "loglevel": settings.log_level,
        "control_socket_disable": True,
        "certfile": settings.tls_cert_file and str(settings.tls_cert_file),
        "keyfile": settings.tls_private_key_file and str(settings.tls_private_key_file),
        "proc_name": "optimus-extender",
    }


def check_single(workers: int) -> None:
    """Exit where gunicorn is about to run anything but one worker process."""
    if workers != 1:
        needed = "the ledger is in one process's memory: one worker with threads is needed"
        sys.exit(f"{needed}, not {workers}")


def _ignore_worker_signals(arbiter: Any) -> None:
    def refuse() -> None:
        _LOG.warning("the number of workers stays 1: the ledger is in one process's memory")

    # SIGTTIN and SIGTTOU ask for more and fewer workers, SIGHUP for a new one beside the old one.
    arbiter.handle_ttin = arbiter.handle_ttou = arbiter.handle_hup = refuse
