"""One client's connection to the proxy: reads a call, lets it meet its fault or passes it on."""

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import ClassVar

from localcluster.faults.answers import status
from localcluster.faults.faults import (
    Answer,
    Call,
    Compact,
    Cut,
    Drop,
    EndStream,
    Fault,
    Freeze,
    Hang,
    Restart,
    Stall,
)
from localcluster.faults.streams import changed
from localcluster.faults.traffic import Traffic
from localcluster.faults.upstream import Upstream

_PIECE = 65536
_BROKEN = (OSError, http.client.HTTPException, ValueError, AttributeError)
"""What a connection that was closed under its reader raises, besides what it should."""


class Passing(BaseHTTPRequestHandler):
    """Serves one connection; `traffic` is set in a subclass of each proxy's own."""

    traffic: ClassVar[Traffic]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        # No client here sends a body in chunks.
        length = int(self.headers.get("Content-Length") or 0)
        call = Call(self.command, self.path, self.rfile.read(length) if length else b"")
        fault = self.traffic.meet(call)
        self._before(call, fault)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - http.server's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Calls are kept by the proxy, not printed."""

    def _before(self, call: Call, fault: Fault | None) -> None:
        """What happens to the call on its way to the server."""
        traffic = self.traffic
        match fault.effect if fault else None:
            case Answer(after_effect=False) as answer:
                self._refuse(call, fault, answer, 0)
            case Cut(after_effect=False):
                self._cut(call, fault, 0)
            case Hang(seconds=seconds):
                traffic.pause(seconds)
                self._cut(call, fault, 0)
            case Restart():
                traffic.server.restart()
                self._cut(call, fault, 0)
            case Compact(after_seconds=seconds):
                traffic.pause(seconds)
                traffic.server.compact()
                self._pass(call, fault)
            case Freeze(seconds=seconds):
                traffic.freeze(seconds)
                self._pass(call, fault)
            case _:
                self._pass(call, fault)

    def _pass(self, call: Call, fault: Fault | None) -> None:
        self.traffic.wait_thawed()
        try:
            upstream = Upstream(self.traffic.credentials, call, dict(self.headers.items()))
        except _BROKEN:
            self._cut(call, fault, 0)
            return
        try:
            self._answer(call, fault, upstream)
        except _BROKEN:  # one of the two is gone: so is the connection to the other
            self.close_connection = True
        finally:
            upstream.close()

    def _answer(self, call: Call, fault: Fault | None, upstream: Upstream) -> None:
        code = upstream.answer.status
        match fault.effect if fault else None:
            # The answer has begun, so what was asked is done; a watch's body would never end.
            case Cut():
                self._cut(call, fault, code)
            case Answer() as answer:
                self._refuse(call, fault, answer, code)
            case _ if upstream.is_stream:
                self._stream(call, fault, upstream)
            case _:
                body = upstream.answer.read()
                self.traffic.wait_thawed()
                self.traffic.note(call, fault, code)
                self._send(code, upstream.headers, body)

    # --- answers

    def _refuse(self, call: Call, fault: Fault | None, answer: Answer, code: int) -> None:
        self.traffic.note(call, fault, code)
        headers = [("Content-Type", "application/json")]
        if answer.retry_after_seconds is not None:
            headers.append(("Retry-After", str(answer.retry_after_seconds)))
        self._send(answer.code, headers, json.dumps(status(answer.code)).encode())

    def _send(self, code: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self._head(code, [*headers, ("Content-Length", str(len(body)))])
        self.wfile.write(body)

    def _head(self, code: int, headers: list[tuple[str, str]]) -> None:
        self.send_response_only(code)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()

    def _cut(self, call: Call, fault: Fault | None, code: int) -> None:
        self.traffic.note(call, fault, code)
        self._hang_up()

    def _hang_up(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    # --- answers that go on

    def _stream(self, call: Call, fault: Fault | None, upstream: Upstream) -> None:
        def cut() -> None:
            upstream.interrupt()
            self._hang_up()

        self.traffic.opened(cut)
        try:
            self._head(
                upstream.answer.status, [*upstream.headers, ("Transfer-Encoding", "chunked")]
            )
            pieces: Iterator[bytes] = iter(lambda: upstream.answer.read1(_PIECE), b"")
            effect = fault.effect if fault else None
            if isinstance(effect, Stall | Drop | EndStream):
                pieces = changed(pieces, effect, self.traffic.pause)
            for piece in pieces:
                self.traffic.wait_thawed()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            if isinstance(effect, EndStream) and effect.code is None:
                self._hang_up()
            else:
                self.wfile.write(b"0\r\n\r\n")
        finally:
            self.traffic.ended(cut)
            self.traffic.note(call, fault, upstream.answer.status)
