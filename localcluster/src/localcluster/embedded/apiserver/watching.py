"""Watches: what a watcher is sent of the log, and when.

A watcher holds a version. Woken by a change of its kind it reads the log from there, sends in one
piece what its selection shows of it, and waits a few milliseconds before the next look: under load
many changes go out together, and all watchers without selectors send the same bytes.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

import msgspec

from localcluster.embedded.apiserver.kinds import Json, Resource
from localcluster.embedded.apiserver.options import flag, number, options_refusal
from localcluster.embedded.apiserver.refusals import (
    Problem,
    Refusal,
    expired,
    forbidden_field,
    unsupported,
)
from localcluster.embedded.apiserver.selectors import Selection
from localcluster.embedded.apiserver.store import (
    Change,
    Expired,
    Store,
    Stored,
    encoded,
    event_line,
)

GATHER_SECONDS: Final = 0.005
"""How long a watcher gathers changes after it has sent some."""
_BOOKMARK_SECONDS: Final = 60.0
_LAST_BOOKMARK_SECONDS: Final = 2.0
"""How long before a watch's time is over its last bookmark comes, as in the real server."""
_LONGEST_SECONDS: Final = (1800.0, 3600.0)
"""How long a watch lasts that names no time: the real server draws between these, too."""
LATEST: Final = -1
"""A version to begin at: whatever is the latest when the watch begins."""
_MATCH: Final = "resourceVersionMatch"
_INITIAL_END: Final = {"annotations": {"k8s.io/initial-events-end": "true"}}


@dataclass(frozen=True)
class WatchQuery:
    """What a watch asks for besides its selection.

    `since` is None to begin with what there is now, LATEST to begin after that.
    """

    since: int | None = None
    seconds: float | None = None
    bookmarks: bool = False
    initial_end: bool = False


@dataclass(frozen=True)
class WatchRequest:
    """One watch. `shown` turns an object into what is sent of it; None sends its bytes as they
    are."""

    resource: Resource
    selection: Selection
    query: WatchQuery
    shown: Callable[[Json], bytes] | None = None

    def line(self, kind: str, item: Stored) -> bytes:
        """Return the line of one event."""
        return event_line(kind, self.shown(item.body) if self.shown else item.raw)


def parse_watch(query: Mapping[str, str]) -> WatchQuery:
    """Read the parameters of a watch. Raises Refusal."""
    problems = list(_watch_problems(query))
    if problems:
        raise options_refusal("ListOptions", problems)
    version = query.get("resourceVersion") or "0"
    if not (version.isascii() and version.isdecimal()):
        said = f'Invalid value: "{version}": strconv.ParseUint: parsing "{version}": invalid syntax'
        raise Refusal(500, "", f"resourceVersion: {said}")
    asked, bookmarks = query.get("sendInitialEvents"), flag(query, "allowWatchBookmarks")
    initial = flag(query, "sendInitialEvents")
    since = None if initial else int(version) or (None if asked is None else LATEST)
    return WatchQuery(
        since, number(query, "timeoutSeconds") or None, bookmarks, initial and bookmarks
    )


def _watch_problems(query: Mapping[str, str]) -> Iterator[Problem]:
    match, asked = query.get(_MATCH, ""), "sendInitialEvents" in query
    if asked and not match:
        yield forbidden_field(
            _MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        )
    elif match and not asked:
        yield forbidden_field(
            _MATCH,
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        )
    if match not in {"", "NotOlderThan"}:
        yield unsupported(_MATCH, match, ["NotOlderThan"])


class Waker:
    """Something that a watcher waits for, and that others set off."""

    def __init__(self) -> None:
        self._waiting: asyncio.Future[None] | None = None
        self._woken = False

    def wake(self) -> None:
        """End the present wait, or the next one."""
        self._woken = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def wait(self, until: float) -> None:
        """Wait until woken, or until an instant of the loop's clock."""
        if not self._woken:
            loop = asyncio.get_running_loop()
            self._waiting = loop.create_future()
            timer = loop.call_at(until, self.wake)
            try:
                await self._waiting
            finally:
                timer.cancel()
                self._waiting = None
        self._woken = False


