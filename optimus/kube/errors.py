"""Errors of the API server, classified by what a caller does about them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

import msgspec
import urllib3


class ErrorKind(StrEnum):
    """The kinds of errors, by what a caller can do about them."""

    CONFLICT = "conflict"
    """The object has changed since it was read: read it again and decide again."""
    EXISTS = "exists"
    """An object of that name is already there."""
    EXPIRED = "expired"
    """The resource version is too old: list again."""
    NOT_FOUND = "not found"
    """The object is gone, or the API server does not know its kind."""
    FORBIDDEN = "forbidden"
    """The identity lacks a right, or is not known: only an administrator can help."""
    INVALID = "invalid"
    """The request can never succeed as it is."""
    THROTTLED = "throttled"
    """Try again after ``retry_after_seconds``."""
    TRANSIENT = "transient"
    """No answer, or a server error: try again. A write may have happened."""
    NOT_LEADING = "not leading"
    """Not sent: another instance may lead by now."""


class KubeError(Exception):
    """The API server did not do what was asked; ``str()`` is a sentence for people."""

    def __init__(
        self, kind: ErrorKind, sentence: str, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(sentence)
        self.kind = kind
        self.sentence = sentence
        self.retry_after_seconds = retry_after_seconds


class NotLeading(Exception):
    """A write was not sent, since this process may not write now; ``str()`` says why."""


class Malformed(ValueError):
    """An object or a value cannot be used as it is; ``str()`` is a sentence that says why."""


Decoded = TypeVar("Decoded")


def decode(decoder: msgspec.json.Decoder[Decoded], raw: bytes | msgspec.Raw, what: str) -> Decoded:
    """Decode JSON.

    Raises:
        Malformed: it is not ``what`` it should be, such as "a pod".
    """
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Malformed(f"not {what}: {error}") from error


class Status(msgspec.Struct):
    """The body of an error answer, and the object of a watch's ERROR event."""

    message: str | None = None
    reason: str | None = None
    code: int | None = None


_KINDS = {
    400: ErrorKind.INVALID,
    401: ErrorKind.FORBIDDEN,
    403: ErrorKind.FORBIDDEN,
    404: ErrorKind.NOT_FOUND,
    405: ErrorKind.INVALID,
    409: ErrorKind.CONFLICT,
    410: ErrorKind.EXPIRED,
    413: ErrorKind.INVALID,
    415: ErrorKind.INVALID,
    422: ErrorKind.INVALID,
    429: ErrorKind.THROTTLED,
}
LONGEST_WAIT_SECONDS = 120.0
"""No Retry-After is obeyed for longer, so that one odd answer cannot stop a cache for hours."""


def from_answer(
    what: str, code: int, body: bytes | str | None, headers: Mapping[str, str] | None = None
) -> KubeError:
    """The error of an HTTP answer; ``what`` was tried, such as "patch tfjob ns/name"."""
    return from_status(what, _status(body), code, _retry_after(headers))


def from_status(
    what: str, status: Status, code: int, retry_after_seconds: float | None = None
) -> KubeError:
    """The error of a Status object; watches carry one inside an answer of 200."""
    kind = _KINDS.get(code, ErrorKind.TRANSIENT)
    if code == 409 and status.reason == "AlreadyExists":
        kind = ErrorKind.EXISTS
    if retry_after_seconds is not None and code >= 500:
        kind = ErrorKind.THROTTLED
    said = (status.message or status.reason or "no reason given")[:500]
    return KubeError(kind, f"cannot {what}: {said} (HTTP {code})", retry_after_seconds)


def classify(what: str, error: Exception) -> KubeError:
    """The error of a failed request; an unknown exception counts as transient."""
    if isinstance(error, KubeError):
        return error
    if isinstance(error, NotLeading):
        return KubeError(ErrorKind.NOT_LEADING, f"did not {what}: {error}")
    if isinstance(error, urllib3.exceptions.NewConnectionError):
        # urllib3 counts a refused connection among the time-outs.
        said = f"no connection to the API server: {str(error)[:300]}"
    elif isinstance(error, urllib3.exceptions.TimeoutError):
        said = "the API server did not answer in time"
    else:
        said = f"{type(error).__name__}: {str(error)[:300]}"
    return KubeError(ErrorKind.TRANSIENT, f"cannot {what}: {said}")


def _status(body: bytes | str | None) -> Status:
    try:
        return msgspec.json.decode(body or b"{}", type=Status)
    except (msgspec.MsgspecError, UnicodeError):
        return Status(message="the answer is no Status object")


def _retry_after(headers: Mapping[str, str] | None) -> float | None:
    text = (headers or {}).get("Retry-After", "")
    # The header may also hold a date; the API server sends seconds.
    return min(float(text), LONGEST_WAIT_SECONDS) if text.isascii() and text.isdigit() else None
