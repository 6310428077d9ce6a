"""A replayed watch equals a list, whatever it selects and wherever it began."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localcluster.embedded.apiserver.errors import StatusError
from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.selectors import Selection, parse_labels
from localcluster.embedded.apiserver.store import event_line
from localcluster.embedded.apiserver.watches import (
    Watches,
    WatchQuery,
    WatchRequest,
    parse_watch,
    selected_event,
)
from tests.unit.embedded.api_server import ApiServer, config_map

CHANGES = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["0", "1", None])), max_size=12
)


def write(server: ApiServer, name: str, label: str | None) -> None:
    """Make an object, give it another label, or (None) delete it."""
    if label is None:
        if server.get("configmaps", name):
            server.objects.delete(server.target("configmaps", name))
    elif server.get("configmaps", name):
        target = server.target("configmaps", name)
        metadata = {"labels": {"on": label}}
        server.objects.change(
            target, lambda old: {**old, "metadata": {**old["metadata"], **metadata}}
        )
    else:
        server.create("configmaps", config_map(name, labels={"on": label}))


def replayed(lines: list[bytes], known: set[str]) -> set[str]:
    """The names that a watcher has after these events; each must fit what it knew."""
    for line in filter(None, lines):
        event = msgspec.json.decode(line)
        name = event["object"]["metadata"]["name"]
        assert (event["type"] == "ADDED") == (name not in known)
        known = known - {name} if event["type"] == "DELETED" else known | {name}
    return known


@given(CHANGES, CHANGES)
def test_events_of_a_selection_lead_from_its_list_to_its_list(
    before: list[tuple[str, str | None]], after: list[tuple[str, str | None]]
) -> None:
    server, selection = ApiServer(), Selection(parse_labels("on=1"), (), "ns")
    for name, label in before:
        write(server, name, label)

    def chosen() -> set[str]:
        return {
            each.name[1]
            for each in server.store.items("configmaps", "ns")
            if selection.matches(each.body)
        }

    known, version = chosen(), server.store.version
    for name, label in after:
        write(server, name, label)
    events = [
        selected_event(change, selection) for change in server.store.since("configmaps", version)
    ]
    lines = [event_line(kind, item.raw) for kind, item in filter(None, events)]
    assert replayed(lines, known) == chosen()


class Watcher:
    """A watch of config maps, read in steps."""

    def __init__(
        self, server: ApiServer, query: WatchQuery, selection: Selection | None = None
    ) -> None:
        self.wakeup, self.left = asyncio.Event(), False
        self.watches = Watches(server.store, Random(1))
        request = WatchRequest(
            server.resource("configmaps"), selection or Selection(namespace="ns"), query
        )
        self._pieces = self.watches.events(request, lambda: self.left, self.wakeup)
        self.seen: list[Json] = []

    async def read(self) -> list[str]:
        """The next piece, as words; nothing when the watch has ended."""
        try:
            piece = await asyncio.wait_for(anext(self._pieces), 5)
        except StopAsyncIteration:
            return []
        events = [msgspec.json.decode(line) for line in piece.splitlines()]
        self.seen += events
        return [
            f"{each['type']} {each['object']['metadata'].get('name', '')}".strip()
            for each in events
        ]


def run(scenario: Callable[[ApiServer], Awaitable[Any]]) -> None:
    asyncio.run(scenario(ApiServer()))  # type: ignore[arg-type]  # every scenario is a coroutine


def test_a_watch_ends_with_its_time_its_reader_or_the_server() -> None:
    async def scenario(server: ApiServer) -> None:
        assert await Watcher(server, WatchQuery(server.store.version, seconds=0.01)).read() == []
        for end in ("reader", "server"):
            watcher = Watcher(server, WatchQuery(server.store.version))
            reading = asyncio.ensure_future(watcher.read())
            await asyncio.sleep(0.02)
            if end == "reader":
                watcher.left = True
                watcher.wakeup.set()
            else:
                watcher.watches.close()
            assert await reading == []

    run(scenario)


def test_simultaneous_changes_come_in_one_piece() -> None:
    async def scenario(server: ApiServer) -> None:
        watcher = Watcher(server, WatchQuery(server.store.version))
        reading = asyncio.ensure_future(watcher.read())
        await asyncio.sleep(0.02)
        for name in "abc":
            write(server, name, "0")
        assert await reading == ["ADDED a", "ADDED b", "ADDED c"]

    run(scenario)


def test_a_list_is_not_sent_as_a_watch() -> None:
    with pytest.raises(StatusError, match="sendInitialEvents is forbidden") as refused:
        parse_watch({"sendInitialEvents": "true", "allowWatchBookmarks": "true"})
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")
