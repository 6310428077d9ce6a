"""Admission of pods to a node: the checks that a kubelet repeats after the scheduler.

Two schedulers that fill the same node can overfill it; the kubelet then fails the later pod with
the reason `OutOf<resource>`, and so does this."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import msgspec

from localcluster.node.pod_spec import Json
from optimus.kube.podspec import PodSpec, constraints_of, requests_of
from optimus.kube.quantity import offered
from optimus.nodes import Node, refusal
from optimus.resources import Resources, total

_MISPLACED = (
    "Pod was rejected: Predicate NodeAffinity failed: "
    "node(s) didn't match Pod's node affinity/selector"
)


@dataclass(frozen=True)
class Rejection:
    """Why a node does not take a pod: the status reason and a sentence."""

    reason: str
    message: str


class NodeAdmission:
    """The pods that one node has admitted. Thread-safe."""

    def __init__(
        self, name: str, capacity: Mapping[str, str], labels: Callable[[], Mapping[str, str]]
    ) -> None:
        """`labels` reads the labels that the node has now."""
        self._name = name
        self._capacity = offered(capacity)
        self._labels = labels
        self._held: dict[str, Resources] = {}
        self._mutex = threading.Lock()

    def admit(self, pod: Json, *, running: bool = False) -> Rejection | None:
        """Admit a pod, or say why not. A pod that an earlier agent was `running` always is."""
        spec = msgspec.convert(pod["spec"], PodSpec, strict=False)
        if not running and self._misplaced(spec):
            return Rejection("NodeAffinity", _MISPLACED)
        asked = requests_of(spec)
        with self._mutex:
            used = total(self._held.values())
            lacking = () if running else asked.lacking_in(self._capacity - used)
            if lacking:
                name = lacking[0]
                figures = (
                    f"{name}, requested: {asked[name]}, used: {used[name]}, "
                    f"capacity: {self._capacity[name]}"
                )
                sentence = f"Pod was rejected: Node didn't have enough resource: {figures}"
                return Rejection(f"OutOf{name}", sentence)
            self._held[pod["metadata"]["uid"]] = asked
        return None

    def release(self, uid: str) -> None:
        """Release what a pod holds; nothing when it holds nothing."""
        with self._mutex:
            self._held.pop(uid, None)

    def _misplaced(self, spec: PodSpec) -> bool:
        # Taints repel pods in the scheduler; a kubelet does not look at them.
        constraints = replace(constraints_of(spec), tolerations=())
        if not constraints.selector and not constraints.affinity:
            return False
        return refusal(Node(self._name, labels=self._labels()), constraints) is not None
