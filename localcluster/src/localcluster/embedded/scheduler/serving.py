"""The health endpoints of kube-scheduler, over TLS with a throwaway certificate."""

import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import trustme


def serve_health(address: str, port: int, ready: Callable[[], bool]) -> ThreadingHTTPServer:
    """Serve /livez, /healthz and /readyz on a thread of their own; `shutdown()` ends it.

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

    server = ThreadingHTTPServer((address, port), Handler)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1", "localhost").configure_cert(context)
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server
