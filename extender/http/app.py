"""HTTP: the extender's verbs for kube-scheduler; /inspect for people; /healthz, /readyz and
/metrics for monitoring.

Whatever goes wrong is answered with 200 and a sentence in ``Error``: kube-scheduler shows that in
the pod's Event, and does not read the body of any other status. Health and metrics also have an
application of their own.

Both applications are one lookup by method and path: the routing and the request context of a web
framework would take longer than the decision."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import IO, Final, NamedTuple, TypeVar
from urllib.parse import parse_qs
from wsgiref.types import StartResponse, WSGIEnvironment

from werkzeug.exceptions import HTTPException
from werkzeug.wsgi import get_input_stream

from extender.answers import FilterResult
from extender.http import wire
from extender.metrics import Metrics
from extender.parts import Parts
from extender.preempt import Victims, allow_preemption
from extender.prioritize import score_nodes
from optimus.jobs import JobKey
from optimus.kube.errors import Malformed
from optimus.kube.pods import Pod

_LOG = logging.getLogger(__name__)
_JSON: Final = "application/json"
_TEXT: Final = "text/plain; charset=utf-8"
_Args = TypeVar("_Args", wire.ExtenderArgs, wire.ExtenderPreemptionArgs)
_DISCARDED_LIMITS = 8
"""How many times the limit is read, and thrown away, of a body that is too large."""


@dataclass(frozen=True, slots=True)
class Verbs:
    """The functions that decide; ``find_pod`` finds a pod that the watch has decoded already."""

    filter: Callable[[Pod, Sequence[str]], FilterResult]
    prioritize: Callable[[Pod, Sequence[str]], dict[str, int]]
    preempt: Callable[[Pod, Mapping[str, Victims]], dict[str, Victims]]
    find_pod: wire.FindPod

    @classmethod
    def of(cls, parts: Parts, ignored: frozenset[str] = frozenset()) -> "Verbs":
        """The verbs over one state, for pods as the watch shows them, without the resources in
        ``ignored``: another extender accounts for them."""
        state = parts.state

        def known(pod: Pod) -> Pod:
            in_gang = pod if pod.member is None else parts.handlers.job_sets.placed(pod)
            pod = state.with_devices(in_gang)
            return pod.without(ignored) if ignored else pod

        return cls(
            lambda pod, names: parts.gangs.filter(known(pod), names),
            lambda pod, names: score_nodes(parts, known(pod), names),
            lambda pod, victims: allow_preemption(state, known(pod), victims),
            state.cluster.find_pod,
        )


MAX_BODY_BYTES: Final = 33_554_432
"""Largest request body. 5,000 node names are 160 kB; whole nodes are about 14 kB each."""


class _Unanswered(Exception):
    """The call is answered by this sentence instead of a decision."""


class Endpoints:
    """The handlers. ``why_not_ready`` is ``None`` once decisions can be made, and from then on."""

    def __init__(
        self,
        verbs: Verbs,
        why_not_ready: Callable[[], str | None],
        metrics: Metrics,
        max_body_bytes: int,
        inspect: Callable[[JobKey | None], bytes] = lambda _: b"{}",
        why_too_old: Callable[[], str | None] = lambda: None,
    ) -> None:
        """``inspect`` gets the job that is asked about, or ``None`` for every gang that waits.

        ``why_too_old``: while it says anything, this process is not ready, but answers."""
        self._verbs, self._why_not_ready, self._metrics = verbs, why_not_ready, metrics
        self.max_body_bytes, self._inspect = max_body_bytes, inspect
        self._why_too_old = why_too_old
        self._ready = False
        self._calls = {
            "filter": (self._filter, wire.filter_error),
            "prioritize": (self._prioritize, wire.prioritize_error),
            "preempt": (self._preempt, wire.preempt_error),
        }

    def call(self, verb: str, body: IO[bytes]) -> bytes:
        """POST /filter, /prioritize or /preempt."""
        decide, failed = self._calls[verb]
        began = time.perf_counter()
        error = None
        try:
            answer = decide(body)
        except (_Unanswered, Malformed) as refusal:
            error = str(refusal)
        except HTTPException as fault:
            error = f"the request cannot be read: {fault.description}"
        except Exception:  # noqa: BLE001 - one bad call must not become a 500, whose reason nobody would read
            _LOG.exception("%s failed", verb, extra={"where": verb})
            error = f"internal error in {verb}; see the extender's log"
        if error is not None:
            self._metrics.errors.labels(verb).inc()
            answer = failed(error)
        self._metrics.calls.labels(verb).observe(time.perf_counter() - began)
        return answer

    def _read(self, stream: IO[bytes], read: Callable[[bytes, wire.FindPod], _Args]) -> _Args:
        reason = None if self._ready else self._why_not_ready()
        self._ready = reason is None
        args = read(self._body(stream), self._verbs.find_pod)
        if reason is not None:
            raise _Unanswered(f"the extender is not ready: {reason}")
        return args

    def _body(self, stream: IO[bytes]) -> bytes:
        limit = self.max_body_bytes
        body = stream.read(limit + 1)
        if len(body) <= limit:
            return body
        # A client that is still sending when the connection closes never reads why.
        for _ in range(_DISCARDED_LIMITS):
            if not stream.read(limit):
                break
        raise _Unanswered(
            f"the body has more than the {limit} bytes that are read; set nodeCacheCapable: true"
        )

    def _filter(self, body: IO[bytes]) -> bytes:
        args = self._read(body, wire.read_args)
        result = self._verbs.filter(args.pod, args.names)
        self._metrics.nodes_in.inc(len(args.names))
        self._metrics.nodes_out.inc(len(result.kept))
        if not result.kept and result.cause:
            self._metrics.refusals.labels(result.cause).inc()
        if result.error:
            return wire.filter_error(result.error)
        return wire.filter_answer(args, result.kept, result.refused)

    def _prioritize(self, body: IO[bytes]) -> bytes:
        args = self._read(body, wire.read_args)
        return wire.prioritize_answer(self._verbs.prioritize(args.pod, args.names))

    def _preempt(self, body: IO[bytes]) -> bytes:
        args = self._read(body, wire.read_preemption_args)
        return wire.preempt_answer(self._verbs.preempt(args.pod, args.victims))

    def inspect(self, environ: WSGIEnvironment) -> "HttpAnswer":
        """GET /inspect: why gangs wait; with ``?job=NAMESPACE/NAME`` that of one job."""
        query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        (job, *_) = query.get("job", [None])
        namespace, _, name = (job or "").partition("/")
        if job is not None and (not namespace or not name):
            sentence = f"job={job!r}: NAMESPACE/NAME is expected"
            return HttpAnswer(wire.prioritize_error(sentence), HTTPStatus.BAD_REQUEST)
        try:
            return HttpAnswer(self._inspect(None if job is None else JobKey(namespace, name)))
        except Exception:  # noqa: BLE001 - said in the log, and in an answer of the same form as others
            _LOG.exception("inspect failed", extra={"where": "inspect"})
            sentence = "internal error in inspect; see the extender's log"
            return HttpAnswer(wire.prioritize_error(sentence), HTTPStatus.INTERNAL_SERVER_ERROR)

    def healthz(self, _: WSGIEnvironment) -> "HttpAnswer":
        """GET /healthz: the process serves."""
        return HttpAnswer(b"ok\n", content_type=_TEXT)

    def readyz(self, _: WSGIEnvironment) -> "HttpAnswer":
        """GET /readyz: new plans can be made."""
        reason = self._why_not_ready() or self._why_too_old()
        status = HTTPStatus.OK if reason is None else HTTPStatus.SERVICE_UNAVAILABLE
        return HttpAnswer(f"{reason or 'ok'}\n".encode(), status, _TEXT)

    def metrics(self, _: WSGIEnvironment) -> "HttpAnswer":
        """GET /metrics."""
        content_type = "text/plain; version=0.0.4; charset=utf-8"
        return HttpAnswer(self._metrics.text(), content_type=content_type)


class HttpAnswer(NamedTuple):
    """The answer to a request."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = _JSON


