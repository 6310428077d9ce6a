"""A small HTTP server for health and metrics that clients can neither block nor fill up.

The address is open to every pod of the cluster. A request that is not whole within a few seconds is
dropped, and of many connections at once the oldest is closed for the newest, so that a probe is
answered whatever others leave open."""

import socket
import threading
from collections import OrderedDict
from contextlib import suppress
from typing import Any, ClassVar, Final, Self
from wsgiref.types import WSGIApplication

from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

MOST_CONNECTIONS: Final = 32
SILENCE_SECONDS: Final = 5.0


class _Handler(WSGIRequestHandler):
    # Of the socket, while a request is read and while it is answered.
    timeout: ClassVar[float] = SILENCE_SECONDS

    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002 - werkzeug's name
        """Probes come every few seconds: they are not worth a line each."""


class _Server(ThreadedWSGIServer):
    # A process that is started again need not wait for what is left of the one before.
    allow_reuse_port = True

    def __init__(self, host: str, port: int, app: WSGIApplication) -> None:
        super().__init__(host, port, app, handler=_Handler)
        self._open: OrderedDict[socket.socket, None] = OrderedDict()
        self._guard = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            self._open[request] = None
            is_full = len(self._open) > MOST_CONNECTIONS
            oldest = self._open.popitem(last=False)[0] if is_full else None
        if oldest is not None:
            with suppress(OSError):
                # Its thread reads the end of the request, and ends.
                oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a broken connection: its client asks again."""


class HealthServer:
    """Serves an application from a thread until the block ends, or until ``stop``."""

    def __init__(self, app: WSGIApplication, host: str, port: int) -> None:
        """Listen at once. Raises SystemExit where the address is taken."""
        self._server = _Server(host, port, app)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="health", daemon=True
        )

    @property
    def port(self) -> int:
        """The port that is listened on; the one chosen where port 0 was asked for."""
        return self._server.port

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """End; connections that are open are dropped."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
