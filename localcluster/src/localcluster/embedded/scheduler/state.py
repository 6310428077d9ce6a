"""The scheduler's nodes and pods, and which changes wake waiting pods.

A pod that was bound a moment ago counts as bound, whatever the caches still say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from localcluster.embedded.raw_objects import Json
from localcluster.embedded.scheduler.attempt import Snapshot
from localcluster.embedded.scheduler.fit import NodeState
from localcluster.embedded.scheduler.queue import Change, Queue


def priority_of(pod: Json) -> int:
    """A pod's priority; 0 where it has none."""
    return int(pod["spec"].get("priority") or 0)


def node_of(pod: Json) -> str:
    """The node that a pod is bound to; "" for none."""
    return str(pod["spec"].get("nodeName") or "")


def nominated_node_of(pod: Json) -> str:
    """The node that a pod is nominated to; "" for none."""
    return str((pod.get("status") or {}).get("nominatedNodeName") or "")


@dataclass
class ClusterState:
    """Nodes and pods, and the queue of those that wait. Not safe to share between threads."""

    scheduler_names: frozenset[str]
    queue: Queue = field(default_factory=Queue)
    nodes: dict[str, Json] = field(default_factory=dict)
    pods: dict[str, Json] = field(default_factory=dict)
    _assumed: dict[str, str] = field(default_factory=dict)

    # --- changes

    def node_changed(self, before: Json | None, after: Json | None) -> None:
        """A node has come, changed or gone."""
        if after is None:
            assert before is not None
            self.nodes.pop(before["metadata"]["name"], None)
            self.queue.changed(Change.OTHER)
            return
        self.nodes[after["metadata"]["name"]] = after
        if before is None or _scheduling_fields_of_node(before) != _scheduling_fields_of_node(
            after
        ):
            self.queue.changed(Change.ROOM)
        elif before["metadata"].get("annotations") != after["metadata"].get("annotations"):
            self.queue.changed(Change.OTHER)

    def pod_changed(self, before: Json | None, after: Json | None, now: float) -> None:
        """A pod has come, changed or gone; one that has ended is gone too."""
        if before is not None and (
            after is None or after["metadata"]["uid"] != before["metadata"]["uid"]
        ):
            self._pod_gone(before)
            before = None
        if after is not None:
            self._pod_there(before, after, now)

    def _pod_gone(self, pod: Json) -> None:
        uid = pod["metadata"]["uid"]
        held_room = bool(node_of(pod) or uid in self._assumed or nominated_node_of(pod))
        self.pods.pop(uid, None)
        self._assumed.pop(uid, None)
        self.queue.remove(uid)
        if held_room:
            self.queue.changed(Change.ROOM)

    def _pod_there(self, before: Json | None, pod: Json, now: float) -> None:
        uid = pod["metadata"]["uid"]
        if node_of(pod):
            self._assumed.pop(uid, None)
            self.pods[uid] = pod
            self.queue.remove(uid)
            self.queue.changed(Change.OTHER)
        elif uid in self._assumed:
            self.pods[uid] = {**pod, "spec": {**pod["spec"], "nodeName": self._assumed[uid]}}
        else:
            self.pods[uid] = pod
            self._waiting_changed(before, pod, now)

    def _waiting_changed(self, before: Json | None, pod: Json, now: float) -> None:
        uid = pod["metadata"]["uid"]
        name = pod["spec"].get("schedulerName")
        if name not in self.scheduler_names or pod["spec"].get("schedulingGates"):
            return
        if uid not in self.queue:
            self.queue.add(uid, priority_of(pod), now)
        elif before is not None:
            self.queue.touched(
                uid, may_fit_now=_scheduling_fields_of_pod(before) != _scheduling_fields_of_pod(pod)
            )

    # --- what attempts see and do

    def snapshot(self, pod: Json) -> Snapshot:
        """Every node with its pods and with the nominated pods of the same or higher priority."""
        on: dict[str, list[Json]] = {name: [] for name in self.nodes}
        nominated: dict[str, list[Json]] = {name: [] for name in self.nodes}
        for uid, other in self.pods.items():
            if node_of(other) in on:
                on[node_of(other)].append(other)
            elif self._counts_as_nominated(uid, other, pod):
                nominated[nominated_node_of(other)].append(other)
        return Snapshot(
            {name: NodeState(node, on[name], nominated[name]) for name, node in self.nodes.items()}
        )

    def _counts_as_nominated(self, uid: str, other: Json, pod: Json) -> bool:
        mine = (
            uid in self.queue
            and uid != pod["metadata"]["uid"]
            and nominated_node_of(other) in self.nodes
        )
        return mine and priority_of(other) >= priority_of(pod)

    def assume(self, uid: str, node: str) -> None:
        """Count a pod as bound: its binding is on its way."""
        self._assumed[uid] = node
        pod = self.pods[uid]
        self.pods[uid] = {**pod, "spec": {**pod["spec"], "nodeName": node}}

    def forget(self, uid: str, pod: Json) -> None:
        """The binding has failed."""
        self._assumed.pop(uid, None)
        if uid in self.pods:
            self.pods[uid] = pod


def _scheduling_fields_of_node(node: Json) -> Mapping[str, Any]:
    """What decides which pods a node takes. Heartbeats are no part of it."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    return {
        "unschedulable": spec.get("unschedulable"),
        "taints": spec.get("taints"),
        "labels": node["metadata"].get("labels"),
        "allocatable": status.get("allocatable"),
        "conditions": {each["type"]: each["status"] for each in status.get("conditions") or ()},
    }


def _scheduling_fields_of_pod(pod: Json) -> Mapping[str, Any]:
    """What of a waiting pod the scheduler's own rules look at, as far as it may change."""
    spec = pod["spec"]
    return {
        "labels": pod["metadata"].get("labels"),
        "tolerations": spec.get("tolerations"),
        "resources": [each.get("resources") for each in spec.get("containers") or ()],
        "selector": spec.get("nodeSelector"),
        "affinity": spec.get("affinity"),
    }
