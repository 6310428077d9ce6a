"""What the scheduler writes of a pod: its binding, the condition why it has no node, and Events."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from localcluster.embedded.events import emit_event
from optimus.kube.client import Client
from optimus.kube.errors import ErrorKind, KubeError

Json: TypeAlias = dict[str, Any]

_CONDITION = "PodScheduled"


class PodWriter:
    """Writes to pods as kube-scheduler does."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._core: Any = client.core

    def bind(self, pod: Json, node: str) -> None:
        """Bind a pod.

        Raises:
            KubeError: it is not bound, or that is unknown.
        """
        metadata = pod["metadata"]
        name, namespace = metadata["name"], metadata["namespace"]
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {
            "metadata": {"name": name, "namespace": namespace, "uid": metadata["uid"]},
            "target": target,
        }
        method = self._core.create_namespaced_pod_binding
        self._client.call(
            f"bind pod {namespace}/{name}", method, name=name, namespace=namespace, body=body
        )

    def placed(self, pod: Json, node: str) -> None:
        """Say that a pod was bound."""
        where = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        self._tell(pod, "Normal", "Scheduled", f"Successfully assigned {where} to {node}")

    def refused(self, pod: Json, reason: str, message: str) -> None:
        """Say why a pod has no node, and take its nomination back; nothing where that is known
        already.

        Raises:
            KubeError: the status was not written.
        """
        body = status_patch(pod, reason, message, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        if body is None:
            return
        if "conditions" in body["status"]:
            self._tell(pod, "Warning", "FailedScheduling", message)
        metadata = pod["metadata"]
        self._client.call(
            f"write the status of pod {metadata['namespace']}/{metadata['name']}",
            self._core.patch_namespaced_pod_status,
            name=metadata["name"],
            namespace=metadata["namespace"],
            body=body,
            _content_type="application/strategic-merge-patch+json",
        )

    def _tell(self, pod: Json, kind: str, reason: str, message: str) -> None:
        metadata: Mapping[str, str] = pod["metadata"]
        about = {
            "apiVersion": "v1",
            "kind": "Pod",
            **{key: metadata[key] for key in ("name", "namespace", "uid")},
        }
        emit_event(
            self._client, str(pod["spec"].get("schedulerName")), about, (kind, reason, message)
        )


def status_patch(pod: Json, reason: str, message: str, now: str) -> Json | None:
    """The strategic merge patch that says why a pod has no node; None where its status says so
    already."""
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
    """Whether a write failed because the pod is gone, bound or another one: nothing is wrong
    then."""
    return error.kind in (ErrorKind.NOT_FOUND, ErrorKind.CONFLICT, ErrorKind.INVALID)
