"""kube-scheduler's calls, read from the connection and answered without gunicorn's parser.

gunicorn's parser and its WSGI environment take longer than the decision that a call asks for. A
request in the one form that Go's HTTP client sends (a POST to a verb, a known length, no header but
those below) is read here; every other request is left, unread, to gunicorn."""

import socket
import time
from collections.abc import Callable, Mapping
from email.utils import formatdate
from functools import lru_cache
from io import BytesIO
from typing import IO, Final, Protocol

Verb = Callable[[IO[bytes]], bytes]
"""Reads a request's body and returns that of the answer."""

_READ_BYTES: Final = 65536
_END_OF_HEAD: Final = b"\r\n\r\n"
_HEADERS: Final = frozenset(
    (b"host", b"user-agent", b"content-length", b"content-type", b"accept-encoding")
)
"""What a head may hold: none of these changes how the body is read or the connection is used."""

_MOST_DIGITS: Final = 10


class Buffered(Protocol):
    """The part of gunicorn's ``Unreader`` that is needed: what was read too early."""

    def take_buffered(self) -> bytes:
        """What has been read from the connection and not been used."""
        ...

    def unread(self, data: bytes) -> None:
        """Leave bytes for the next reader."""
        ...


def answer_call(
    sock: socket.socket, buffered: Buffered, verbs: Mapping[bytes, Verb], max_body_bytes: int
) -> bool | None:
    """Answer the request that a blocking connection holds; true where the connection is kept.

    ``None``: it has another form or a longer body, and nothing of it has been used.

    Raises:
        OSError: the connection failed.
    """
    data = buffered.take_buffered() or sock.recv(_READ_BYTES)
    if not data:
        return False
    head, found, body = data.partition(_END_OF_HEAD)
    call = _read_head(head, verbs) if found else None
    if call is None or call[1] > max_body_bytes:
        buffered.unread(data)
        return None
    verb, length = call
    parts, missing = [body], length - len(body)
    while missing > 0:
        part = sock.recv(max(missing, _READ_BYTES))
        if not part:
            return False
        parts.append(part)
        missing -= len(part)
    if len(parts) > 1:
        body = b"".join(parts)
    if missing < 0:
        buffered.unread(body[length:])
        body = body[:length]
    answer = verb(BytesIO(body))
    sock.sendall(
        b"HTTP/1.1 200 OK\r\nDate: %b\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (_date(int(time.time())), len(answer), answer)
    )
    return True


def _read_head(head: bytes, verbs: Mapping[bytes, Verb]) -> tuple[Verb, int] | None:
    """The verb and the length of the body; ``None`` for a request in any other form."""
    first, *lines = head.split(b"\r\n")
    verb = verbs.get(first)
    if verb is None:
        return None
    headers: dict[bytes, bytes] = {}
    for line in lines:
        name, _, value = line.partition(b":")
        name = name.lower()
        if name not in _HEADERS or name in headers:
            return None
        headers[name] = value.strip(b" \t")
    length = headers.get(b"content-length", b"")
    if b"host" not in headers or not length.isdigit() or len(length) > _MOST_DIGITS:
        return None
    return verb, int(length)


def by_request_line(verbs: Mapping[str, Verb]) -> dict[bytes, Verb]:
    """Verbs by path, as ``answer_call`` looks them up: by the first line of a request."""
    return {f"POST {path} HTTP/1.1".encode(): verb for path, verb in verbs.items()}


@lru_cache(1)
def _date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()
