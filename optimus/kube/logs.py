"""Bounded reads of a container's log, each line with the timestamp of the node's agent."""

import math
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Protocol

from optimus.kube.client import path_of
from optimus.kube.errors import Malformed
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, answer_of
from optimus.kube.times import format_instant, parse_instant
from optimus.progress.types import LogLine, LogRead

LIMIT_BYTES = 1 << 18
"""The limit of one read, some 5,000 lines. The oldest lines come first; the next read continues
after them."""

_SMALL_BYTES = 1 << 14

LIMIT_LINE = 16 * 1024
"""Characters of one line: the last ones, since a progress bar overwrites what it printed before.
Positions in a log are remembered with the line they are at."""

TAIL_LINES = 5000
"""The most lines that are asked for since an instant. A kubelet finds the last lines from the
file's end; for an instant alone it reads the whole file, 10 MiB by default."""

READ_SECONDS = 5.0
"""A silent kubelet must not keep a reader from the other logs for longer."""


class LogSource(Protocol):
    """The part of ``optimus.kube.client.Client`` that is needed; see there."""

    def get(
        self,
        what: str,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        read_seconds: float | None = None,
    ) -> bytes:
        """The body of a GET."""


class LogReader:
    """Reads logs through the API server; safe to use from several threads."""

    def __init__(self, client: LogSource, limit_bytes: int = LIMIT_BYTES) -> None:
        self._client = client
        self._limit_bytes = limit_bytes
        self._parsing = Lock()
        """One parses a large log at a time, or little is left to the thread that decides."""

    def read(
        self, pod: Pod, *, since: float | None = None, last_lines: int | None = None
    ) -> LogRead | Refused:
        """The training container's whole lines since an instant (seconds since the epoch), or of
        these the last ones.

        Lines without a timestamp are the node agent's own words, not the container's, and are
        passed over. Where more was printed within the second of ``since`` than one read holds, the
        rest of that second is passed over. A read that fills its limit is truncated."""
        if last_lines is not None:
            return self._read_end(pod, since, last_lines)
        read = self._read(pod, since)
        if isinstance(read, Refused) or since is None or not read.truncated:
            return read
        if read.lines and read.lines[-1].at > since:
            return read
        rest = self._read(pod, math.floor(since) + 1.0)
        if isinstance(rest, Refused):
            return rest
        return LogRead(read.lines + rest.lines, rest.truncated, skipped=True)

    def read_ends(self, pod: Pod, last_lines: int) -> Iterator[LogRead | Refused]:
        """The beginning of a log where its last lines are not all, and its last lines."""
        read = self.read(pod, last_lines=last_lines)
        while isinstance(read, LogRead) and read.truncated and len(read.lines) > 1:
            read = self.read(pod, last_lines=len(read.lines) // 2)  # the end is what was cut off
        if isinstance(read, LogRead) and read.skipped and read.lines:
            first = LogReader(self._client, _SMALL_BYTES).read(pod)
            if isinstance(first, LogRead):
                yield LogRead([each for each in first.lines if each.at < read.lines[0].at])
        yield read

    def _read_end(self, pod: Pod, since: float | None, last_lines: int) -> LogRead | Refused:
        body = self._body(pod, since, last_lines)
        if isinstance(body, Refused):
            return body
        lines, is_cut = self._parsed(body), len(body) >= self._limit_bytes
        # As many as asked for, or cut before there were as many: there may be more before them.
        may_be_more = is_cut or body.count(b"\n") >= last_lines
        follows = since is not None and bool(lines) and lines[0].at <= since
        return LogRead(lines, is_cut, skipped=may_be_more and not follows)

    def _read(self, pod: Pod, since: float | None) -> LogRead | Refused:
        body = self._body(pod, since, TAIL_LINES if since is not None else None)
        if not isinstance(body, Refused) and since is not None and body.count(b"\n") >= TAIL_LINES:
            # There may be more since then, before these lines.
            body = self._body(pod, since, None)
        if isinstance(body, Refused):
            return body
        return LogRead(self._parsed(body), len(body) >= self._limit_bytes)

    def _parsed(self, body: bytes) -> list[LogLine]:
        if len(body) <= _SMALL_BYTES:
            return parse_log(body, self._limit_bytes)
        with self._parsing:
            return parse_log(body, self._limit_bytes)

    def _body(self, pod: Pod, since: float | None, last_lines: int | None) -> bytes | Refused:
        query = [("container", pod.log_container), ("timestamps", "true")]
        query += [("limitBytes", str(self._limit_bytes))]
        query += [] if since is None else [("sinceTime", format_instant(since))]
        query += [] if last_lines is None else [("tailLines", str(last_lines))]
        what = f"read the log of {pod.namespace}/{pod.name}"
        path = f"{path_of('', 'v1', 'pods', pod.namespace)}/{pod.name}/log"
        return answer_of(lambda: self._client.get(what, path, query, READ_SECONDS))


def parse_log(body: bytes, limit_bytes: int = LIMIT_BYTES) -> list[LogLine]:
    """The whole lines of a log with timestamps; an unfinished last line is left for later."""
    whole, _, rest = body.rpartition(b"\n")
    if not whole and len(rest) >= limit_bytes:
        # One line larger than the limit: kept as cut, or the next read would find it again for
        # ever.
        whole = rest
    lines = (_line(line) for line in whole.decode("utf-8", "replace").split("\n"))
    return [line for line in lines if line is not None]


def _line(text: str) -> LogLine | None:
    stamp, _, rest = text.partition(" ")
    try:
        return LogLine(parse_instant(stamp), rest[-LIMIT_LINE:])
    except Malformed:
        return None
