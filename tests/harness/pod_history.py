"""Everything that happened to the pods of a namespace, in order: read from a watch, so that no
instant is missed."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import urllib3

from tests.harness.api import CORE, Api, Json, in_namespace

_WATCH_SECONDS = 300
_JOB = "training.kubeflow.org/job-name"


@dataclass(frozen=True)
class Change:
    """One event of the watch: ADDED, MODIFIED or DELETED, and the pod as it was then."""

    type: str
    pod: Json


class PodHistory:
    """Records from entering to leaving the `with` block, in a thread of its own.

    `on_change` is called on that thread after each change, for what has to be done in that very
    instant."""

    def __init__(
        self, api: Api, namespace: str, on_change: Callable[[Change], None] = lambda _: None
    ) -> None:
        self._on_change = on_change
        self._api, self._path = api, in_namespace(CORE, namespace, "pods")
        self._thread = threading.Thread(target=self._record, name="pod-history", daemon=True)
        self._response: urllib3.BaseHTTPResponse | None = None
        self._opened = threading.Event()
        self._end = ""
        self.changes: list[Change] = []
        self._last_at = time.monotonic()

    def __enter__(self) -> Self:
        """Open the watch; what happens from now on is recorded."""
        self._thread.start()
        assert self._opened.wait(30), "the watch of pods was not opened"
        return self

    def __exit__(self, *exc: object) -> None:
        """End the watch. Raises AssertionError where it had ended before: then the record has
        holes."""
        early = None if self._thread.is_alive() else self._end
        if isinstance(self._response, urllib3.HTTPResponse):
            with suppress(OSError):  # it has just ended by itself
                self._response.shutdown()
        self._thread.join(10)
        assert early is None, f"the watch of pods ended before its time: {early}"

    def _record(self) -> None:
        try:
            with self._api.watch(self._path, _WATCH_SECONDS) as response:
                self._response = response
                self._opened.set()
                for line in _lines(response):
                    self._take(json.loads(line))
            self._end = "the server closed it"
        except (
            urllib3.exceptions.HTTPError,
            OSError,
            ValueError,
        ) as error:  # what a shut-down stream ends with
            self._end = repr(error)

    def _take(self, event: Json) -> None:
        change = Change(event["type"], event["object"])
        self.changes.append(change)
        self._last_at = time.monotonic()
        self._on_change(change)

    def bound_at_each_instant(self) -> list[dict[str, frozenset[str]]]:
        """Return, after each change, which pods of each job lay on a node then (job name to pod
        names)."""
        bound: dict[str, dict[str, str]] = {}
        instants: list[dict[str, frozenset[str]]] = []
        for change in list(self.changes):
            meta = change.pod["metadata"]
            job = (meta.get("labels") or {}).get(_JOB, "")
            pods = bound.setdefault(job, {})
            if change.type == "DELETED" or not change.pod["spec"].get("nodeName"):
                pods.pop(meta["uid"], None)
            else:
                pods[meta["uid"]] = meta["name"]
            instants.append(
                {name: frozenset(found.values()) for name, found in bound.items() if found}
            )
        return instants

    def bound_now(self) -> dict[str, frozenset[str]]:
        """Return which pods of each job lie on a node after the last change."""
        return (self.bound_at_each_instant() or [{}])[-1]

    def refusals(self) -> dict[str, set[str]]:
        """Return, for each pod, every sentence with which kube-scheduler left it without a node, at
        any instant."""
        said: dict[str, set[str]] = {}
        for change in list(self.changes):
            for each in change.pod["status"].get("conditions") or ():
                if each["type"] == "PodScheduled" and each["status"] == "False":
                    said.setdefault(change.pod["metadata"]["name"], set()).add(each["message"])
        return said

    def nominations(self) -> dict[str, tuple[str, str]]:
        """Return, for each pod that was nominated, the node it was last nominated to and the one it
        was bound to."""
        nominated: dict[str, str] = {}
        bound: dict[str, str] = {}
        for change in list(self.changes):
            name = change.pod["metadata"]["name"]
            nominated[name] = change.pod["status"].get("nominatedNodeName") or nominated.get(
                name, ""
            )
            bound[name] = change.pod["spec"].get("nodeName") or ""
        return {name: (node, bound[name]) for name, node in nominated.items() if node}

    def quiet_seconds(self) -> float:
        """Return for how long nothing has happened."""
        return time.monotonic() - self._last_at

    def ever(self, true: Callable[[dict[str, frozenset[str]]], bool]) -> bool:
        """Whether something was true of the bound pods at any instant."""
        return any(true(instant) for instant in self.bound_at_each_instant())


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    for piece in response.stream():
        *lines, rest = (rest + piece).split(b"\n")
        yield from filter(None, lines)
