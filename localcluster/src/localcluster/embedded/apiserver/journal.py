"""The journal: every change as one line of a file, from which a restarted server restores itself.

A line that a kill has cut is the last one and is dropped."""

from pathlib import Path

import msgspec

from localcluster.embedded.apiserver.store import Change, Store, Stored


class _Line(msgspec.Struct):
    kind: str
    gone: bool
    version: int
    object: dict[str, object]


class JournalError(Exception):
    """A change could not be written, so it did not happen."""


class FileJournal:
    """Appends changes to a file. They survive the process, not a crash of the machine."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._size = path.stat().st_size

    def record(self, kind: str, change: Change) -> None:
        """Write a change, whole or not at all. Raises JournalError."""
        gone = b"true" if change.gone else b"false"
        head = b'{"kind":"%b","gone":%b,"version":%d' % (kind.encode(), gone, change.version)
        line = b'%b,"object":%b}\n' % (head, change.now.raw)
        try:
            written = self._file.write(line)
        except OSError as error:
            raise JournalError(f"the change cannot be written: {error}") from error
        if written != len(line):
            self._file.truncate(self._size)
            size = f"{written} of {len(line)} bytes"
            raise JournalError(f"the change cannot be written: only {size} fit")
        self._size += len(line)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def restore(path: Path, store: Store) -> bool:
    """Fill a store from a journal and drop a cut line; return whether it held anything."""
    if not path.exists():
        return False
    whole = path.read_bytes().rpartition(b"\n")[0]
    for line in whole.splitlines():
        read = msgspec.json.decode(line, type=_Line)
        now = Stored(read.object, msgspec.json.encode(read.object), read.version)
        store.restore(read.kind, Change(read.version, None, now, read.gone))
    path.write_bytes(whole + b"\n" if whole else b"")
    return bool(whole)
