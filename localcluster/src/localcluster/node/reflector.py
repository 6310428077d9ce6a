"""List and watch: tells a handler about every pod of the API server, again from a list when a watch
is lost."""

import logging
import random
import threading
from collections.abc import Iterator
from typing import Any, Protocol

from localcluster.node.api import ApiError

_LOG = logging.getLogger(__name__)
_PATH = "/api/v1/pods"
_PAGE = 500
_WATCH_SECONDS = 240
_LONGEST_PAUSE_SECONDS = 10.0


class PodHandler(Protocol):
    """Who is told about pods. Calls come from one thread, in the order of the API server."""

    def seen(self, pod: dict[str, Any]) -> None:
        """A pod exists and looks like this."""
        ...

    def gone(self, pod: dict[str, Any]) -> None:
        """A pod does not exist any more; this is the last that was known of it."""
        ...


class Lister(Protocol):
    """The two calls that a reflector makes."""

    def get(self, path: str) -> dict[str, Any]:
        """Read a list."""
        ...

    def watch(self, path: str, resource_version: str, seconds: int) -> Iterator[dict[str, Any]]:
        """Yield the events of a watch."""
        ...


class Reflector:
    """Follows all pods, bound or not, until told to stop."""

    def __init__(self, api: Lister, handler: PodHandler) -> None:
        """Tell `handler` what `api` has."""
        self._api = api
        self._handler = handler
        self._known: dict[str, dict[str, Any]] = {}
        self._stop = threading.Event()

    def stop(self) -> None:
        """Make `run` return before its next call."""
        self._stop.set()

    def run(self) -> None:
        """List and watch for ever, with growing pauses while the API server cannot be reached."""
        pause = 0.5
        while not self._stop.is_set():
            try:
                version = self.relist()
                pause = 0.5
                self._follow(version)
            except ApiError as error:
                _LOG.warning("pods cannot be watched, next try in about %.1f s: %s", pause, error)
                self._stop.wait(pause * random.uniform(0.7, 1.3))
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def relist(self) -> str:
        """Read all pods, tell what is gone and then what is there; return the list's resource
        version."""
        found: dict[str, dict[str, Any]] = {}
        query, version = f"?limit={_PAGE}", ""
        while query:
            page = self._api.get(_PATH + query)
            found.update((item["metadata"]["uid"], item) for item in page.get("items") or ())
            version = page["metadata"]["resourceVersion"]
            more = page["metadata"].get("continue")
            query = f"?limit={_PAGE}&continue={more}" if more else ""
        for uid in [uid for uid in self._known if uid not in found]:
            self._handler.gone(self._known.pop(uid))
        for pod in sorted(
            found.values(), key=lambda pod: str(pod["metadata"].get("creationTimestamp"))
        ):
            self._seen(pod)
        return version

    def _follow(self, version: str) -> None:
        """Watch from a version on, again and again, until the server no longer has it."""
        while not self._stop.is_set():
            for event in self._api.watch(_PATH, version, _WATCH_SECONDS):
                if event["type"] == "ERROR":
                    _LOG.info(
                        "the watch of pods has expired, listing again: %s",
                        event["object"].get("message"),
                    )
                    return
                version = event["object"]["metadata"]["resourceVersion"]
                self._apply(event["type"], event["object"])

    def _apply(self, kind: str, pod: dict[str, Any]) -> None:
        if kind == "DELETED":
            self._known.pop(pod["metadata"]["uid"], None)
            self._handler.gone(pod)
        elif kind in {"ADDED", "MODIFIED"}:
            self._seen(pod)

    def _seen(self, pod: dict[str, Any]) -> None:
        pod["metadata"].pop("managedFields", None)
        self._known[pod["metadata"]["uid"]] = pod
        self._handler.seen(pod)
