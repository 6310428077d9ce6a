"""A local cache of one resource, kept up to date by list and watch.

List in pages, remember the list's resource version, watch from there. Every event and bookmark
moves that version on, so that a watch which ends (they all do, by their own time limit) goes on
where it was. When the API server no longer knows the version (410), list again and find what
is new, changed and gone. Failures wait with a jittered, doubling pause. A frozen server is noticed
by the read time-out, which is a little longer than the watch."""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Generic, Self

import msgspec
import urllib3

from optimus.kube.errors import ErrorKind, KubeError, Malformed, classify
from optimus.kube.list_watch import (
    ListSource,
    ListWatch,
    decode_event,
    decode_item,
    lines,
    read_pages,
)
from optimus.kube.store import Changes, Key, ObjectStore, Observer, T

_LOG = logging.getLogger(__name__)
_ENOUGH_FAILURES: Final = 4
"""Failures in a row (about 10 s) after which everything is listed again."""


@dataclass(frozen=True, slots=True)
class BackoffConfig:
    """Waits double from ``first_seconds`` to ``cap_seconds``, jittered down by up to half."""

    first_seconds: float = 1.0
    cap_seconds: float = 30.0


class Backoff:
    """Counts failures in a row; not safe to share between threads."""

    def __init__(self, rule: BackoffConfig, random: Random) -> None:
        self._rule = rule
        self._random = random
        self._failures = 0

    @property
    def failures(self) -> int:
        """The number of failures in a row."""
        return self._failures

    def after_failure(self, at_least_seconds: float = 0.0) -> float:
        """Seconds to wait now; ``at_least_seconds`` is the server's own Retry-After."""
        # 2**40 first waits are beyond any cap; the limit keeps the power from growing for ever.
        wait = min(
            self._rule.cap_seconds, self._rule.first_seconds * 2.0 ** min(self._failures, 40)
        )
        self._failures += 1
        return max(at_least_seconds, wait * self._random.uniform(0.5, 1.0))

    def reset(self) -> None:
        """Start over after a success."""
        self._failures = 0


@dataclass(frozen=True, slots=True)
class ReflectorConfig:
    """Time limits and page size of one cache."""

    page: int = 500
    """Objects per page of a list: bounds the memory of one answer."""

    watch_seconds: float = 120.0
    """The least time that one watch lasts; jitter adds up to a quarter. A frozen server goes
    unnoticed for at most this and ``grace_seconds``; opening a watch is cheap."""

    grace_seconds: float = 15.0
    """A read may wait so much longer than a watch before the server counts as frozen."""

    absent_seconds: float = 30.0
    """An optional kind that the server does not serve is tried again so often."""

    backoff: BackoffConfig = field(default_factory=BackoffConfig)

    clock: Callable[[], float] = time.monotonic
    """The clock by which the age of the copy is measured, in seconds."""

    @classmethod
    def within(cls, age_seconds: float) -> Self:
        """The configuration of a copy that is not older than this while all is well.

        A watch lasts for up to a quarter longer, then the next is opened: so something comes from
        the API server also about kinds that do not change and have no bookmarks."""
        return cls(watch_seconds=age_seconds / 2, absent_seconds=min(30.0, age_seconds / 2))


