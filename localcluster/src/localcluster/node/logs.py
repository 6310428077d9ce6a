"""Container logs: written line by line with each line's instant, read as a kubelet's are.

A line is stored as `<RFC 3339 with nanoseconds> <stdout|stderr> <F|P> <text>`, the format of
container engines: F ends a line, P is a part of one that was too long."""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path

_LONGEST_LINE_BYTES = 16384


def nanosecond_stamp(nanoseconds: int) -> str:
    """Write an instant (nanoseconds since 1970) as RFC 3339 in UTC with nine decimals."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC).strftime('%Y-%m-%dT%H:%M:%S')}.{rest:09d}Z"


class LogFile:
    """The log of one run of a container. One thread writes; readers wait on `changed` for more."""

    def __init__(self, path: Path, clock_ns: Callable[[], int] = time.time_ns) -> None:
        """Write to `path`, which is made with its folder."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.changed = threading.Condition()
        self.closed = False
        self._clock_ns = clock_ns
        self._partial: dict[str, bytes] = {}
        self._file = path.open("ab", buffering=0)

    def write(self, stream: str, data: bytes) -> None:
        """Take bytes of "stdout" or "stderr"; whole lines are stored with the present instant."""
        *lines, rest = (self._partial.get(stream, b"") + data).split(b"\n")
        while len(rest) > _LONGEST_LINE_BYTES:
            self._store(stream, b"P", [rest[:_LONGEST_LINE_BYTES]])
            rest = rest[_LONGEST_LINE_BYTES:]
        self._partial[stream] = rest
        if lines:
            self._store(stream, b"F", lines)

    def close(self) -> None:
        """Store what has no line end yet; readers see that the log is complete."""
        for stream, rest in self._partial.items():
            if rest:
                self._store(stream, b"F", [rest])
        self._partial = {}
        with self.changed:
            self.closed = True
            self._file.close()
            self.changed.notify_all()

    def _store(self, stream: str, tag: bytes, lines: list[bytes]) -> None:
        head = b"%s %s %s " % (nanosecond_stamp(self._clock_ns()).encode(), stream.encode(), tag)
        with self.changed:
            self._file.write(b"".join(head + line + b"\n" for line in lines))
            self.changed.notify_all()


@dataclass(frozen=True)
class LogQuery:
    """What a reader asks for, named as in the kubelet's endpoint; None stands for all."""

    follow: bool = False
    timestamps: bool = False
    since: datetime | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None

    @staticmethod
    def parse(values: dict[str, str], now: datetime) -> "LogQuery":
        """Read a query string's values. Raises ValueError with a sentence."""
        try:
            since = datetime.fromisoformat(values["sinceTime"]) if values.get("sinceTime") else None
            if values.get("sinceSeconds"):
                since = now - timedelta(seconds=int(values["sinceSeconds"]))
            if since is not None and since.tzinfo is None:
                since = since.replace(tzinfo=UTC)
            return LogQuery(
                follow=values.get("follow") == "true",
                timestamps=values.get("timestamps") == "true",
                since=since,
                tail_lines=int(values["tailLines"]) if values.get("tailLines") else None,
                limit_bytes=int(values["limitBytes"]) if values.get("limitBytes") else None,
            )
        except (ValueError, OverflowError) as error:
            raise ValueError(f"the log query cannot be understood: {error}") from None


def read_log(
    path: Path,
    query: LogQuery,
    live: LogFile | None = None,
    abandoned: Callable[[], bool] = lambda: False,
) -> Iterator[bytes]:
    """Yield pieces of a log as the query asks.

    With `follow` and a `live` log it goes on until the log is closed or `abandoned()` says that the
    reader left (asked about once a second)."""
    left = query.limit_bytes
    for piece in _lines(path, query, live, abandoned):
        yield piece if left is None else piece[:left]
        if left is not None:
            left -= len(piece)
            if left <= 0:
                return


def _lines(
    path: Path, query: LogQuery, live: LogFile | None, abandoned: Callable[[], bool]
) -> Iterator[bytes]:
    since = nanosecond_stamp(_nanoseconds(query.since)).encode() if query.since else b""
    line_begins = True
    with path.open("rb") as source:
        if query.tail_lines is not None:
            source.seek(_tail_offset(path, query.tail_lines))
        while True:
            # Looked at before reading: what was written until then is read below.
            complete = live is None or live.closed
            for line in iter(source.readline, b""):
                if not line.endswith(b"\n"):
                    # Its end is just being written, or never was because the agent was killed.
                    source.seek(-len(line), 1)
                    break
                stamp, _, tag, content = line.split(b" ", 3)
                if stamp >= since:
                    head = stamp + b" " if query.timestamps and line_begins else b""
                    # A part of a long line is followed by no line end.
                    yield head + (content if tag == b"F" else content[:-1])
                    line_begins = tag == b"F"
            if complete or live is None or not query.follow or abandoned():
                return
            with live.changed:
                unread = source.tell() < os.fstat(source.fileno()).st_size
                if not unread and not live.closed:
                    live.changed.wait(timeout=1.0)


def _nanoseconds(instant: datetime) -> int:
    since_epoch = instant - datetime(1970, 1, 1, tzinfo=UTC)
    return (since_epoch // timedelta(microseconds=1)) * 1000


def _tail_offset(path: Path, lines: int) -> int:
    """Return where the last `lines` lines of a file begin."""
    with path.open("rb") as source:
        ends = deque(accumulate(map(len, source), initial=0), maxlen=max(0, lines) + 1)
    return ends[0]
