"""The connection to the server behind the proxy, plain or TLS.

A caller that shows a bearer token is itself; one that shows none is who the proxy's own kubeconfig
says. A client certificate would outrank the token, so it is shown only where there is none.
"""

import http.client
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from localcluster.faults.faults import Call
from localcluster.kubeconfig import Credentials

_SILENCE_SECONDS = 600.0
_HOP_BY_HOP = frozenset(
    {"connection", "host", "keep-alive", "transfer-encoding", "content-length", "upgrade"}
)


class Upstream:
    """One call on the server; `answer` is what it says, read as it comes."""

    def __init__(self, credentials: Credentials, call: Call, headers: Mapping[str, str]) -> None:
        """Send the call. Raises OSError or http.client.HTTPException where it does not go
        through."""
        passed = {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}
        has_token = any(name.lower() == "authorization" for name in passed)
        if credentials.token and not has_token:
            passed["Authorization"] = f"Bearer {credentials.token}"
        self._connection = _connection(credentials, has_token=has_token)
        try:
            self._connection.request(call.method, call.target, call.body or None, passed)
            self.answer = self._connection.getresponse()
        except BaseException:
            self._connection.close()
            raise

    @property
    def is_stream(self) -> bool:
        """Whether nobody knows yet how long the answer gets."""
        return self.answer.length is None

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The answer's headers, but for those that belong to the connection."""
        return [
            (name, value)
            for name, value in self.answer.getheaders()
            if name.lower() not in _HOP_BY_HOP
        ]

    def interrupt(self) -> None:
        """End the answer, also while another thread waits for more of it."""
        if self._connection.sock is not None:
            with suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self.answer.close()
        self._connection.close()


def _connection(credentials: Credentials, *, has_token: bool) -> http.client.HTTPConnection:
    address = urlsplit(credentials.server)
    host, port = address.hostname or "", address.port
    if address.scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=_SILENCE_SECONDS)
    context = (
        ssl.create_default_context(cadata=credentials.ca_pem or None)
        if has_token
        else credentials.context
    )
    # As for the node agent: the API server's certificate lacks extensions that Python 3.13 began to
    # ask for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return http.client.HTTPSConnection(host, port, timeout=_SILENCE_SECONDS, context=context)