class Reflector(Generic[T]):
    """A local cache of one resource; reading it never blocks on the network.

    Safe to use from several threads. ``start`` begins; ``stop`` ends its thread.
    """

    def __init__(
        self,
        source: ListSource,
        watched: ListWatch[T],
        *,
        config: ReflectorConfig | None = None,
        changes: Changes | None = None,
        observer: Observer[T] | None = None,
        random: Random | None = None,
    ) -> None:
        self.watched = watched
        self.changes = changes or Changes()
        self._source = source
        self._config = config or ReflectorConfig()
        self._random = random or Random()
        self._backoff = Backoff(self._config.backoff, self._random)
        self._clock = self._config.clock
        self._store: ObjectStore[T] = ObjectStore(self.changes, observer)
        self._stopping = threading.Event()
        self._synced = threading.Event()
        self._response: urllib3.BaseHTTPResponse | None = None
        self._version = ""
        self._expirations = 0
        self._last_contact: float | None = None
        """Before the first contact: since when one is tried for."""
        self._failure: str | None = None
        self._failed_at: float | None = None
        self._is_refused = False
        self._thread = threading.Thread(
            target=self._run, name=f"cache-{watched.plural}", daemon=True
        )

    def start(self) -> None:
        """Begin to list and watch, on a separate thread."""
        self._last_contact = self._clock()
        self._thread.start()

    def stop(self, timeout_seconds: float = 5.0) -> None:
        """End the thread, also in the middle of a watch."""
        self._stopping.set()
        response = self._response
        if response is not None:
            _interrupt(response)
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout_seconds)

    @property
    def synced(self) -> bool:
        """The first list was read. ``failure`` says why the cache is not fresh now."""
        return self._synced.is_set()

    def wait_synced(self, timeout_seconds: float) -> bool:
        """Wait for the first whole list."""
        return self._synced.wait(timeout_seconds)

    @property
    def failure(self) -> str | None:
        """Why the copy cannot be refreshed at the moment; ``None`` while all is well."""
        return self._failure

    @property
    def since_failure_seconds(self) -> float:
        """Seconds since a list or watch failed last; infinite if none ever did."""
        return math.inf if self._failed_at is None else self._clock() - self._failed_at

    @property
    def silent_seconds(self) -> float:
        """Seconds since the last answer, or since ``start``; 0 before that."""
        last = self._last_contact
        return 0.0 if last is None else self._clock() - last

    @property
    def last_contact(self) -> float | None:
        """When the last answer came, or ``start``, by ``clock``; ``None`` before that."""
        return self._last_contact

    def items(self) -> tuple[T, ...]:
        """Every object, in no particular order."""
        return self._store.items()

    def find(self, namespace: str, name: str) -> T | None:
        """One object."""
        return self._store.find(Key(namespace, name))

    def __len__(self) -> int:
        return len(self._store)

    def _run(self) -> None:
        while not self._stopping.is_set():
            pause = self._round()
            if pause:
                self._stopping.wait(pause)

    def _round(self) -> float:
        """List if need be, then watch once; returns the seconds to pause."""
        try:
            if not self._version:
                self._list()
            return self._watch() if self._version else 0.0
        except KubeError as error:
            return self._after_error(error)
        except Malformed as error:
            return self._after_error(
                KubeError(ErrorKind.TRANSIENT, f"cannot read {self.watched.plural}: {error}")
            )
        except Exception as error:  # noqa: BLE001 - a thread that dies unseen would leave a copy that ages in silence
            if not self._stopping.is_set():
                _LOG.exception(
                    "internal error in the cache of %s; it starts again", self.watched.plural
                )
            self._version = ""
            return self._after_error(classify(f"watch {self.watched.plural}", error))

    def _after_error(self, error: KubeError) -> float:
        if self._stopping.is_set():
            return 0.0
        if error.kind is ErrorKind.EXPIRED:
            self._version = ""
            self._expirations += 1
            # Once is ordinary; a server on which each new version is too old at once must not be
            # listed in a loop.
            return 0.0 if self._expirations == 1 else self._fail(error)
        if error.kind is ErrorKind.NOT_FOUND and self.watched.optional:
            self._set_absent()
            return self._config.absent_seconds
        if error.kind is ErrorKind.FORBIDDEN and self.watched.without:
            self._continue_without_resource(error)
            return self._config.absent_seconds
        # A server that was restored from a backup answers 504 to a version that it has not reached
        # yet.
        if (
            error.kind not in (ErrorKind.TRANSIENT, ErrorKind.THROTTLED)
            or self._backoff.failures >= _ENOUGH_FAILURES
        ):
            self._version = ""
        return self._fail(error)

    def _fail(self, error: KubeError) -> float:
        if self._failure != error.sentence:
            _LOG.warning("%s", error.sentence)
        self._failure, self._failed_at = error.sentence, self._clock()
        return self._backoff.after_failure(error.retry_after_seconds or 0.0)

    def _note_contact(self) -> None:
        self._last_contact = self._clock()
        if self._failure is not None:
            _LOG.info("%s are up to date again", self.watched.plural)
        self._failure = None

    def _continue_without_resource(self, error: KubeError) -> None:
        """Keep what was known; it is tried again from time to time."""
        if not self._is_refused:
            _LOG.warning("%s; going on: %s", error.sentence, self.watched.without)
        self._is_refused, self._version = True, ""
        self._note_contact()
        self._synced.set()

    def _set_absent(self) -> None:
        self._version = ""
        self._note_contact()
        self._store.replace({})
        self._synced.set()

    # --- list

    def _list(self) -> None:
        objects: dict[Key, T] = {}
        version, what = "", f"list {self.watched.plural}"
        query = self.watched.selectors()
        for page in read_pages(
            self._source, what, self.watched.path, query, size=self._config.page
        ):
            if self._stopping.is_set():
                return
            items = (self._decode(raw) for raw in page.items or ())
            objects.update((Key(item.namespace, item.name), item) for item in items if item)
            version = page.metadata.resource_version
        self._store.replace(objects)
        self._version, self._is_refused = version, False
        self._backoff.reset()
        self._note_contact()
        self._synced.set()

    def _decode(self, raw: msgspec.Raw) -> T | None:
        try:
            return decode_item(self.watched.decode, raw)
        except Malformed as error:
            _LOG.warning(
                "one of the %s cannot be decoded and is skipped: %s", self.watched.plural, error
            )
            return None

    # --- watch

    def _watch(self) -> float:
        """Follow changes until the watch ends; returns the seconds to pause before the next."""
        lasts = self._config.watch_seconds * self._random.uniform(1.0, 1.25)
        query = [
            *self.watched.selectors(),
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", self._version),
            ("timeoutSeconds", str(max(1, int(lasts)))),
        ]
        began = time.monotonic()
        what = f"watch {self.watched.plural}"
        with self._source.stream(
            what, self.watched.path, query, lasts + self._config.grace_seconds
        ) as response:
            self._response = response
            try:
                events = self._follow(what, response)
            finally:
                self._response = None
        return self._after_watch(events, time.monotonic() - began)

    def _after_watch(self, events: int, lasted_seconds: float) -> float:
        if events or lasted_seconds >= 1.0:
            self._backoff.reset()
            self._note_contact()
            return 0.0
        # A server or proxy that cuts every watch at once must not be asked a thousand times a
        # second.
        return self._fail(
            KubeError(
                ErrorKind.TRANSIENT,
                f"the API server ends each watch of {self.watched.plural} at once",
            )
        )

    def _follow(self, what: str, response: urllib3.BaseHTTPResponse) -> int:
        events = 0
        if self._stopping.is_set():
            return events
        self._note_contact()
        try:
            for line in lines(response):
                self._apply(what, line)
                events += 1
        except (urllib3.exceptions.HTTPError, OSError, AttributeError) as error:
            # AttributeError: the response was closed under the reader, by stop().
            raise classify(what, error) from error
        return events

    def _apply(self, what: str, line: bytes) -> None:
        try:
            event = decode_event(what, line)
        except Malformed:
            # Which object it was about is unknown: only a new list can show it.
            self._version = ""
            raise
        if event.type != "BOOKMARK":
            item = None if event.type == "DELETED" else self._decode(event.object)
            self._store.put(Key(event.identity.namespace, event.identity.name), item)
        self._version = event.identity.resource_version or self._version
        self._expirations = 0
        self._backoff.reset()
        self._note_contact()


def _interrupt(response: urllib3.BaseHTTPResponse) -> None:
    try:
        response.shutdown()
    except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError, RuntimeError):
        # It has just ended by itself, or its transport cannot be shut down: the thread then ends
        # with its watch.
        _LOG.debug("a watch could not be interrupted", exc_info=True)


def why_not_synced(reflectors: Iterable[Reflector[Any]]) -> str | None:
    """A sentence on the resources that were not listed yet, and why; ``None`` from the first whole
    lists on."""
    waiting = [reflector for reflector in reflectors if not reflector.synced]
    if not waiting:
        return None
    why = next((f" ({each.failure})" for each in waiting if each.failure is not None), "")
    return f"{', '.join(each.watched.plural for each in waiting)} not read yet{why}"
