"""The scheduler's loop over the pods that wait: the highest priority first, then the longest wait.

A round tries every pod that has no node. The next one follows when a node has changed in what
scheduling looks at, or a pod in anything but its own refusals; a pod whose attempt failed by an
error is tried again a second later. A pod that was bound a moment ago counts as bound, whatever the
watches still say."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

from localcluster.api_calls import STRATEGIC_PATCH, ApiCalls, object_path
from localcluster.embedded.raw_objects import Json, RawObject, raw_objects
from localcluster.embedded.scheduler.configuration import Configuration
from localcluster.embedded.scheduler.extenders import ExtenderFailed, HttpExtender
from localcluster.embedded.scheduler.placing import NodeState, UnschedulableError, place
from optimus.kube.client import Client
from optimus.kube.errors import ErrorKind, KubeError
from optimus.kube.events import EventType, EventWriter
from optimus.kube.reflector import Reflector
from optimus.kube.store import Changes
from optimus.kube.times import format_second

_LOG = logging.getLogger(__name__)
_NOT_ENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"
_GONE: Final = (ErrorKind.NOT_FOUND, ErrorKind.CONFLICT, ErrorKind.INVALID)
"""A write failed because the pod is gone, bound or another one."""
_RETRY_SECONDS: Final = 1.0
"""After an attempt that failed by an error: the first step of kube-scheduler's back-off."""
_SETTLING_SECONDS: Final = 0.01
"""A round begins so much after a change: nodes that were made before a pod have to be known then,
and the embedded API server gathers what it sends."""
_IDLE_SECONDS: Final = 0.02


