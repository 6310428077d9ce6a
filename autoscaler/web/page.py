"""The page: read-only views of the cluster, of its jobs and of what was decided, in a browser.

Everything comes from ``PageFeed``, which holds immutable copies: no request reaches the loop or the
API server. Names, log texts and Events are data of others: they are sent as JSON alone, and the
headers below let a browser run no script and load nothing but this server's own files."""

from collections.abc import Iterator
from typing import Final

import msgspec
from flask import Flask, Response, abort, request

from autoscaler.web.detail import Details
from autoscaler.web.feed import PageFeed, Update
from optimus.jobs import JobKey

_MOST_NODES: Final = 200
_HEARTBEAT_SECONDS: Final = 3.0
"""Shorter than the server's time-out for a silent connection."""

_POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)

HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
"""Of every answer."""


def create_page(feed: PageFeed) -> Flask:
    """The web application over a feed."""
    app = Flask(__name__, static_folder="assets", static_url_path="/assets")
    details = Details()

    @app.after_request
    def protect(response: Response) -> Response:
        response.headers.update(HEADERS)
        is_file = request.path == "/" or request.path.startswith("/assets/")
        response.headers["Cache-Control"] = "no-cache" if is_file else "no-store"
        return response

    @app.get("/")
    def index() -> Response:
        return app.send_static_file("index.html")

    @app.get("/api/overview")
    def overview() -> Response:
        update = feed.update(request.args.get("since", ""))
        return _nothing_yet() if update is None else _json(update)

    @app.get("/api/stream")
    def stream() -> Response:
        since = request.headers.get("Last-Event-ID") or request.args.get("since", "")
        return Response(_events(feed, since), content_type="text/event-stream")

    @app.get("/api/jobs/<namespace>/<name>")
    def job(namespace: str, name: str) -> Response:
        copy = feed.copy
        if copy is None:
            return _nothing_yet()
        found = details.find(copy, JobKey(namespace, name))
        if found is None:
            abort(404)
        return _json(details.job(copy, found, feed.timeline(found.uid)))

    @app.get("/api/nodes")
    def nodes() -> Response:
        copy = feed.copy
        if copy is None:
            return _nothing_yet()
        offset = max(request.args.get("offset", 0, int), 0)
        most = min(max(request.args.get("limit", 50, int), 1), _MOST_NODES)
        return _json(details.nodes(copy, request.args.get("q", "")[:100], offset, most))

    return app


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), content_type="application/json")


def _nothing_yet() -> Response:
    text = "nothing has been observed yet"
    return Response(
        msgspec.json.encode({"error": text}), status=503, content_type="application/json"
    )


def _events(feed: PageFeed, since: str) -> Iterator[bytes]:
    """Server-sent events: an update for each change, a comment where nothing changes."""
    yield b"retry: 2000\n\n"
    update = feed.update(since)
    while True:
        if update is not None:
            since = update.version
            yield _event(update)
        else:
            yield b": nothing new\n\n"
        update = feed.wait(since, _HEARTBEAT_SECONDS)
        if feed.is_closed:
            return


def _event(update: Update) -> bytes:
    return b"id: %s\ndata: %s\n\n" % (update.version.encode(), msgspec.json.encode(update))
