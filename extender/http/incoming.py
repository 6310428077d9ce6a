"""One request as it arrives on a connection that does not block.

No thread waits for a client: what has come is kept here until the request is whole. Only then is
it handed to a thread, which finds all of it in gunicorn's buffer."""

import re
from typing import Final

_END_OF_HEAD: Final = b"\r\n\r\n"
_END_OF_CHUNKS: Final = b"0\r\n\r\n"
_MOST_HEAD_BYTES: Final = 65_536
"""Beyond, gunicorn says what is wrong with the head."""

_MOST_LIMITS: Final = 9
"""A body of up to this many limits is read and its rest discarded: a client that is still sending
would not read the answer that the body is too large."""

_LENGTH: Final = re.compile(rb"(?im)^content-length:[ \t]*([^\r\n]*)")
_CHUNKED: Final = re.compile(rb"(?im)^transfer-encoding:")


class TooLarge(Exception):
    """The body is not read to its end."""


class Incoming:
    """The bytes of one request, and what follows it. Not thread-safe."""

    def __init__(self, max_body_bytes: int, deadline: float) -> None:
        self.deadline = deadline
        """When it has to be whole (monotonic)."""
        self.may_wait = True
        """Whether a thread may wait a moment for the rest of it; once."""
        self._most, self._data = max_body_bytes + 1, bytearray()
        self._body_at, self._searched = 0, 0
        self._length: int | None = 0
        """The length of the body; ``None`` where it comes in chunks."""
        self._discarded = 0

    def feed(self, data: bytes) -> bool:
        """Add what has arrived; returns whether the request is whole.

        Raises:
            TooLarge: it is not worth waiting for."""
        self._data += data
        if not self._body_at and not self._find_body():
            return len(self._data) > _MOST_HEAD_BYTES
        present = len(self._data) - self._body_at
        if self._length is None:
            if present > self._most:
                raise TooLarge
            return self._data.endswith(_END_OF_CHUNKS)
        if self._length > _MOST_LIMITS * self._most:
            raise TooLarge
        surplus = min(present, self._length - self._discarded) - self._most
        if surplus > 0:
            end = self._body_at + self._most
            del self._data[end : end + surplus]
            self._discarded += surplus
            present -= surplus
        return present + self._discarded >= self._length

    def _find_body(self) -> bool:
        at = self._data.find(_END_OF_HEAD, max(self._searched - len(_END_OF_HEAD), 0))
        self._searched = len(self._data)
        if at < 0:
            return False
        self._body_at = at + len(_END_OF_HEAD)
        head = bytes(self._data[:at])
        if _CHUNKED.search(head):
            self._length = None
            return True
        found = _LENGTH.search(head)
        text = b"" if found is None else found[1].strip()
        self._length = int(text) if text.isdigit() else 0  # gunicorn says what is wrong with it
        return True

    def take(self) -> bytes:
        """Everything that is kept; the head of a shortened body has its new length."""
        if not self._discarded:
            return bytes(self._data)
        head, rest = self._data[: self._body_at], self._data[self._body_at :]
        return bytes(_LENGTH.sub(b"Content-Length: %d" % self._most, head, count=1) + rest)
