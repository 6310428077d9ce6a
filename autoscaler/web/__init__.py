"""What the autoscaler serves over HTTP: health and metrics.

Served from a thread of the process: the decisions must never wait for a reader.
"""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from flask import Flask, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from werkzeug.serving import make_server

from settings import address


def create_app(
    registry: CollectorRegistry, healthy: Callable[[], str | None], ready: Callable[[], str | None]
) -> Flask:
    """The web application; ``healthy`` and ``ready`` return ``None`` or a sentence that says what is wrong."""
    app = Flask(__name__)

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)

    @app.get("/healthz")
    def healthz() -> Response:
        return _verdict(healthy())

    @app.get("/readyz")
    def readyz() -> Response:
        return _verdict(ready())

    return app


def _verdict(complaint: str | None) -> Response:
    return Response((complaint or "ok") + "\n", status=200 if complaint is None else 503, content_type="text/plain")


class WebServer:
    """Serves an application from a thread until the block ends."""

    def __init__(self, app: Flask, listen: str) -> None:
        host, port = address(listen)
        self._server = make_server(host, port, app, threaded=True)
        self._thread = threading.Thread(target=self._server.serve_forever, name="web", daemon=True)

    @property
    def port(self) -> int:
        """The port that is listened on; the one chosen where port 0 was asked for."""
        return self._server.port

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)
