"""A proxy on loopback that passes calls on to an API server and lets some of them meet a fault.

One thread per connection of a client, one connection to the server per call; plain HTTP towards the
client, whatever the server speaks behind. What a watch or a followed log brings is passed on as it
comes. Every call is kept with what the server answered, so that a test can say what had an effect.
"""

import json
import socket
import sys
import threading
from contextlib import suppress
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Self

from localcluster.faults.faults import Fault
from localcluster.faults.passing import Passing
from localcluster.faults.traffic import Seen, Server, Traffic
from localcluster.kubeconfig import Credentials


class FaultProxy:
    """Listens from entering to leaving the `with` block. Safe to use from several threads."""

    def __init__(self, credentials: Credentials, server: Server) -> None:
        """Stand before the server that the credentials name."""
        self._credentials = credentials
        self._traffic = Traffic(credentials, server)
        self._listener = _Listener(
            ("127.0.0.1", 0), type("_Passing", (Passing,), {"traffic": self._traffic})
        )
        self._thread = threading.Thread(
            target=self._listener.serve_forever, args=(0.1,), name="faults", daemon=True
        )

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """End every stream, and listen no more."""
        self._traffic.end()
        self._listener.shutdown()
        self._listener.server_close()
        self._thread.join()
        self._traffic.cut_streams()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._listener.server_port}"

    def write_kubeconfig(self, path: Path) -> None:
        """Write a kubeconfig that leads here, with the token of the credentials where they have
        one."""
        user = {"token": self._credentials.token} if self._credentials.token else {}
        body = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "faults", "cluster": {"server": self.url}}],
            "users": [{"name": "faults", "user": user}],
            "contexts": [{"name": "faults", "context": {"cluster": "faults", "user": "faults"}}],
            "current-context": "faults",
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(body))  # JSON is YAML

    def inject(self, *faults: Fault) -> None:
        """From now on calls meet these faults, and none of earlier ones; what was seen is
        forgotten."""
        self._traffic.inject(*faults)

    @property
    def is_spent(self) -> bool:
        """Whether every fault has happened as often as it was to."""
        return self._traffic.is_spent

    @property
    def seen(self) -> tuple[Seen, ...]:
        """The calls since the last `inject`, in the order in which they ended; open watches are not
        among them."""
        return self._traffic.seen

    def cut_streams(self) -> None:
        """Cut every watch and followed log that is open, as a load balancer does that restarts."""
        self._traffic.cut_streams()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that is gone is no news; a fault that could not be had is."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # as it came in

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        with suppress(OSError):
            super().shutdown_request(request)
