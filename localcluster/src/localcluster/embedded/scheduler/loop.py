"""The scheduler's loop over the pods that wait: the highest priority first, then the longest wait.

A pod that was refused is tried again when a node has changed in what scheduling looks at, a pod was
bound or has gone, or the pod itself has changed; one whose attempt failed, a second later. A pod
that was bound a moment ago counts as bound, whatever the watches still say."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from random import Random
from typing import Any, Final, TypeAlias

from localcluster.api_calls import STRATEGIC_PATCH, ApiCalls, object_path
from localcluster.embedded.raw_objects import Json, RawObject, raw_objects
from localcluster.embedded.scheduler.configuration import Configuration
from localcluster.embedded.scheduler.extenders import ExtenderFailed, HttpExtender
from localcluster.embedded.scheduler.placing import NodeState, UnschedulableError, place
from optimus.kube.client import Client
from optimus.kube.errors import ErrorKind, KubeError
from optimus.kube.events import EventType, EventWriter
from optimus.kube.reflector import Reflector, ReflectorConfig
from optimus.kube.times import format_second

_LOG = logging.getLogger(__name__)
_NOT_ENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"
_GONE: Final = (ErrorKind.NOT_FOUND, ErrorKind.CONFLICT, ErrorKind.INVALID)
"""A write failed because the pod is gone, bound or another one."""
RETRY_SECONDS: Final = 1.0
"""After an attempt that failed by an error: the first step of kube-scheduler's back-off."""
SETTLING_SECONDS: Final = 0.01
"""A new pod is tried so much later: nodes that were made before it have to be known then, and the
embedded API server gathers what it sends."""
FLUSH_SECONDS: Final = 300.0
"""A refused pod is tried again then, changes or not."""

_Change: TypeAlias = tuple[str, RawObject | None, RawObject | None]


@dataclass
class _Waiting:
    """A pod without a node: since when, when it is tried at the latest, whether changes wake it."""

    since: float
    at: float
    wakes: bool = False


