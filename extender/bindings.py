"""Binds pods by libcurl: of a gang's processor time, Python's HTTP clients took more than half, and
a thread for each connection half of the rest.

One thread drives all requests of a gang, over connections that are kept.
"""

import io
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from urllib.parse import quote, urlsplit

import msgspec
import pycurl  # type: ignore[import-untyped]  # has no types
import urllib3

from optimus.kube.client import Client, path_of
from optimus.kube.errors import ErrorKind, KubeError, from_answer
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, Written, answer_of

Binding: TypeAlias = tuple[Pod, str]
"""A pod and its node."""

CONNECTIONS: Final = 16
"""Bindings at the same time: kube-scheduler waits for them."""

_ANSWERED: Final = range(200, 300)
_CONCERNS_ALL: Final = (403, 429, *range(500, 600))
"""After such an answer, no further pod of the gang is bound."""

_SELECT_SECONDS: Final = 0.05


class _Identity(msgspec.Struct):
    uid: str = ""


class _Place(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _BoundPod(msgspec.Struct):
    metadata: _Identity
    spec: _Place


@dataclass(slots=True)
class _Request:
    """A POST of a body, else a GET."""

    what: str
    path: str
    body: bytes | None = None
    why_not: Callable[[], str | None] = lambda: None
    """Asked before the body is sent, once the connection stands."""

    answer: io.BytesIO = field(default_factory=io.BytesIO)
    refusal: str = ""
    failure: str = ""
    code: int = 0

    def prepare(self, curl: Any, url: str, headers: urllib3.HTTPHeaderDict) -> None:
        """Set what differs from request to request."""
        curl.setopt(pycurl.URL, url)
        if self.body is None:
            curl.setopt(pycurl.HTTPGET, 1)
        else:
            headers = headers | {"Content-Type": "application/json"}
            sent = io.BytesIO(self.body)

            def send(size: int) -> bytes | int:
                self.refusal = self.why_not() or ""
                return int(pycurl.READFUNC_ABORT) if self.refusal else sent.read(size)

            curl.setopt(pycurl.POST, 1)
            curl.setopt(pycurl.POSTFIELDSIZE, len(self.body))
            curl.setopt(pycurl.READFUNCTION, send)
            # A kept connection may turn out to be closed: libcurl begins anew on another one.
            curl.setopt(pycurl.SEEKFUNCTION, lambda offset, origin: sent.seek(offset, origin) and 0)
        curl.setopt(pycurl.HTTPHEADER, [f"{name}: {value}" for name, value in headers.items()])
        curl.setopt(pycurl.WRITEDATA, self.answer)

    def result(self) -> bytes:
        """The answer's body.

        Raises:
            KubeError: the API server did not do it, or did not answer."""
        if self.refusal:
            raise KubeError(ErrorKind.NOT_LEADING, f"did not {self.what}: {self.refusal}")
        if self.failure:
            raise KubeError(ErrorKind.TRANSIENT, f"cannot {self.what}: {self.failure}")
        if self.code not in _ANSWERED:
            raise from_answer(self.what, self.code, self.answer.getvalue())
        return self.answer.getvalue()


class PodBinder:
    """Bindings as whoever a client is; safe to use from several threads, one at a time."""

    def __init__(self, client: Client, seconds: float) -> None:
        """``seconds`` is the limit of each request, its connection included."""
        self._access = client.access
        self._origin, self._connect_to = _origin(
            self._access.address, self._access.library().configuration.tls_server_name
        )
        self._milliseconds, self._lock = int(seconds * 1000), threading.Lock()
        self._multi, self._idle = pycurl.CurlMulti(), list[Any]()
        self._multi.setopt(pycurl.M_MAX_HOST_CONNECTIONS, CONNECTIONS)

    def bind(
        self,
        bindings: Sequence[Binding],
        why_not: Callable[[Pod, str], str | None] = lambda *_: None,
    ) -> list[Written | Refused]:
        """Bind each pod to its node; refused where it has another already, or is being deleted.

        ``why_not`` is asked before each is sent and says why it may not be; none is sent after a
        failure that may concern all. An error may follow the effect (a proxy, a webhook, a
        time-out), so that a read of the pod decides what it means. TRANSIENT: the pod may still
        become bound."""
        failed: list[str] = []

        def why_not_now(pod: Pod, node: str) -> str | None:
            return failed[0] if failed else why_not(pod, node)

        requests = [_binding(pod, node, why_not_now) for pod, node in bindings]
        with self._lock:
            self._perform(requests, failed)
            outcomes = [_outcome(each) for each in requests]
            unclear = [
                at
                for at, each in enumerate(outcomes)
                if isinstance(each, Refused) and each.kind is not ErrorKind.NOT_LEADING
            ]
            reads = [_reading(bindings[at][0]) for at in unclear]
            self._perform(reads)
        for at, read in zip(unclear, reads, strict=True):
            outcomes[at] = _meaning(outcomes[at], read, *bindings[at])
        return outcomes

    def _perform(self, requests: Sequence[_Request], failed: list[str] | None = None) -> None:
        """Carry out requests; what may concern all of them is noted in ``failed``."""
        headers = self._access.headers() | {"Accept": "application/json", "Expect": ""}
        running: dict[Any, _Request] = {}
        for each in requests:
            curl = self._idle.pop() if self._idle else self._new_curl()
            each.prepare(curl, f"{self._origin}{each.path}", headers)
            self._multi.add_handle(curl)
            running[curl] = each
        while running:
            self._multi.perform()
            _, done, broken = self._multi.info_read()
            for curl, failure in [(each, "") for each in done] + [
                (curl, message or f"error {number} of libcurl") for curl, number, message in broken
            ]:
                request = running.pop(curl)
                request.failure, request.code = failure, curl.getinfo(pycurl.RESPONSE_CODE)
                if failed is not None and (failure or request.code in _CONCERNS_ALL):
                    failed.append(f"{request.what} failed")
                self._multi.remove_handle(curl)
                self._idle.append(curl)
            if running:
                self._multi.select(_SELECT_SECONDS)

    def _new_curl(self) -> Any:
        settings = self._access.library().configuration
        options = {
            pycurl.NOSIGNAL: 1,
            pycurl.TIMEOUT_MS: self._milliseconds,
            pycurl.HTTP_VERSION: pycurl.CURL_HTTP_VERSION_1_1,
            pycurl.CAINFO: settings.ssl_ca_cert or ssl.get_default_verify_paths().cafile,
            pycurl.SSLCERT: settings.cert_file,
            pycurl.SSLKEY: settings.key_file,
            pycurl.SSL_VERIFYPEER: int(settings.verify_ssl),
            pycurl.SSL_VERIFYHOST: 2 if settings.verify_ssl else 0,
            pycurl.PROXY: settings.proxy,
            pycurl.NOPROXY: settings.no_proxy,
            pycurl.CONNECT_TO: self._connect_to,
        }
        curl = pycurl.Curl()
        for option, value in options.items():
            if value is not None:
                curl.setopt(option, value)
        return curl


def _origin(address: str, server_name: str | None) -> tuple[str, list[str] | None]:
    """The beginning of URLs; and where they lead, where the API server's certificate has another
    name than its address."""
    parts = urlsplit(address)
    if not server_name or not parts.hostname:
        return address, None
    port = parts.port or 443
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    connect_to = f"{server_name}:{port}:{host}:{port}"
    return f"{parts.scheme}://{server_name}:{port}{parts.path}", [connect_to]


def _path_of_pod(pod: Pod) -> str:
    return f"{path_of('', 'v1', 'pods', pod.namespace)}/{quote(pod.name, safe='')}"


def _binding(pod: Pod, node: str, why_not: Callable[[Pod, str], str | None]) -> _Request:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    metadata = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    return _Request(
        f"bind pod {pod.namespace}/{pod.name}",
        f"{_path_of_pod(pod)}/binding",
        msgspec.json.encode(binding),
        lambda: why_not(pod, node),
    )


def _reading(pod: Pod) -> _Request:
    return _Request(f"read pod {pod.namespace}/{pod.name}", _path_of_pod(pod))


def _outcome(binding: _Request) -> Written | Refused:
    found = answer_of(binding.result)
    return found if isinstance(found, Refused) else Written()


def _meaning(outcome: Written | Refused, read: _Request, pod: Pod, node: str) -> Written | Refused:
    """Return what a refused binding means, by what a read of its pod has found."""
    assert isinstance(outcome, Refused)
    found = answer_of(read.result)
    if isinstance(found, Refused):
        is_gone = found.kind is ErrorKind.NOT_FOUND
        return outcome if is_gone else Refused(ErrorKind.TRANSIENT, outcome.sentence)
    return Written() if _is_bound(found, pod, node) else outcome


def _is_bound(body: bytes, pod: Pod, node: str) -> bool:
    try:
        found = msgspec.json.decode(body, type=_BoundPod)
    except (msgspec.MsgspecError, UnicodeError):
        return False
    return found.metadata.uid == pod.uid and found.spec.node_name == node
