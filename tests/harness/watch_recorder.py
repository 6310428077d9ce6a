"""Records every change of a collection of objects, in order, from a watch."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import urllib3

from tests.harness.api import Api, Json
from tests.harness.waiting import LONG_SECONDS, wait_until

_WATCH_SECONDS = 900


@dataclass(frozen=True)
class Change:
    """One event of the watch: ADDED, MODIFIED or DELETED, and the object as it was then."""

    type: str
    object: Json


class RecordedVersions:
    """The newest version of each object that a record has: a watch runs a moment behind a read."""

    def __init__(self) -> None:
        self._versions: dict[str, int] = {}
        self._deleted: set[str] = set()

    def note(self, event: Json) -> None:
        """Note an event of the watch that is in the record."""
        meta = event["object"]["metadata"]
        if event["type"] == "DELETED":
            self._deleted.add(meta["uid"])
            self._versions.pop(meta["uid"], None)
        else:
            self._versions[meta["uid"]] = int(meta["resourceVersion"])

    def has_all(self, listed: Json) -> bool:
        """Whether the record has all that a list shows, and that what it does not show is gone."""
        stored = {
            each["metadata"]["uid"]: int(each["metadata"]["resourceVersion"])
            for each in listed["items"]
        }
        is_shown = all(
            uid in self._deleted or self._versions.get(uid, -1) >= version
            for uid, version in stored.items()
        )
        listed_at = int(listed["metadata"]["resourceVersion"])
        return is_shown and all(
            uid in stored or version > listed_at for uid, version in list(self._versions.items())
        )


class WatchRecorder:
    """Records from entering to leaving the `with` block, in a thread of its own; begins with what
    is there already.

    `on_change` is called on that thread with each object as it has become, for what has to be done
    in that very instant. What it raises is raised again when the block is left.
    """

    def __init__(
        self,
        api: Api,
        path: str,
        on_change: Callable[[Json], None] = lambda _: None,
        seconds: int = _WATCH_SECONDS,
    ) -> None:
        self._api, self._path, self._on_change = api, path, on_change
        self._seconds = seconds
        self._thread = threading.Thread(target=self._record, name=f"recording {path}", daemon=True)
        self._response: urllib3.BaseHTTPResponse | None = None
        self._opened = threading.Event()
        self._fault: Exception | None = None
        self._recorded = RecordedVersions()
        self.changes: list[Change] = []
        self._last_at = time.monotonic()

    def __enter__(self) -> Self:
        """Open the watch; what happens from now on is recorded."""
        self._thread.start()
        assert self._opened.wait(LONG_SECONDS), f"the watch of {self._path} was not opened"
        return self

    def __exit__(self, *exc: object) -> None:
        """End the watch once it has shown all that is stored by now. Raises AssertionError where it
        had ended before: then the record has holes."""
        ended_early = not self._thread.is_alive()
        if exc[0] is None and not ended_early:
            self.catch_up()
        if isinstance(self._response, urllib3.HTTPResponse):
            with suppress(OSError):  # it has just ended by itself
                self._response.shutdown()
        self._thread.join(10)
        if exc[0] is None:
            assert not ended_early, f"the watch of {self._path} ended before its time"
            if self._fault is not None:
                raise self._fault

    def catch_up(self) -> None:
        """Wait until all that is stored now is in the record."""
        listed = self._api.get(self._path)
        wait_until(
            f"the watch of {self._path} has shown all that is stored",
            lambda: self._recorded.has_all(listed) or not self._thread.is_alive(),
        )

    @property
    def objects(self) -> list[Json]:
        """Return each object as it was after each of its changes."""
        return [
            change.object for change in list(self.changes) if change.type in ("ADDED", "MODIFIED")
        ]

    def of(self, name: str) -> list[Json]:
        """Return one object as it was after each of its changes."""
        return [each for each in self.objects if each["metadata"]["name"] == name]

    def quiet_seconds(self) -> float:
        """Return for how long nothing has happened."""
        return time.monotonic() - self._last_at

    def _record(self) -> None:
        with self._api.watch(self._path, self._seconds) as response:
            self._response = response
            self._opened.set()
            with suppress(
                urllib3.exceptions.HTTPError, OSError, ValueError
            ):  # what a shut-down stream ends with
                for line in lines_of(response):
                    self._take(json.loads(line))

    def _take(self, event: Json) -> None:
        if event["type"] not in ("ADDED", "MODIFIED", "DELETED"):
            return
        self.changes.append(Change(event["type"], event["object"]))
        self._last_at = time.monotonic()
        if event["type"] != "DELETED":
            try:
                self._on_change(event["object"])
            except Exception as error:  # noqa: BLE001 -- raised again on the test's own thread
                self._fault = self._fault or error
        self._recorded.note(event)


def lines_of(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """Yield the whole lines of a stream as they come; a last one without an end is dropped."""
    rest = b""
    for piece in response.stream():
        *lines, rest = (rest + piece).split(b"\n")
        yield from filter(None, lines)
