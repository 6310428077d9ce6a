"""Events on pods, written in the background; equal ones are counted, and a flood is dropped."""

import hashlib
import logging
import queue
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from cachetools import LRUCache

from localcluster.node.api import ApiError, object_path
from localcluster.node.status import format_time

_LOG = logging.getLogger(__name__)
_WAITING_AT_MOST = 500


class Calls(Protocol):
    """The calls with which events are written."""

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create an object."""
        ...

    def merge(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Change an object."""
        ...


class EventRecorder(threading.Thread):
    """Writes Events of the agent's nodes, one at a time; losing one is no harm."""

    def __init__(self, api: Calls) -> None:
        """Write to this API server."""
        super().__init__(name="events", daemon=True)
        self._api = api
        self._queue: queue.Queue[tuple[Mapping[str, Any], str, str, str]] = queue.Queue(
            _WAITING_AT_MOST
        )
        self._counts: LRUCache[str, int] = LRUCache(maxsize=2000)

    def tell(self, pod: Mapping[str, Any], kind: str, reason: str, message: str) -> None:
        """Record an Event (`kind` is Normal or Warning) on a pod; dropped when too many wait."""
        try:
            self._queue.put_nowait((pod, kind, reason, message))
        except queue.Full:
            _LOG.info("an event is dropped, too many wait: %s", message)

    def run(self) -> None:
        """Write events for ever."""
        while True:
            pod, kind, reason, message = self._queue.get()
            try:
                self._write(pod, kind, reason, message)
            except ApiError as error:
                # A namespace that is being deleted takes no new events; nobody misses them.
                _LOG.info("an event is not written: %s", error)

    def _write(self, pod: Mapping[str, Any], kind: str, reason: str, message: str) -> None:
        meta = pod["metadata"]
        digest = hashlib.sha256("\0".join((meta["uid"], reason, message)).encode()).hexdigest()[:16]
        name, now = f"{meta['name']}.{digest}", format_time(datetime.now(UTC))
        count = self._counts.get(name, 0) + 1
        self._counts[name] = count
        path = object_path("events", meta["namespace"])
        if count > 1:
            self._api.merge(f"{path}/{name}", {"count": count, "lastTimestamp": now})
            return
        source = {"component": "kubelet", "host": pod["spec"].get("nodeName") or ""}
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": meta["namespace"]},
            "involvedObject": _reference(meta),
            "type": kind,
            "reason": reason,
            "message": message[:1024],
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": source,
        }
        self._api.create(path, body)


def _reference(meta: Mapping[str, Any]) -> dict[str, str]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": meta["name"],
        "namespace": meta["namespace"],
        "uid": meta["uid"],
    }