class Scheduler:
    """Schedules while `may_work` says so; `run` returns after `stop`."""

    def __init__(
        self,
        client: Client,
        configuration: Configuration,
        *,
        may_work: Callable[[], bool] = lambda: True,
        rules: ReflectorConfig | None = None,
        random: Random | None = None,
    ) -> None:
        self._client, self._api, self._may_work = client, ApiCalls(client), may_work
        self._names = configuration.scheduler_names
        self._extenders = [HttpExtender(each) for each in configuration.extenders]
        self._random = random or Random()
        self._nodes: dict[str, Json] = {}
        self._pods: dict[str, Json] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._assumed: dict[str, str] = {}
        self._events: dict[str, EventWriter] = {}
        self._inbox: SimpleQueue[_Change | None] = SimpleQueue()
        self._stopping = threading.Event()
        kinds = (
            raw_objects("", "v1", "pods", "Pod", field_selector=_NOT_ENDED),
            raw_objects("", "v1", "nodes", "Node"),
        )
        self._copies = [
            Reflector(client, kind, config=rules, observer=self._observer(kind.plural))
            for kind in kinds
        ]

    @property
    def ready(self) -> bool:
        """Whether pods and nodes have been read once."""
        return all(copy.synced for copy in self._copies)

    def stop(self) -> None:
        """Make `run` return."""
        self._stopping.set()
        self._inbox.put(None)

    def run(self) -> None:
        """Schedule until stopped."""
        for copy in self._copies:
            copy.start()
        while not self._stopping.is_set():
            now = time.monotonic()
            uid = self._next(now) if self.ready and self._may_work() else None
            if uid is not None:
                self._try(uid, now)
            soonest = min((each.at - now for each in self._waiting.values()), default=1.0)
            self._take_changes(0.0 if uid is not None else max(0.001, min(1.0, soonest)))
        for copy in self._copies:
            copy.stop()

    # --- changes

    def _observer(self, plural: str) -> Callable[[RawObject | None, RawObject | None], None]:
        return lambda before, after: self._inbox.put((plural, before, after))

    def _take_changes(self, wait_seconds: float) -> None:
        """Take all changes that have come in; wait for the first of them."""
        try:
            change = self._inbox.get(timeout=wait_seconds) if wait_seconds else None
            while True:
                if change is not None:
                    plural, before, after = change
                    took = self._node_changed if plural == "nodes" else self._pod_changed
                    took(before.body if before else None, after.body if after else None)
                change = self._inbox.get_nowait()
        except Empty:
            return

    def _node_changed(self, before: Json | None, after: Json | None) -> None:
        if after is not None:
            self._nodes[after["metadata"]["name"]] = after
        elif before is not None:
            self._nodes.pop(before["metadata"]["name"], None)
        if before is None or after is None or _of_node(before) != _of_node(after):
            self._wake()

    def _pod_changed(self, before: Json | None, after: Json | None) -> None:
        if before and (after is None or after["metadata"]["uid"] != before["metadata"]["uid"]):
            uid = before["metadata"]["uid"]
            held = node_of(before) or self._assumed.pop(uid, "") or nominated_node_of(before)
            self._pods.pop(uid, None)
            self._waiting.pop(uid, None)
            before = None
            if held:
                self._wake()
        if after is None:
            return
        uid = after["metadata"]["uid"]
        if not node_of(after) and uid in self._assumed:
            after = _bound(after, self._assumed[uid])
        self._pods[uid] = after
        if node_of(after) or after["metadata"].get("deletionTimestamp"):
            self._assumed.pop(uid, None)
            self._waiting.pop(uid, None)
            self._wake()
        elif after["spec"].get("schedulerName") in self._names:
            self._pod_waits(uid, before, after)

    def _pod_waits(self, uid: str, before: Json | None, pod: Json) -> None:
        if pod["spec"].get("schedulingGates"):
            return
        now = time.monotonic()
        if uid not in self._waiting:
            self._waiting[uid] = _Waiting(now, now + SETTLING_SECONDS)
        elif before is not None and _of_pod(before) != _of_pod(pod):
            self._wake(uid)

    def _wake(self, *uids: str) -> None:
        for uid in uids or self._waiting:
            if self._waiting[uid].wakes:
                self._waiting[uid].at = 0.0

    # --- attempts

    def _next(self, now: float) -> str | None:
        due = (
            (-_priority(self._pods[uid]), each.since, uid)
            for uid, each in self._waiting.items()
            if each.at <= now
        )
        return min(due, default=(0, 0.0, None))[2]

    def _try(self, uid: str, now: float) -> None:
        pod, waiting = self._pods[uid], self._waiting[uid]
        waiting.since, waiting.at, waiting.wakes = now, now + FLUSH_SECONDS, True
        node, failure = "", ""
        try:
            node = place(pod, self._snapshot(pod), self._extenders, self._random)
        except UnschedulableError as refused:
            # What happened during the attempt counts for it: it wakes the pod again.
            self._take_changes(0.0)
            self._refuse(uid, "Unschedulable", str(refused))
        except ExtenderFailed as error:
            failure = str(error)
        except Exception as error:  # noqa: BLE001 -- one bad pod must not stop the others
            _LOG.exception("%s cannot be tried", pod["metadata"]["name"])
            failure = f"{type(error).__name__}: {error}"
        if node:
            self._take_changes(0.0)
            failure = self._bind(uid, pod, node) if uid in self._waiting else ""
        if failure and uid in self._waiting:
            waiting.at, waiting.wakes = now + RETRY_SECONDS, False
            self._refuse(uid, "SchedulerError", failure)

    def _snapshot(self, pod: Json) -> Mapping[str, NodeState]:
        """Return every node with its pods and with nominated pods of no lower priority."""
        states = {name: NodeState(node) for name, node in self._nodes.items()}
        for uid, other in self._pods.items():
            counts = uid in self._waiting and other is not pod
            if node_of(other) in states:
                states[node_of(other)].pods.append(other)
            elif counts and _priority(other) >= _priority(pod):
                nominated = states.get(nominated_node_of(other))
                (nominated.nominated if nominated else []).append(other)
        return states

    # --- writes

    def _bind(self, uid: str, pod: Json, node: str) -> str:
        """Bind a pod; return why that failed, "" where it did not."""
        metadata = pod["metadata"]
        name, namespace = metadata["name"], metadata["namespace"]
        body = {
            "metadata": {"name": name, "namespace": namespace, "uid": metadata["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        self._assumed[uid], self._pods[uid] = node, _bound(pod, node)
        try:
            self._api.create(object_path("pods", namespace, name, "binding"), body)
        except KubeError as error:
            del self._assumed[uid]
            self._pods[uid] = pod
            return f"binding rejected: {error}"
        del self._waiting[uid]
        message = f"Successfully assigned {namespace}/{name} to {node}"
        self._emit(pod, EventType.NORMAL, "Scheduled", message)
        return ""

    def _refuse(self, uid: str, reason: str, message: str) -> None:
        """Write why a pod has no node, unless its status says so; it loses its nomination."""
        if uid not in self._waiting:
            return
        pod = self._pods[uid]
        metadata, now = pod["metadata"], format_second(time.time())
        body = status_patch(pod, reason, message, now)
        if body is None:
            return
        path = object_path("pods", metadata["namespace"], metadata["name"], "status")
        _LOG.info("%s/%s: %s", metadata["namespace"], metadata["name"], message)
        if "conditions" in body["status"]:
            self._emit(pod, EventType.WARNING, "FailedScheduling", message)
        try:
            self._api.patch(path, body, STRATEGIC_PATCH)
        except KubeError as error:
            if error.kind not in _GONE:
                _LOG.warning("%s", error.sentence)

    def _emit(self, pod: Json, kind: EventType, reason: str, message: str) -> None:
        component = str(pod["spec"].get("schedulerName"))
        if component not in self._events:
            self._events[component] = EventWriter(self._client, component, api_version="v1")
        self._events[component].emit(RawObject(pod), kind, reason, message)


def status_patch(pod: Json, reason: str, message: str, now: str) -> Json | None:
    """Return the strategic merge patch with why a pod has no node; None where its status has it."""
    status = pod.get("status") or {}
    conditions = status.get("conditions") or ()
    before: Json = next((each for each in conditions if each["type"] == "PodScheduled"), {})
    said = {"status": "False", "reason": reason, "message": message}
    changes: Json = {}
    if not said.items() <= before.items():
        moved = before["lastTransitionTime"] if before.get("status") == "False" else now
        moments = {"lastProbeTime": None, "lastTransitionTime": moved}
        about = {"observedGeneration": pod["metadata"].get("generation")}
        changes["conditions"] = [{"type": "PodScheduled", **said, **about, **moments}]
    if status.get("nominatedNodeName"):
        changes["nominatedNodeName"] = None
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": changes} if changes else None


def node_of(pod: Json) -> str:
    """Return the node that a pod is bound to; "" for none."""
    return str(pod["spec"].get("nodeName") or "")


def nominated_node_of(pod: Json) -> str:
    """Return the node that a pod is nominated to; "" for none."""
    return str((pod.get("status") or {}).get("nominatedNodeName") or "")


def _priority(pod: Json) -> int:
    return int(pod["spec"].get("priority") or 0)


def _bound(pod: Json, node: str) -> Json:
    return {**pod, "spec": {**pod["spec"], "nodeName": node}}


def _of_node(node: Json) -> Any:
    """Return what decides which pods a node takes. Heartbeats are no part of it."""
    status, metadata = node.get("status") or {}, node["metadata"]
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    about = (metadata.get("labels"), metadata.get("annotations"))
    return node.get("spec"), about, status.get("allocatable"), conditions


def _of_pod(pod: Json) -> Any:
    metadata = pod["metadata"]
    about = (metadata.get("labels"), metadata.get("annotations"))
    return pod["spec"], about, nominated_node_of(pod)
