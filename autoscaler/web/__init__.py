"""What the autoscaler serves over HTTP: health and metrics."""

from collections.abc import Callable

from flask import Flask, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest


def create_app(
    registry: CollectorRegistry, healthy: Callable[[], str | None], ready: Callable[[], str | None]
) -> Flask:
    """The web application; ``healthy`` and ``ready`` return ``None`` or a sentence that says what
    is wrong."""
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
    return Response(
        (complaint or "ok") + "\n",
        status=200 if complaint is None else 503,
        content_type="text/plain",
    )
