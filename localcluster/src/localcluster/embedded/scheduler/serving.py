"""The health endpoints of kube-scheduler, over TLS with a throwaway certificate."""

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

from localcluster.tls_server import TlsServer


def serve_health(address: str, port: int, ready: Callable[[], bool]) -> TlsServer:
    """Serve /livez, /healthz and /readyz on a thread of their own.

    Raises:
        OSError: the port cannot be had."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path.partition("?")[0] in ("/livez", "/healthz", "/readyz")
            status = 404 if not known else 200 if ready() or "ready" not in self.path else 503
            body = b"ok" if status == 200 else b"not ok"
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the base class names it so
            """Keep quiet."""

    return TlsServer((address, port), Handler)
