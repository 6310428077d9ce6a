"""The page: read-only views of the cluster, of its jobs and of what was decided, in a browser.

Everything comes from ``PageFeed``, which holds immutable copies: no request reaches the loop. The
Events on a job alone are read from the API server, within the limits of ``StoredEvents``. Names and
Events are data of others: they are sent as JSON alone, and the headers below let a browser run no
script and load nothing but this server's own files."""

import ipaddress
from collections.abc import Iterator
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

import msgspec
from flask import Flask, Response, abort, request

from autoscaler.web.copies import ClusterCopy, JobCopy
from autoscaler.web.detail import Details
from autoscaler.web.feed import PageFeed, Update
from autoscaler.web.job_events import BoundedSource
from autoscaler.web.stored import StoredEvents
from optimus.interval.decision_settings import DecisionSettings
from optimus.jobs import Counts, JobKey

_MOST_NODES: Final = 200
_MOST_REPLICAS: Final = 10_000
_FORWARDED: Final = ("127.0.0.1", "::1", "::ffff:127.0.0.1")
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
"""The headers of every answer."""


def create_page(feed: PageFeed, settings: DecisionSettings, source: BoundedSource) -> Flask:
    """The web application over a feed; ``settings`` are those by which counts are decided, and
    Events are read from ``source``."""
    app = Flask(__name__, static_folder="assets", static_url_path="/assets")
    api = _Api(feed, Details(settings), StoredEvents(source))

    @app.before_request
    def refuse_other_hosts() -> Response | None:
        if not _is_rebound(request.remote_addr or "", request.host):
            return None
        text = "Over loopback the page is answered as localhost or an IP address alone.\n"
        return Response(text, status=403, content_type="text/plain")

    @app.after_request
    def protect(response: Response) -> Response:
        response.headers.update(HEADERS)
        is_file = request.path == "/" or request.path.startswith("/assets/")
        response.headers["Cache-Control"] = "no-cache" if is_file else "no-store"
        return response

    @app.get("/")
    def index() -> Response:
        return app.send_static_file("index.html")

    app.get("/api/overview")(api.overview)
    app.get("/api/stream")(api.stream)
    app.get("/api/jobs/<namespace>/<name>")(api.job)
    app.get("/api/events/<namespace>/<name>")(api.events)
    app.get("/api/what-if/<namespace>/<name>")(api.what_if)
    app.get("/api/nodes")(api.nodes)
    return app


def _is_rebound(remote: str, host: str) -> bool:
    """A site's own name was made to lead here (DNS rebinding): a browser lets it read answers.

    Only the addresses of a port-forward: a service mesh's proxy has others of loopback, and brings
    the names of its users."""
    if remote not in _FORWARDED:
        return False
    with suppress(ValueError):
        name = urlsplit(f"//{host}").hostname or ""
        if name == "localhost" or name.endswith(".localhost"):
            return False
        ipaddress.ip_address(name)
        return False
    return True


class _Api:
    """The answers in JSON."""

    def __init__(self, feed: PageFeed, details: Details, stored: StoredEvents) -> None:
        self._feed, self._details, self._stored = feed, details, stored

    def overview(self) -> Response:
        update = self._feed.update(request.args.get("since", ""))
        return _json(update) if update is not None else _nothing_yet()

    def stream(self) -> Response:
        since = request.headers.get("Last-Event-ID") or request.args.get("since", "")
        return Response(_events(self._feed, since), content_type="text/event-stream")

    def job(self, namespace: str, name: str) -> Response:
        copy, job_copy = self._job_of(namespace, name)
        return _json(self._details.job(copy, job_copy, self._feed.timeline(job_copy.uid)))

    def events(self, namespace: str, name: str) -> Response:
        _, job_copy = self._job_of(namespace, name)
        return _json(self._stored.of(job_copy))

    def what_if(self, namespace: str, name: str) -> Response:
        copy, job_copy = self._job_of(namespace, name)
        counts = _asked_counts(job_copy)
        return _json(self._details.what_if(copy, job_copy, counts))

    def nodes(self) -> Response:
        offset = max(request.args.get("offset", 0, int), 0)
        most = min(max(request.args.get("limit", 50, int), 1), _MOST_NODES)
        text = request.args.get("q", "")[:100]
        return _json(self._details.nodes(self._copy(), text, offset, most))

    def _copy(self) -> ClusterCopy:
        copy = self._feed.copy
        return copy if copy is not None else abort(_nothing_yet())

    def _job_of(self, namespace: str, name: str) -> tuple[ClusterCopy, JobCopy]:
        """The latest copy, and the job of this name in it; else the request ends here."""
        copy = self._copy()
        job_copy = self._details.find(copy, JobKey(namespace, name))
        return copy, job_copy if job_copy is not None else abort(404)


def _asked_counts(job_copy: JobCopy) -> Counts:
    """The counts of the request, each the job's own where it is not named; no PSs where it has
    none."""
    if job_copy.job is None:
        abort(404)
    ps, workers = (
        min(max(request.args.get(role, now, int), 1), _MOST_REPLICAS)
        for role, now in zip(("ps", "workers"), job_copy.job.counts, strict=True)
    )
    return Counts(0 if job_copy.job.all_reduce else ps, workers)


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
