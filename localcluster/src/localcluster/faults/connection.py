"""One client's connection to the proxy: reads a call, lets it meet its fault or passes it on."""

import http.client
import json
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from itertools import islice
from typing import ClassVar, Final
from urllib.parse import urlsplit

from localcluster.faults import faults
from localcluster.faults.traffic import Traffic
from localcluster.kubeconfig import Credentials, tls_context

_PIECE_BYTES: Final = 65536
_SILENCE_SECONDS: Final = 600.0
_HOP_BY_HOP: Final = frozenset(
    {"connection", "host", "keep-alive", "transfer-encoding", "content-length", "upgrade"}
)
_REASONS: Final = {409: "Conflict", 410: "Expired", 429: "TooManyRequests"}
_BROKEN: Final = (OSError, http.client.HTTPException, ValueError, AttributeError)
"""What a connection raises that was closed under its reader."""


class Upstream:
    """One call on the server; `response` is read as it comes.

    A caller with a bearer token is passed on as itself; any other is whom the proxy's kubeconfig
    names. A client certificate would outrank a token, so it is shown only where there is none."""

    def __init__(
        self, credentials: Credentials, call: faults.Call, headers: Mapping[str, str]
    ) -> None:
        """Send the call. Raises OSError or http.client.HTTPException where that fails."""
        passed = {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}
        has_token = any(name.lower() == "authorization" for name in passed)
        if credentials.token and not has_token:
            passed["Authorization"] = f"Bearer {credentials.token}"
        self._connection = _connect(credentials, has_token=has_token)
        try:
            self._connection.request(call.method, call.target, call.body or None, passed)
            self.response = self._connection.getresponse()
        except BaseException:
            self._connection.close()
            raise

    @property
    def is_stream(self) -> bool:
        """Whether the length of the response is not known yet."""
        return self.response.length is None

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The response's headers, but for those that belong to the connection."""
        given = self.response.getheaders()
        return [(name, value) for name, value in given if name.lower() not in _HOP_BY_HOP]

    def interrupt(self) -> None:
        """End the response, also while another thread waits for more of it."""
        if self._connection.sock is not None:
            with suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self.response.close()
        self._connection.close()


def _connect(credentials: Credentials, *, has_token: bool) -> http.client.HTTPConnection:
    address = urlsplit(credentials.server)
    host, port = address.hostname or "", address.port
    if address.scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=_SILENCE_SECONDS)
    context = tls_context(credentials.ca_pem) if has_token else credentials.context
    return http.client.HTTPSConnection(host, port, timeout=_SILENCE_SECONDS, context=context)


class ClientConnection(BaseHTTPRequestHandler):
    """Serves one connection; each proxy sets `traffic` in a subclass of its own."""

    traffic: ClassVar[Traffic]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        # No client here sends a body in chunks.
        length = int(self.headers.get("Content-Length") or 0)
        call = faults.Call(self.command, self.path, self.rfile.read(length) if length else b"")
        text = self.traffic.respond(call)
        if text is None:
            self._before(call, self.traffic.meet(call))
        else:
            self._send(200, [("Content-Type", "text/plain")], text)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - http.server's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Print nothing: the proxy records the calls."""

    def _before(self, call: faults.Call, fault: faults.Fault | None) -> None:
        traffic = self.traffic
        match fault.effect if fault else None:
            case faults.ErrorResponse(after_effect=False) as error:
                self._refuse(call, fault, error, 0)
            case faults.Cut(after_effect=False):
                self._cut(call, fault, 0)
            case faults.Hang(seconds=seconds):
                traffic.pause(seconds)
                self._cut(call, fault, 0)
            case faults.Restart():
                traffic.kill_server()
                self._cut(call, fault, 0)
            case faults.Kill(after_effect=False):
                traffic.kill_client()
                self._cut(call, fault, 0)
            case faults.Freeze(seconds=seconds):
                traffic.freeze(seconds)
                self._pass(call, fault)
            case _:
                self._pass(call, fault)

    def _pass(self, call: faults.Call, fault: faults.Fault | None) -> None:
        self.traffic.wait_unfrozen()
        try:
            upstream = Upstream(self.traffic.credentials, call, dict(self.headers.items()))
        except _BROKEN:
            self._cut(call, fault, 0)
            return
        try:
            self._respond(call, fault, upstream)
        except _BROKEN:  # one of the two is gone: so is the connection to the other
            self.close_connection = True
        finally:
            upstream.close()

    def _respond(self, call: faults.Call, fault: faults.Fault | None, upstream: Upstream) -> None:
        code = upstream.response.status
        match fault.effect if fault else None:
            # The response has begun, so the call is carried out; a watch's body would never end.
            case faults.Cut():
                self._cut(call, fault, code)
            case faults.Kill():
                self.traffic.kill_client()
                self._cut(call, fault, code)
            case faults.ErrorResponse() as error:
                self._refuse(call, fault, error, code)
            case _ if upstream.is_stream:
                self._stream(call, fault, upstream)
            case _:
                body = upstream.response.read()
                self.traffic.wait_unfrozen()
                self.traffic.record(call, fault, code)
                self._send(code, upstream.headers, body)

    def _refuse(
        self, call: faults.Call, fault: faults.Fault | None, error: faults.ErrorResponse, code: int
    ) -> None:
        self.traffic.record(call, fault, code)
        headers = [("Content-Type", "application/json")]
        if error.retry_after_seconds is not None:
            headers.append(("Retry-After", str(error.retry_after_seconds)))
        self._send(error.code, headers, json.dumps(error_status(error.code)).encode())

    def _send(self, code: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self._send_head(code, [*headers, ("Content-Length", str(len(body)))])
        self.wfile.write(body)

    def _send_head(self, code: int, headers: list[tuple[str, str]]) -> None:
        self.send_response_only(code)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()

    def _cut(self, call: faults.Call, fault: faults.Fault | None, code: int) -> None:
        self.traffic.record(call, fault, code)
        self._disconnect()

    def _disconnect(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _stream(self, call: faults.Call, fault: faults.Fault | None, upstream: Upstream) -> None:
        def cut() -> None:
            upstream.interrupt()
            self._disconnect()

        traffic, response = self.traffic, upstream.response
        traffic.add_stream(cut)
        try:
            self._send_head(response.status, [*upstream.headers, ("Transfer-Encoding", "chunked")])
            pieces: Iterator[bytes] = iter(lambda: response.read1(_PIECE_BYTES), b"")
            effect = fault.effect if fault else None
            if isinstance(effect, faults.EndStream):
                pieces = ended(pieces, effect)
            for piece in pieces:
                traffic.wait_unfrozen()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            if isinstance(effect, faults.EndStream) and effect.code is None:
                self._disconnect()
            else:
                self.wfile.write(b"0\r\n\r\n")
        finally:
            traffic.remove_stream(cut)
            traffic.record(call, fault, response.status)


def ended(pieces: Iterable[bytes], fault: faults.EndStream) -> Iterator[bytes]:
    """Yield the first lines of a watch as far as the fault lets them pass, and its ERROR event."""
    yield from islice(_whole_lines(pieces), fault.after_lines)
    if fault.code is not None:
        event = {"type": "ERROR", "object": error_status(fault.code)}
        yield json.dumps(event).encode() + b"\n"


def _whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line + b"\n" for line in lines)


def error_status(code: int) -> dict[str, object]:
    """Return the Status object that goes with a code."""
    reason = _REASONS.get(code, "InternalError")
    head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**head, "message": f"an injected fault: {code}", "reason": reason, "code": code}
