"""Nodes, pods and extenders for the tests of kube-scheduler's stand-in."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from localcluster.embedded.scheduler.extenders import ExtenderFailed, Filtered
from localcluster.embedded.scheduler.placing import NodeState

Json = dict[str, Any]
_UIDS = itertools.count()


def node(name: str, cpu: str = "4", *, labels: Json | None = None, **spec: Any) -> Json:
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": {"allocatable": amounts},
    }


def pod(name: str, cpu: str = "1", *, nominated: str = "", priority: int = 0, **spec: Any) -> Json:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "resourceVersion": str(next(_UIDS)),
        },
        "spec": {"containers": [container], "schedulerName": "mine", "priority": priority, **spec},
        "status": {"phase": "Pending", **({"nominatedNodeName": nominated} if nominated else {})},
    }


@dataclass
class FakeExtender:
    """Keeps these nodes; None: it fails."""

    keeps: Sequence[str] | None = ()
    scores: Mapping[str, int] | None = None
    ignorable: bool = False
    asked: list[tuple[str, list[str]]] = field(default_factory=list)

    def filter(self, pod: Json, nodes: Sequence[str]) -> Filtered:
        self.asked.append(("filter", sorted(nodes)))
        if self.keeps is None:
            raise ExtenderFailed("it fails")
        kept = [name for name in nodes if name in self.keeps]
        return Filtered(kept, {name: "planned elsewhere" for name in nodes if name not in kept})

    def prioritize(self, pod: Json, nodes: Sequence[str]) -> Mapping[str, int]:
        self.asked.append(("prioritize", sorted(nodes)))
        if self.scores is None:
            raise ExtenderFailed("it has no scores")
        return self.scores


def states(*nodes: Json) -> dict[str, NodeState]:
    return {each["metadata"]["name"]: NodeState(each) for each in nodes}
