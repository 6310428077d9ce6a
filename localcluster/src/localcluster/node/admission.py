"""Admission of pods to a node: the check that a kubelet repeats after the scheduler.

Two schedulers that fill the same node can overfill it; the kubelet then fails the later pod with
the reason `OutOf<resource>`, and so does this."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from localcluster.node.pod_spec import Json
from optimus.kube.podspec import PodSpec, requests_of
from optimus.kube.quantity import offered
from optimus.resources import Resources, total


@dataclass(frozen=True)
class Rejection:
    """Why a node does not take a pod: the status reason and a sentence."""

    reason: str
    message: str


class NodeAdmission:
    """The pods that one node has admitted. Thread-safe."""

    def __init__(self, capacity: Mapping[str, str]) -> None:
        self._capacity = offered(capacity)
        self._held: dict[str, Resources] = {}
        self._mutex = threading.Lock()

    def admit(self, pod: Json) -> Rejection | None:
        """Admit a pod, or say why not."""
        spec = msgspec.convert(pod["spec"], PodSpec, strict=False)
        asked = requests_of(spec)
        with self._mutex:
            used = total(self._held.values())
            lacking = asked.lacking_in(self._capacity - used)
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
