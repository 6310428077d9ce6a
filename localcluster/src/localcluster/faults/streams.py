"""What a fault makes of the lines of a watch; no I/O of its own."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from localcluster.faults.answers import error_event
from localcluster.faults.faults import Drop, EndStream, Stall, StreamFault


def whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield each line with its end, as soon as it is whole; what is left over at the end comes as
    it is."""
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
                yield error_event(code)
        case Stall(seconds=seconds):
            for number, line in enumerate(lines):
                if number == 0:
                    pause(seconds)
                yield line
