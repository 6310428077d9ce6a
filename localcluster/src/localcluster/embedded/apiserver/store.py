"""The store: objects by kind, namespace and name, one version counter, a change log for each kind.

    put, remove      give the next version to a change and append it to the log of its kind
    since(version)   the changes after a version, or `Expired` where the log does not reach back

Objects are encoded once, when they are stored; lists and watches share these bytes."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from localcluster.embedded.apiserver.kinds import Json

Name: TypeAlias = tuple[str, str]
"""Namespace ("" for an object without one) and name."""

_KEPT = 10_000


class Expired(Exception):
    """The log does not reach back to a version; `oldest` is the first that it knows."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"the log begins after version {oldest}")
        self.oldest = oldest


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored object with its bytes. `body` begins with kind and apiVersion."""

    body: Json
    raw: bytes
    version: int

    @property
    def name(self) -> Name:
        """Its place within its kind."""
        metadata = self.body["metadata"]
        return metadata.get("namespace", ""), metadata["name"]

    @property
    def uid(self) -> str:
        """Its identity."""
        return str(self.body["metadata"]["uid"])


@dataclass(slots=True)
class Change:
    """One change: `before` is None for a new object; `now` of a removed one is its last state."""

    version: int
    before: Stored | None
    now: Stored
    gone: bool
    _event: bytes = field(default=b"", repr=False)

    @property
    def name(self) -> Name:
        """Namespace and name of the object."""
        return self.now.name

    @property
    def event(self) -> bytes:
        """The change as a line of a watch without selectors, encoded once for all watchers."""
        if not self._event:
            kind = "DELETED" if self.gone else "MODIFIED" if self.before else "ADDED"
            self._event = event_line(kind, self.now.raw)
        return self._event


Listener: TypeAlias = Callable[[str, Change], None]


class Store:
    """All objects. Kinds are named by the key they are stored under."""

    def __init__(self, kept: int = _KEPT) -> None:
        """Keep at least `kept` changes of each kind (and at most twice as many)."""
        self.version = 1
        self._kept = kept
        self._objects: dict[str, dict[Name, Stored]] = {}
        self._logs: dict[str, list[Change]] = {}
        self._begins: dict[str, int] = {}
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> None:
        """Report every change from now on to `listener`, right after it happened."""
        self._listeners.append(listener)

    def find(self, kind: str, name: Name) -> Stored | None:
        """Return one object."""
        return self._objects.get(kind, {}).get(name)

    def items(self, kind: str, namespace: str = "") -> list[Stored]:
        """Return the objects of a kind, of one namespace or of all, by name."""
        return _ordered(self._objects.get(kind, {}), namespace)

    def put(self, kind: str, body: Json) -> Stored:
        """Store an object under its name with the next version."""
        now = encoded(body, self.version + 1)
        self._take(kind, Change(now.version, self.find(kind, now.name), now, gone=False))
        return now

    def remove(self, kind: str, name: Name) -> Stored:
        """Remove an object; its last state gets the next version. Raises KeyError."""
        before = self._objects[kind][name]
        now = encoded(before.body, self.version + 1)
        self._take(kind, Change(now.version, before, now, gone=True))
        return now

    def since(self, kind: str, version: int) -> Sequence[Change]:
        """Return the changes of a kind after a version, oldest first. Raises Expired."""
        begins = self._begins.get(kind, 0)
        if version < begins:
            raise Expired(begins)
        log = self._logs.get(kind, [])
        return log[bisect_right(log, version, key=_version_of) :]

    def _take(self, kind: str, change: Change) -> None:
        """Apply and report a change."""
        self._apply(kind, change)
        for listener in self._listeners:
            listener(kind, change)

    def _apply(self, kind: str, change: Change) -> None:
        objects, log = self._objects.setdefault(kind, {}), self._logs.setdefault(kind, [])
        objects[change.name] = change.now
        if change.gone:
            del objects[change.name]
        self.version = change.version
        log.append(change)
        if len(log) > 2 * self._kept:
            self._begins[kind] = log[self._kept - 1].version
            del log[: self._kept]


def encoded(body: Json, version: int) -> Stored:
    """Return an object as it is stored: kind and apiVersion first, with this version."""
    metadata = {**body["metadata"], "resourceVersion": str(version)}
    whole = {"kind": body["kind"], "apiVersion": body["apiVersion"], **body, "metadata": metadata}
    return Stored(whole, msgspec.json.encode(whole), version)


def event_line(kind: str, raw: bytes) -> bytes:
    """Return one line of a watch."""
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), raw)


def _version_of(change: Change) -> int:
    return change.version


def _ordered(objects: dict[Name, Stored], namespace: str) -> list[Stored]:
    # In the order of their keys in etcd.
    names = sorted(objects, key="/".join)
    return [objects[name] for name in names if not namespace or name[0] == namespace]
