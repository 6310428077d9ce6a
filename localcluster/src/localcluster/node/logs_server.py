"""The kubelet's log endpoint, over TLS: `GET /containerLogs/{namespace}/{pod}/{container}`.

`kubectl logs`, with `-f` and its other options, arrives here through the API server, which finds
the port in the node's status. Other kubelet endpoints (exec, attach, port-forward) answer 501 with
a sentence."""

import logging
import select
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

import trustme

from localcluster.node.logs import LogFile, LogQuery, read_log
from localcluster.tls_server import TlsServer

_LOG = logging.getLogger(__name__)


class LogSource(Protocol):
    """Finds the log of a container."""

    def log(
        self, namespace: str, pod: str, container: str, *, previous: bool
    ) -> tuple[Path, LogFile | None] | str:
        """Return a log's file and its live writer, or a sentence why there is none."""


def serve_logs(source: LogSource, authority: trustme.CA | None = None) -> TlsServer:
    """Serve what `source` has on a free port of 127.0.0.1."""
    handler = type("Handler", (_Handler,), {"source": source})
    return TlsServer(("127.0.0.1", 0), handler, authority)


class _Handler(BaseHTTPRequestHandler):
    source: LogSource
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        parts = [unquote(each) for each in url.path.strip("/").split("/")]
        if len(parts) == 4 and parts[0] == "containerLogs":
            self._logs(parts[1], parts[2], parts[3], dict(parse_qsl(url.query)))
        else:
            self._answer(
                501, f'pods are local processes here: "{parts[0]}" is not supported, only logs are'
            )

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the base class names it so
        _LOG.debug(format, *args)

    def _logs(self, namespace: str, pod: str, container: str, values: dict[str, str]) -> None:
        try:
            query = LogQuery.parse(values, datetime.now(UTC))
        except ValueError as error:
            self._answer(400, str(error))
            return
        found = self.source.log(
            namespace, pod, container, previous=values.get("previous") == "true"
        )
        if isinstance(found, str):
            self._answer(400, found)
            return
        path, live = found
        try:
            self._stream(read_log(path, query, live, self._left))
        except (OSError, ssl.SSLError) as error:
            # The reader went away, or the pod and its log did: no reader is left.
            _LOG.debug("a log stream ended: %s", error)
            self.close_connection = True

    def _stream(self, pieces: Iterator[bytes]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            if piece:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def _left(self) -> bool:
        """Tell whether the reader has closed: a request has no body, so readable means closed."""
        connection: socket.socket = self.connection
        readable, _, _ = select.select([connection], [], [], 0)
        return bool(readable)

    def _answer(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