Route = tuple[str, str]
"""Method and path."""

Handler = Callable[[WSGIEnvironment], HttpAnswer]


@dataclass(frozen=True, slots=True)
class RoutedApp:
    """A WSGI application: the handler of each route, and the sentence about any other request."""

    routes: Mapping[Route, Handler]
    not_served: str
    """What follows the method and path in that sentence."""

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        handler = self.routes.get((method, path))
        if handler is None:
            sentence = f"{method} {path} is not served{self.not_served}"
            answer = HttpAnswer(wire.prioritize_error(sentence), HTTPStatus.NOT_FOUND)
        else:
            answer = handler(environ)
        body, status, content_type = answer
        headers = [("Content-Type", content_type), ("Content-Length", str(len(body)))]
        start_response(f"{status.value} {status.phrase}", headers)
        return [body]


def create_app(endpoints: Endpoints) -> RoutedApp:
    """The application for kube-scheduler and for local monitoring."""
    routes: dict[Route, Handler] = {
        ("POST", f"/{verb}"): partial(_call, endpoints, verb)
        for verb in ("filter", "prioritize", "preempt")
    }
    routes |= {("GET", "/inspect"): endpoints.inspect, **_health_routes(endpoints)}
    *most, last = (f"{method} {path}" for method, path in routes)
    return RoutedApp(routes, f", only {', '.join(most)} and {last}")


def create_health_app(endpoints: Endpoints) -> RoutedApp:
    """The application for other pods and nodes: health and metrics alone."""
    return RoutedApp(_health_routes(endpoints), " at this address, which is for health and metrics")


def _health_routes(endpoints: Endpoints) -> dict[Route, Handler]:
    return {
        ("GET", "/healthz"): endpoints.healthz,
        ("GET", "/readyz"): endpoints.readyz,
        ("GET", "/metrics"): endpoints.metrics,
    }


def _call(endpoints: Endpoints, verb: str, environ: WSGIEnvironment) -> HttpAnswer:
    return HttpAnswer(endpoints.call(verb, get_input_stream(environ)))
