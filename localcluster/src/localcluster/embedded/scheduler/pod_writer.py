"""What the scheduler writes of pods: bindings, why one has no node, and Events."""

import time

from localcluster.api_calls import STRATEGIC_PATCH, ApiCalls, object_path
from localcluster.embedded.raw_objects import Json, RawObject
from optimus.kube.client import Client
from optimus.kube.errors import ErrorKind, KubeError
from optimus.kube.events import EventType, EventWriter
from optimus.kube.times import format_second

_CONDITION = "PodScheduled"


class PodWriter:
    """Writes to pods as kube-scheduler does."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._api = ApiCalls(client)
        self._events: dict[str, EventWriter] = {}

    def bind(self, pod: Json, node: str) -> None:
        """Bind a pod. Raises KubeError: it is not bound, or that is unknown."""
        metadata = pod["metadata"]
        name, namespace = metadata["name"], metadata["namespace"]
        body = {
            "metadata": {"name": name, "namespace": namespace, "uid": metadata["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        self._api.create(object_path("pods", namespace, name, "binding"), body)

    def emit_scheduled(self, pod: Json, node: str) -> None:
        """Emit that a pod was bound."""
        where = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        message = f"Successfully assigned {where} to {node}"
        self._emit(pod, EventType.NORMAL, "Scheduled", message)

    def write_refusal(self, pod: Json, reason: str, message: str) -> None:
        """Write why a pod has no node, unless its status says so already; it loses its nomination.

        Raises KubeError: the status was not written."""
        body = status_patch(pod, reason, message, format_second(time.time()))
        if body is None:
            return
        if "conditions" in body["status"]:
            self._emit(pod, EventType.WARNING, "FailedScheduling", message)
        self._patch_status(pod, body)

    def _patch_status(self, pod: Json, body: Json) -> None:
        metadata = pod["metadata"]
        path = object_path("pods", metadata["namespace"], metadata["name"], "status")
        self._api.patch(path, body, STRATEGIC_PATCH)

    def _emit(self, pod: Json, kind: EventType, reason: str, message: str) -> None:
        component = str(pod["spec"].get("schedulerName"))
        if component not in self._events:
            self._events[component] = EventWriter(self._client, component, api_version="v1")
        self._events[component].emit(RawObject(pod), kind, reason, message)


def status_patch(pod: Json, reason: str, message: str, now: str) -> Json | None:
    """The strategic merge patch with why a pod has no node; None where its status has it."""
    status = pod.get("status") or {}
    before: Json = next(
        (each for each in status.get("conditions") or () if each["type"] == _CONDITION), {}
    )
    changes: Json = {}
    if (before.get("status"), before.get("reason"), before.get("message")) != (
        "False",
        reason,
        message,
    ):
        moved = before["lastTransitionTime"] if before.get("status") == "False" else now
        changes["conditions"] = [
            {
                "type": _CONDITION,
                "observedGeneration": pod["metadata"].get("generation"),
                "status": "False",
                "reason": reason,
                "message": message,
                "lastProbeTime": None,
                "lastTransitionTime": moved,
            }
        ]
    if status.get("nominatedNodeName"):
        changes["nominatedNodeName"] = None
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": changes} if changes else None


def is_gone(error: KubeError) -> bool:
    """Whether a write failed because the pod is gone, bound or another one: no fault then."""
    return error.kind in (ErrorKind.NOT_FOUND, ErrorKind.CONFLICT, ErrorKind.INVALID)