class Watches:
    """All watches of a store."""

    def __init__(self, store: Store, random: Random) -> None:
        self._store = store
        self._random = random
        self._wakers: dict[str, set[Waker]] = {}
        self._ended = False
        store.listen(self._saw)

    def end(self) -> None:
        """End every watch: the server stops."""
        self._ended = True
        for wakers in self._wakers.values():
            for waker in wakers:
                waker.wake()

    async def events(
        self, request: WatchRequest, gone: Callable[[], bool], waker: Waker
    ) -> AsyncGenerator[bytes, None]:
        """Yield what the watcher is sent, until its time is over or `gone` says that nobody
        listens.

        Whoever makes `gone` true wakes the waker.
        """
        wakers = self._wakers.setdefault(request.resource.store_key, set())
        wakers.add(waker)
        try:
            async for piece in self._follow(request, gone, waker):
                yield piece
        except Expired as error:
            yield _error(
                expired(f"too old resource version: {request.query.since} ({error.oldest})")
            )
        finally:
            wakers.discard(waker)

    async def _follow(
        self, request: WatchRequest, gone: Callable[[], bool], waker: Waker
    ) -> AsyncGenerator[bytes, None]:
        clock = asyncio.get_running_loop().time
        query = request.query
        deadline = clock() + (query.seconds or self._random.uniform(*_LONGEST_SECONDS))
        bookmark_at = next_bookmark(clock(), deadline)
        position = self._store.version if query.since in {None, LATEST} else query.since or 0
        if query.since is None:
            yield self._initial(request)
        while not gone() and not self._ended and clock() < deadline:
            changes = self._store.since(request.resource.store_key, position)
            position = max(position, self._store.version)
            piece = b"".join(_shown(changes, request))
            if query.bookmarks and clock() >= bookmark_at:
                bookmark_at = next_bookmark(clock(), deadline)
                piece += bookmark(request, position)
            if piece:
                yield piece
                await asyncio.sleep(GATHER_SECONDS)
            await waker.wait(min(deadline, bookmark_at))

    def _initial(self, request: WatchRequest) -> bytes:
        items = self._store.items(request.resource.store_key, request.selection.namespace)
        shown = b"".join(
            request.line("ADDED", each) for each in items if request.selection.matches(each.body)
        )
        return shown + (
            bookmark(request, self._store.version, _INITIAL_END)
            if request.query.initial_end
            else b""
        )

    def _saw(self, kind: str, _change: Change) -> None:
        for waker in self._wakers.get(kind, ()):
            waker.wake()


def next_bookmark(now: float, deadline: float) -> float:
    """Return when the next bookmark is due, in seconds of the same clock: in a minute, or shortly
    before the end."""
    last = deadline - _LAST_BOOKMARK_SECONDS
    return min(now + _BOOKMARK_SECONDS, last) if last > now else now + _BOOKMARK_SECONDS


def _shown(changes: Sequence[Change], request: WatchRequest) -> Iterator[bytes]:
    selection = request.selection
    for change in changes:
        if selection.namespace and change.name[0] != selection.namespace:
            continue
        if selection.everything and request.shown is None:
            yield change.event
        elif found := selected_event(change, selection):
            yield request.line(*found)


def selected_event(change: Change, selection: Selection) -> tuple[str, Stored] | None:
    """Return a change as a watcher with selectors sees it: what leaves its selection is DELETED for
    it."""
    was = change.before is not None and selection.matches(change.before.body)
    now = not change.gone and selection.matches(change.now.body)
    if now:
        return "MODIFIED" if was else "ADDED", change.now
    if was and change.before is not None:
        return "DELETED", encoded(change.before.body, change.version)
    return None


def bookmark(request: WatchRequest, version: int, more: Json | None = None) -> bytes:
    """Return the line that only says how far the watcher has come."""
    metadata = {"resourceVersion": str(version), **(more or {})}
    body = {
        "kind": request.resource.kind,
        "apiVersion": request.resource.api_version,
        "metadata": metadata,
    }
    return request.line("BOOKMARK", Stored(body, msgspec.json.encode(body), version))


def _error(refusal: Refusal) -> bytes:
    return event_line("ERROR", msgspec.json.encode(refusal.status))
