"""Watches: which events a watcher is sent, and when.

A watcher holds a version. Woken by a change of its kind it reads the log from there, sends in one
piece what its selection shows of it, and gathers for a few milliseconds before the next look: under
load many changes go out together, and all watchers without selectors share the same bytes."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

import msgspec

from localcluster.embedded.apiserver.errors import StatusError, expired
from localcluster.embedded.apiserver.kinds import Resource
from localcluster.embedded.apiserver.selectors import Selection
from localcluster.embedded.apiserver.store import (
    Change,
    Expired,
    Store,
    Stored,
    encoded,
    event_line,
)
from localcluster.embedded.apiserver.wire import number, version_number

GATHER_SECONDS: Final = 0.005
"""How long a watcher gathers changes after it has sent some."""
_DEFAULT_SECONDS: Final = (1800.0, 3600.0)
"""A watch without a time limit ends at random between these, as in the real server."""


@dataclass(frozen=True)
class WatchQuery:
    """The options of a watch besides its selection.

    `since` is None to begin with the objects that there are."""

    since: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class WatchRequest:
    """One watch."""

    resource: Resource
    selection: Selection
    query: WatchQuery


def parse_watch(query: Mapping[str, str]) -> WatchQuery:
    """Read the options of a watch. Raises StatusError, also for a list that is sent as a watch:
    Kubernetes' clients then list first, as with a server that cannot do so."""
    if "sendInitialEvents" in query:
        why = "is forbidden for watch unless the WatchList feature gate is enabled"
        raise StatusError(422, "Invalid", f"sendInitialEvents {why}")
    seconds = number(query, "timeoutSeconds") or None
    return WatchQuery(version_number(query) or None, seconds)


class Watches:
    """All watches of a store."""

    def __init__(self, store: Store, random: Random) -> None:
        self._store = store
        self._random = random
        self._wakeups: dict[str, set[asyncio.Event]] = {}
        self._closed = False
        store.subscribe(self._wake)

    def close(self) -> None:
        """End every watch: the server stops."""
        self._closed = True
        for wakeups in self._wakeups.values():
            for wakeup in wakeups:
                wakeup.set()

    async def events(
        self, request: WatchRequest, disconnected: Callable[[], bool], wakeup: asyncio.Event
    ) -> AsyncGenerator[bytes, None]:
        """Yield what the watcher is sent until its time is over or it has `disconnected`.

        Code that makes `disconnected` true sets `wakeup`."""
        wakeups = self._wakeups.setdefault(request.resource.store_key, set())
        wakeups.add(wakeup)
        try:
            async for piece in self._follow(request, disconnected, wakeup):
                yield piece
        except Expired as error:
            message = f"too old resource version: {request.query.since} ({error.oldest})"
            yield event_line("ERROR", msgspec.json.encode(expired(message).status))
        finally:
            wakeups.discard(wakeup)

    async def _follow(
        self, request: WatchRequest, disconnected: Callable[[], bool], wakeup: asyncio.Event
    ) -> AsyncGenerator[bytes, None]:
        clock = asyncio.get_running_loop().time
        query, key = request.query, request.resource.store_key
        deadline = clock() + (query.seconds or self._random.uniform(*_DEFAULT_SECONDS))
        position = self._store.version if query.since is None else query.since
        if query.since is None:
            yield self._initial_events(request)
        while not disconnected() and not self._closed and clock() < deadline:
            wakeup.clear()
            changes = self._store.since(key, position)
            position = max(position, self._store.version)
            piece = b"".join(_events(changes, request.selection))
            if piece:
                yield piece
                await asyncio.sleep(GATHER_SECONDS)
            await _wait(wakeup, deadline)

    def _initial_events(self, request: WatchRequest) -> bytes:
        items = self._store.items(request.resource.store_key, request.selection.namespace)
        matching = (each for each in items if request.selection.matches(each.body))
        return b"".join(event_line("ADDED", each.raw) for each in matching)

    def _wake(self, kind: str, _change: Change) -> None:
        for wakeup in self._wakeups.get(kind, ()):
            wakeup.set()


async def _wait(wakeup: asyncio.Event, until: float) -> None:
    try:
        async with asyncio.timeout_at(until):
            await wakeup.wait()
    except TimeoutError:
        return


def _events(changes: Sequence[Change], selection: Selection) -> Iterator[bytes]:
    for change in changes:
        if selection.namespace and change.name[0] != selection.namespace:
            continue
        if selection.everything:
            yield change.event
        elif found := selected_event(change, selection):
            kind, item = found
            yield event_line(kind, item.raw)


def selected_event(change: Change, selection: Selection) -> tuple[str, Stored] | None:
    """Return a change as a selection shows it: an object that leaves it is DELETED."""
    was = change.before is not None and selection.matches(change.before.body)
    now = not change.gone and selection.matches(change.now.body)
    if now:
        return "MODIFIED" if was else "ADDED", change.now
    if was and change.before is not None:
        return "DELETED", encoded(change.before.body, change.version)
    return None
