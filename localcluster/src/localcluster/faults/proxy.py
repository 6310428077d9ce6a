"""A proxy on loopback that passes calls on to an API server and lets some of them meet a fault.

One thread per connection of a client, one connection to the server per call; plain HTTP towards the
client, whatever the server speaks. Events of a watch and lines of a followed log are passed on as
they come. Every call is recorded with the server's status, so a test can say what took effect."""

import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Self

from localcluster.faults.connection import ClientConnection
from localcluster.faults.traffic import Traffic
from localcluster.kubeconfig import Credentials, write_kubeconfig


class FaultProxy(Traffic):
    """Listens from entering to leaving the `with` block. Safe to use from several threads."""

    def __init__(self, credentials: Credentials, kill_server: Callable[[], object]) -> None:
        super().__init__(credentials, kill_server)
        handler = type("_Connection", (ClientConnection,), {"traffic": self})
        self._listener = _Listener(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(
            target=self._listener.serve_forever, args=(0.1,), name="faults", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
        self._listener.shutdown()
        self._listener.server_close()
        self._thread.join()
        self.cut_streams()

    @property
    def url(self) -> str:
        """The address of the proxy."""
        return f"http://127.0.0.1:{self._listener.server_port}"

    def write_kubeconfig(self, path: Path) -> None:
        """Write a kubeconfig that leads here, with the token of the credentials if there is one."""
        user = {"token": self.credentials.token} if self.credentials.token else {}
        write_kubeconfig(path, self.url, "", user)


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Report errors, but for connections that are gone."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # as it came in

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        with suppress(OSError):
            super().shutdown_request(request)
