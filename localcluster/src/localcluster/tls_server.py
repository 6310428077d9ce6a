"""An HTTP server of loopback over TLS, for the endpoints of a kubelet and of kube-scheduler."""

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import trustme


class TlsServer(ThreadingHTTPServer):
    """Serves on a thread of its own until `stop`; port 0 stands for a free one."""

    daemon_threads = True

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[BaseHTTPRequestHandler],
        authority: trustme.CA | None = None,
    ) -> None:
        """Serve with a certificate of `authority` or of a throwaway one. Raises OSError."""
        super().__init__(address, handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        (authority or trustme.CA()).issue_cert("127.0.0.1", "localhost").configure_cert(context)
        # The handshake is done in the connection's own thread: a silent client must not hold up the
        # others.
        self.socket = context.wrap_socket(
            self.socket, server_side=True, do_handshake_on_connect=False
        )
        self._thread = threading.Thread(target=self.serve_forever, name="serving", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop serving."""
        self.shutdown()
        self.server_close()
        self._thread.join(timeout=5.0)
