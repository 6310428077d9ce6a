"""A small HTTP server for health and metrics that clients can neither block nor fill up.

The address is open to every pod of the cluster. A request that is not whole within a few seconds is
dropped. Of many connections at once the oldest is closed for the newest, of the client that has
most of them, so that a probe is answered whatever others leave open. ``InTurns`` bounds the
processor time: without it, each request at once would be one more thread beside the loop's."""

import socket
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, ClassVar, Final, Self
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

MOST_CONNECTIONS: Final = 32
SILENCE_SECONDS: Final = 5.0

REST: Final = 4.0
"""Each answer is held back for so many times its own processor time: together they take a fifth."""

_LONGEST_REST_SECONDS: Final = 0.5
_PROBES: Final = frozenset({"/healthz", "/readyz"})


class InTurns:
    """An application that answers one probe and one other request at a time."""

    def __init__(self, app: WSGIApplication) -> None:
        self._app, self._turns = app, {True: threading.Lock(), False: threading.Lock()}

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """The answer; it is sent outside of the turn, however slowly it is read."""
        with self._turns[environ["PATH_INFO"] in _PROBES]:
            began = time.thread_time()
            answer = self._app(environ, start)
            used = time.thread_time() - began
            time.sleep(min(REST * used, _LONGEST_REST_SECONDS))
        return answer


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
        self._open: OrderedDict[socket.socket, str] = OrderedDict()
        """The connections, each with its client's address."""
        self._guard = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            self._open[request] = client_address[0]
            oldest = self._oldest() if len(self._open) > MOST_CONNECTIONS else None
        if oldest is not None:
            with suppress(OSError):
                # Its thread reads the end of the request, and ends.
                oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def _oldest(self) -> socket.socket:
        """Take out the oldest connection of the client that has most."""
        ((most, _),) = Counter(self._open.values()).most_common(1)
        oldest = next(each for each, client in self._open.items() if client == most)
        del self._open[oldest]
        return oldest

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
