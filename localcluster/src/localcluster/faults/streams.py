"""What faults do to the events of a watch, and the error statuses that they make up."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from localcluster.faults.faults import Drop, EndStream, Stall, StreamFault

_REASONS: Final[Mapping[int, str]] = {
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def error_status(code: int) -> dict[str, object]:
    """Return the Status object that goes with a code."""
    head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    reason, message = _REASONS.get(code, "Unknown"), f"an injected fault answers {code}"
    return {**head, "message": message, "reason": reason, "code": code}


def whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield each line as soon as it is whole, and what is left over at the end."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest


def changed(
    pieces: Iterable[bytes], fault: StreamFault, pause: Callable[[float], None]
) -> Iterator[bytes]:
    """Yield what the client gets of a watch, line by line; `pause` waits for so many seconds."""
    lines = whole_lines(pieces)
    match fault:
        case Drop(lines=count):
            yield from islice(lines, count, None)
        case EndStream(after_lines=count, code=code):
            yield from islice(lines, count)
            if code is not None:
                yield json.dumps({"type": "ERROR", "object": error_status(code)}).encode() + b"\n"
        case Stall(seconds=seconds):
            for number, line in enumerate(lines):
                if number == 0:
                    pause(seconds)
                yield line
