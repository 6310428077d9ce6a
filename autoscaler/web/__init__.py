"""Serves health and metrics over HTTP."""

from collections.abc import Callable

from flask import Flask, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest


def create_app(
    registry: CollectorRegistry,
    healthy: Callable[[], str | None],
    ready: Callable[[], str | None],
    leadership_state: Callable[[], str] = lambda: "ok",
) -> Flask:
    """The web application; ``healthy`` and ``ready`` return ``None`` or what is wrong, and
    ``leadership_state`` says whether a process that is ready leads."""
    app = Flask(__name__)

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)

    @app.get("/healthz")
    def healthz() -> Response:
        return _status(healthy())

    @app.get("/readyz")
    def readyz() -> Response:
        return _status(ready(), leadership_state())

    return app


def _status(problem: str | None, well: str = "ok") -> Response:
    status = 200 if problem is None else 503
    return Response(f"{problem or well}\n", status=status, content_type="text/plain")
