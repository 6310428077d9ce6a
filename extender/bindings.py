"""Binds pods by libcurl: of a gang's processor time, Python's HTTP clients took more than half.

Each thread has a connection of its own, which is kept alive.
"""

import io
import ssl
import threading
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec
import pycurl  # type: ignore[import-untyped]  # has no types

from optimus.kube.client import Client, path_of
from optimus.kube.errors import ErrorKind, KubeError, from_answer
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, Written, answer_of

_ANSWERED: Final = range(200, 300)


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Stored(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


class PodBinder:
    """Bindings as whoever a client is; safe to use from several threads."""

    def __init__(
        self, client: Client, seconds: float, why_not: Callable[[], str | None] = lambda: None
    ) -> None:
        """``seconds`` is the limit of each request, its connection included. ``why_not`` is asked
        before a binding is sent, once the connection stands; it says why it may not be."""
        self._access = client.access
        self._origin, self._connect_to = _origin(
            self._access.address, self._access.library().configuration.tls_server_name
        )
        self._milliseconds, self._why_not = int(seconds * 1000), why_not
        self._of_thread = threading.local()

    def bind(self, pod: Pod, node: str) -> Written | Refused:
        """Bind the pod to a node; refused where it has another already, or is being deleted.

        An error may follow the effect (a proxy, a webhook, a time-out), so that a read of the pod
        decides what it means. TRANSIENT: the pod may still become bound."""
        name = f"{pod.namespace}/{pod.name}"
        path = f"{path_of('', 'v1', 'pods', pod.namespace)}/{quote(pod.name, safe='')}"
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        metadata = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        body = msgspec.json.encode(binding)
        outcome = answer_of(lambda: self._call(f"bind pod {name}", f"{path}/binding", body))
        if not isinstance(outcome, Refused):
            return Written()
        if outcome.kind is ErrorKind.NOT_LEADING:
            return outcome
        found = answer_of(lambda: self._call(f"read pod {name}", path))
        if isinstance(found, Refused):
            is_gone = found.kind is ErrorKind.NOT_FOUND
            return outcome if is_gone else Refused(ErrorKind.TRANSIENT, outcome.sentence)
        return Written() if _is_bound(found, pod, node) else outcome

    def _call(self, what: str, path: str, body: bytes | None = None) -> bytes:
        """A POST of a body, else a GET.

        Raises:
            KubeError: the API server did not do it, or did not answer."""
        curl, refusal = self._curl(), list[str]()
        answer, sent = io.BytesIO(), io.BytesIO(body or b"")

        def send(size: int) -> bytes | int:
            reason = self._why_not()
            if reason is None:
                return sent.read(size)
            refusal.append(reason)
            return int(pycurl.READFUNC_ABORT)

        curl.setopt(pycurl.URL, f"{self._origin}{path}")
        headers = {"Accept": "application/json", **self._access.headers(), "Expect": ""}
        if body is None:
            curl.setopt(pycurl.HTTPGET, 1)
        else:
            headers["Content-Type"] = "application/json"
            curl.setopt(pycurl.POST, 1)
            curl.setopt(pycurl.POSTFIELDSIZE, len(body))
            curl.setopt(pycurl.READFUNCTION, send)
            # A kept connection may turn out to be closed: libcurl begins anew on another one.
            curl.setopt(pycurl.SEEKFUNCTION, lambda offset, origin: sent.seek(offset, origin) and 0)
        curl.setopt(pycurl.HTTPHEADER, [f"{name}: {value}" for name, value in headers.items()])
        curl.setopt(pycurl.WRITEDATA, answer)
        try:
            curl.perform()
        except pycurl.error as error:
            if refusal:
                kind, said = ErrorKind.NOT_LEADING, f"did not {what}: {refusal[0]}"
            else:
                kind, said = ErrorKind.TRANSIENT, f"cannot {what}: {error.args[-1]}"
            raise KubeError(kind, said) from error
        code = curl.getinfo(pycurl.RESPONSE_CODE)
        if code not in _ANSWERED:
            raise from_answer(what, code, answer.getvalue())
        return answer.getvalue()

    def _curl(self) -> Any:
        """This thread's connection."""
        curl = getattr(self._of_thread, "curl", None)
        if curl is None:
            curl = self._of_thread.curl = self._new_curl()
        return curl

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


def _is_bound(body: bytes, pod: Pod, node: str) -> bool:
    try:
        found = msgspec.json.decode(body, type=_Stored)
    except (msgspec.MsgspecError, UnicodeError):
        return False
    return found.metadata.uid == pod.uid and found.spec.node_name == node
