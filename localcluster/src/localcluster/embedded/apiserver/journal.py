"""The journal: every change as one line of a file, so that a server that is started again has its
objects and log.

What a real control plane keeps in etcd. A line that was cut by a kill is the last one, and is left
out."""

from pathlib import Path

import msgspec

from localcluster.embedded.apiserver.store import Change, Store, Stored


class _Line(msgspec.Struct):
    kind: str
    gone: bool
    version: int
    object: dict[str, object]


class Unrecorded(Exception):
    """A change could not be kept, so that it did not happen."""


class FileJournal:
    """Appends changes to a file. What is written survives the process, not the machine."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make it."""
        self._file = path.open("ab", buffering=0)
        self._size = path.stat().st_size

    def record(self, kind: str, change: Change) -> None:
        """Write a change. Raises Unrecorded, on a full disk for one, and leaves no part of it
        behind."""
        gone = b"true" if change.gone else b"false"
        head = b'{"kind":"%b","gone":%b,"version":%d' % (kind.encode(), gone, change.version)
        line = b'%b,"object":%b}\n' % (head, change.now.raw)
        try:
            written = self._file.write(line)
        except OSError as error:
            raise Unrecorded(f"the change cannot be kept: {error}") from error
        if written != len(line):
            # The next line would be lost with this one.
            self._file.truncate(self._size)
            raise Unrecorded(
                f"the change cannot be kept: {written} of {len(line)} bytes could be written"
            )
        self._size += len(line)

    def close(self) -> None:
        """Write no more."""
        self._file.close()


def restore(path: Path, store: Store) -> bool:
    """Fill a store from a journal; tell whether there was anything in it. The file then ends in a
    whole line."""
    if not path.exists():
        return False
    whole = path.read_bytes().rpartition(b"\n")[0]
    for line in whole.splitlines():
        read = msgspec.json.decode(line, type=_Line)
        now = Stored(read.object, msgspec.json.encode(read.object), read.version)
        store.restore(read.kind, Change(read.version, None, now, read.gone))
    path.write_bytes(whole + b"\n" if whole else b"")
    return bool(whole)
