"""Objects by namespace and name, filled by one thread and read by many."""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

_LOG = logging.getLogger(__name__)


class Cached(Protocol):
    """An object that can be cached."""

    @property
    def namespace(self) -> str:
        """Its namespace; "" for kinds without."""

    @property
    def name(self) -> str:
        """Its name."""


T = TypeVar("T", bound=Cached)


class Key(NamedTuple):
    """The identity of a cached object."""

    namespace: str
    name: str


class Changes:
    """A count of changes that threads can wait on; several copies may share one."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._count = 0

    @property
    def count(self) -> int:
        """The number of changes so far."""
        with self._condition:
            return self._count

    def notify(self) -> None:
        """Count one more and wake the waiting threads."""
        with self._condition:
            self._count += 1
            self._condition.notify_all()

    def wait(self, seen: int, timeout_seconds: float) -> int:
        """Wait until the count is no longer ``seen``, or the time is over; returns the count."""
        with self._condition:
            self._condition.wait_for(lambda: self._count != seen, timeout_seconds)
            return self._count


Observer = Callable[[T | None, T | None], None]
"""Called on the reflector's thread with an object before and after a change; must be quick."""


class ObjectStore(Generic[T]):
    """Objects by namespace and name; safe to use from several threads."""

    def __init__(self, changes: Changes, observer: Observer[T] | None) -> None:
        self.changes = changes
        self._observer = observer
        self._lock = threading.Lock()
        self._objects: dict[Key, T] = {}

    def items(self) -> tuple[T, ...]:
        """Every object, in no particular order."""
        with self._lock:
            return tuple(self._objects.values())

    def find(self, key: Key) -> T | None:
        """One object."""
        with self._lock:
            return self._objects.get(key)

    def __len__(self) -> int:
        with self._lock:
            return len(self._objects)

    def put(self, key: Key, item: T | None) -> None:
        """Set one object; ``None`` removes it."""
        with self._lock:
            before = self._objects.pop(key, None)
            if item is not None:
                self._objects[key] = item
        self._notify(before, item)
        self.changes.notify()

    def replace(self, objects: Mapping[Key, T]) -> None:
        """Set every object and notify the observer of those new, changed and gone."""
        with self._lock:
            before = self._objects
            self._objects = dict(objects)
        for key in before.keys() - objects.keys():
            self._notify(before[key], None)
        for key, item in objects.items():
            if before.get(key) != item:
                self._notify(before.get(key), item)
        self.changes.notify()

    def _notify(self, before: T | None, after: T | None) -> None:
        if self._observer is None:
            return
        try:
            self._observer(before, after)
        except Exception:  # noqa: BLE001 - an observer's fault must not end the thread that keeps the copy fresh
            _LOG.exception("an observer failed on one change")