class Scheduler:
    """Schedules while `may_work` says so; `run` returns after `stop`."""

    def __init__(
        self,
        client: Client,
        configuration: Configuration,
        *,
        may_work: Callable[[], bool] = lambda: True,
    ) -> None:
        self._client, self._api, self._may_work = client, ApiCalls(client), may_work
        self._names = configuration.scheduler_names
        self._extenders = [HttpExtender(each) for each in configuration.extenders]
        self._random = Random()
        self._assumed: dict[str, str] = {}
        self._since: dict[str, float] = {}
        self._retry_at: dict[str, float] = {}
        self._events: dict[str, EventWriter] = {}
        self._changes, self._stopping = Changes(), threading.Event()
        pods = raw_objects("", "v1", "pods", "Pod", field_selector=_NOT_ENDED)
        nodes = raw_objects("", "v1", "nodes", "Node")
        self._pods = Reflector(client, pods, observer=self._observer(_of_pod))
        self._nodes = Reflector(client, nodes, observer=self._observer(_of_node))

    @property
    def ready(self) -> bool:
        """Whether pods and nodes have been read once."""
        return self._pods.synced and self._nodes.synced

    def stop(self) -> None:
        """Make `run` return."""
        self._stopping.set()
        self._changes.notify()

    def run(self) -> None:
        """Print `ready` once it knows the cluster, and schedule until stopped."""
        for copy in (self._pods, self._nodes):
            copy.start()
        while not self.ready and not self._stopping.wait(_IDLE_SECONDS):
            pass
        print("ready", flush=True)
        seen = -1
        while not self._stopping.is_set():
            if not self._may_work():
                self._stopping.wait(_IDLE_SECONDS)
                seen = -1
                continue
            due = min(self._retry_at.values(), default=time.monotonic() + _RETRY_SECONDS)
            before = self._changes.wait(seen, max(0.0, due - time.monotonic()))
            if before != seen or self._retry_at:
                self._stopping.wait(_SETTLING_SECONDS)
                seen = self._changes.count  # what happens from now on asks for another round
                self._round()
        for copy in (self._pods, self._nodes):
            copy.stop()

    def _observer(
        self, aspect: Callable[[Json], Any]
    ) -> Callable[[RawObject | None, RawObject | None], None]:
        def observe(before: RawObject | None, after: RawObject | None) -> None:
            if before is None or after is None or aspect(before.body) != aspect(after.body):
                self._changes.notify()

        return observe

    # --- attempts

    def _round(self) -> None:
        """Try every pod that waits, once."""
        now = time.monotonic()
        pods = {each.uid: each.body for each in self._pods.items()}
        self._assumed = {
            uid: node
            for uid, node in self._assumed.items()
            if uid in pods and not node_of(pods[uid])
        }
        pods.update({uid: _bound(pods[uid], node) for uid, node in self._assumed.items()})
        waiting = [uid for uid, pod in pods.items() if self._waits(pod)]
        self._since = {uid: self._since.get(uid, now) for uid in waiting}
        self._retry_at = {uid: at for uid, at in self._retry_at.items() if uid in self._since}
        for uid in sorted(waiting, key=lambda uid: (-_priority(pods[uid]), self._since[uid])):
            if self._retry_at.get(uid, 0.0) <= now and not self._stopping.is_set():
                self._try(pods[uid], pods)

    def _waits(self, pod: Json) -> bool:
        spec, is_mine = pod["spec"], pod["spec"].get("schedulerName") in self._names
        is_held = spec.get("schedulingGates") or pod["metadata"].get("deletionTimestamp")
        return is_mine and not is_held and not node_of(pod)

    def _try(self, pod: Json, pods: dict[str, Json]) -> None:
        uid, failure = pod["metadata"]["uid"], ""
        self._retry_at.pop(uid, None)
        try:
            node = place(pod, self._snapshot(pod, pods), self._extenders, self._random)
        except UnschedulableError as refused:
            self._refuse(pod, "Unschedulable", str(refused))
            return
        except ExtenderFailed as error:
            failure = str(error)
        except Exception as error:  # noqa: BLE001 -- one bad pod must not stop the others
            _LOG.exception("%s cannot be tried", pod["metadata"]["name"])
            failure = f"{type(error).__name__}: {error}"
        else:
            failure = self._bind(pod, node) if self._present(pod) else ""
            if uid in self._assumed:
                pods[uid] = _bound(pod, node)
        if failure:
            self._retry_at[uid] = time.monotonic() + _RETRY_SECONDS
            self._refuse(pod, "SchedulerError", failure)

    def _snapshot(self, pod: Json, pods: Mapping[str, Json]) -> Mapping[str, NodeState]:
        """Return every node with its pods and with nominated pods of no lower priority."""
        states = {each.name: NodeState(each.body) for each in self._nodes.items()}
        for other in pods.values():
            if node_of(other) in states:
                states[node_of(other)].pods.append(other)
            elif other is not pod and self._waits(other) and _priority(other) >= _priority(pod):
                nominated = states.get(nominated_node_of(other))
                (nominated.nominated if nominated else []).append(other)
        return states

    def _present(self, pod: Json) -> Json | None:
        """Return the pod as it is known now; None where it waits no more."""
        metadata = pod["metadata"]
        found = self._pods.find(metadata["namespace"], metadata["name"])
        waits = found is not None and found.uid == metadata["uid"] and self._waits(found.body)
        return found.body if found is not None and waits else None

    # --- writes

    def _bind(self, pod: Json, node: str) -> str:
        """Bind a pod; return why that failed, "" where it did not."""
        metadata = pod["metadata"]
        name, namespace, uid = metadata["name"], metadata["namespace"], metadata["uid"]
        body = {
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            self._api.create(object_path("pods", namespace, name, "binding"), body)
        except KubeError as error:
            return f"binding rejected: {error}"
        self._assumed[uid] = node
        message = f"Successfully assigned {namespace}/{name} to {node}"
        self._emit(pod, EventType.NORMAL, "Scheduled", message)
        return ""

    def _refuse(self, pod: Json, reason: str, message: str) -> None:
        """Write why a pod has no node, unless its status says so; it loses its nomination."""
        present, now = self._present(pod), format_second(time.time())
        body = status_patch(present, reason, message, now) if present else None
        if body is None:
            return
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        _LOG.info("%s/%s: %s", namespace, name, message)
        if "conditions" in body["status"]:
            self._emit(pod, EventType.WARNING, "FailedScheduling", message)
        try:
            self._api.patch(object_path("pods", namespace, name, "status"), body, STRATEGIC_PATCH)
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
    about = [metadata.get(key) for key in ("uid", "labels", "annotations", "deletionTimestamp")]
    return pod["spec"], about, nominated_node_of(pod)
