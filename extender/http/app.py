"""HTTP: /filter and /prioritize for kube-scheduler, /healthz, /readyz and /metrics for whoever
watches.

Whatever goes wrong is answered with 200 and a sentence in ``Error``: kube-scheduler shows that in
the pod's Event, while it does not even read the body of any other code. Health and metrics have an
application of their own, too."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from flask import Flask, Request, Response, request
from werkzeug.exceptions import HTTPException

from extender.http import wire
from extender.metrics import Metrics
from extender.results import FilterResult
from optimus.kube.errors import Malformed
from optimus.kube.pods import Pod

_LOG = logging.getLogger(__name__)
_JSON = "application/json"
_DRAINED_LIMITS = 8
"""Of a body that is too large, this many times the limit is read and thrown away."""


class Decider(Protocol):
    """Where pods may go; ``extender.placer.Placer`` is one."""

    def filter(self, pod: Pod, names: Sequence[str]) -> FilterResult:
        """Which of the offered nodes the pod may go to."""
        ...

    def prioritize(self, pod: Pod, names: Sequence[str]) -> dict[str, int]:
        """0 to 10 for each offered node."""
        ...


Readiness = Callable[[], str | None]
"""Whether decisions can be made: a sentence on what is missing, ``None`` where nothing is."""


class _Refusal(Exception):
    """What is answered instead of a decision."""


class Endpoints:
    """The handlers, over one placer."""

    def __init__(
        self, decider: Decider, readiness: Readiness, metrics: Metrics, max_body_bytes: int
    ) -> None:
        self._decider, self._readiness, self._metrics = decider, readiness, metrics
        self._max_body_bytes = max_body_bytes

    def filter(self) -> Response:
        """POST /filter."""
        return self._answer("filter", self._filter, wire.filter_error)

    def prioritize(self) -> Response:
        """POST /prioritize."""
        return self._answer("prioritize", self._prioritize, wire.prioritize_error)

    def _answer(
        self, verb: str, decide: Callable[[], bytes], failed: Callable[[str], bytes]
    ) -> Response:
        began = time.perf_counter()
        try:
            body = decide()
        except (_Refusal, Malformed) as refusal:
            self._metrics.errors.labels(verb).inc()
            body = failed(str(refusal))
        except HTTPException as error:
            self._metrics.errors.labels(verb).inc()
            body = failed(f"the request cannot be read: {error.description}")
        except Exception:  # noqa: BLE001 - one bad call must not become a 500, whose reason nobody would read
            _LOG.exception("%s failed", verb)
            self._metrics.errors.labels(verb).inc()
            body = failed(f"the extender failed on this {verb}; its log says why")
        self._metrics.calls.labels(verb).observe(time.perf_counter() - began)
        return Response(body, mimetype=_JSON)

    def _question(self) -> wire.Question:
        missing = self._readiness()
        question = wire.read_question(_body(request, self._max_body_bytes))
        if missing is not None:
            raise _Refusal(f"the extender is not ready: {missing}")
        return question

    def _filter(self) -> bytes:
        question = self._question()
        verdict = self._decider.filter(question.pod, question.names)
        self._metrics.nodes_in.inc(len(question.names))
        self._metrics.nodes_out.inc(len(verdict.kept))
        if not verdict.kept and verdict.cause:
            self._metrics.refusals.labels(verdict.cause).inc()
        return wire.filter_answer(question, verdict.kept, verdict.refused)

    def _prioritize(self) -> bytes:
        question = self._question()
        return wire.prioritize_answer(self._decider.prioritize(question.pod, question.names))

    def healthz(self) -> Response:
        """GET /healthz: the process serves."""
        return Response("ok\n", mimetype="text/plain")

    def readyz(self) -> Response:
        """GET /readyz: decisions can be made."""
        missing = self._readiness()
        return Response(
            f"{missing or 'ok'}\n", status=200 if missing is None else 503, mimetype="text/plain"
        )

    def metrics(self) -> Response:
        """GET /metrics."""
        return Response(
            self._metrics.text(), content_type="text/plain; version=0.0.4; charset=utf-8"
        )


def create_app(endpoints: Endpoints) -> Flask:
    """The WSGI application for kube-scheduler, and for whoever looks from beside it."""
    app = create_health_app(endpoints)
    app.add_url_rule("/filter", view_func=endpoints.filter, methods=["POST"])
    app.add_url_rule("/prioritize", view_func=endpoints.prioritize, methods=["POST"])
    app.register_error_handler(HTTPException, _not_served)
    return app


def create_health_app(endpoints: Endpoints) -> Flask:
    """The WSGI application for other pods and nodes: health and metrics alone."""
    app = Flask("extender")
    app.add_url_rule("/healthz", view_func=endpoints.healthz)
    app.add_url_rule("/readyz", view_func=endpoints.readyz)
    app.add_url_rule("/metrics", view_func=endpoints.metrics)
    app.register_error_handler(HTTPException, _only_health)
    return app


def _body(incoming: Request, limit: int) -> bytes:
    body = incoming.stream.read(limit + 1)
    if len(body) <= limit:
        return body
    # A client that is still sending when the connection closes never reads why.
    for _ in range(_DRAINED_LIMITS):
        if not incoming.stream.read(limit):
            break
    raise _Refusal(
        f"the body has more than the {limit} bytes that are read; set nodeCacheCapable: true"
    )


def _not_served(error: HTTPException) -> Response:
    served = "POST /filter, POST /prioritize, GET /healthz, GET /readyz and GET /metrics"
    return _sentence(
        error.code or 500, f"{request.method} {request.path} is not served, only {served}"
    )


def _only_health(error: HTTPException) -> Response:
    sentence = f"{request.path} is not served at this address, which is for health and metrics"
    return _sentence(error.code or 500, sentence)


def _sentence(status: int, sentence: str) -> Response:
    return Response(wire.prioritize_error(sentence), status=status, mimetype=_JSON)
