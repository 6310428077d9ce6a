"""Which nodes a pod may go to, by kube-scheduler's own rules and with its messages.

The rules of one node are checked in order, and the first that refuses gives the reason: cordoned,
node name, taints, selector and affinity, resources (of pods on the node and nominated to it)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from localcluster.embedded.raw_objects import Json
from optimus.jobs import NodeConstraints
from optimus.kube.podspec import PodSpec, constraints_of, requests_of
from optimus.kube.quantity import offered
from optimus.nodes import Node, Taint, refusal
from optimus.resources import PODS, Resources, total


@dataclass(frozen=True)
class NodeState:
    """A node, the pods on it, and those that wait with a nomination to it."""

    node: Json
    pods: Sequence[Json] = ()
    nominated: Sequence[Json] = ()

    @property
    def name(self) -> str:
        """The node's name."""
        return str(self.node["metadata"]["name"])


@dataclass
class Requests:
    """What pods ask for, parsed once per pod and version."""

    _known: dict[tuple[str, str], tuple[Resources, NodeConstraints]] = field(default_factory=dict)

    def of(self, pod: Json) -> Resources:
        """What a pod takes of its node, itself included."""
        return self._parsed(pod)[0]

    def constraints_of(self, pod: Json) -> NodeConstraints:
        """Which nodes a pod may go to."""
        return self._parsed(pod)[1]

    def all_of(self, pods: Iterable[Json]) -> Resources:
        """What pods take together."""
        return total(self.of(pod) for pod in pods)

    def _parsed(self, pod: Json) -> tuple[Resources, NodeConstraints]:
        metadata = pod["metadata"]
        key = (metadata["uid"], metadata["resourceVersion"])
        if key not in self._known:
            if len(self._known) > 20_000:
                self._known.clear()
            spec = msgspec.convert(pod["spec"], PodSpec, strict=False)
            self._known[key] = requests_of(spec), constraints_of(spec)
        return self._known[key]


def refusals_of(pod: Json, state: NodeState, requests: Requests) -> tuple[str, ...]:
    """Why a pod cannot go to a node; nothing where it can."""
    constraints = requests.constraints_of(pod)
    node = _scheduling_node(state.node)
    tolerations = NodeConstraints(tolerations=constraints.tolerations)
    if node.cordoned and refusal(replace(node, taints=()), tolerations):
        return ("node(s) were unschedulable",)
    if pod["spec"].get("nodeName") not in (None, "", state.name):
        return ("node(s) didn't match the requested node name",)
    if refusal(replace(node, cordoned=False), tolerations):
        return ("node(s) had untolerated taint(s)",)
    if refusal(replace(node, cordoned=False), constraints):
        return ("node(s) didn't match Pod's node affinity/selector",)
    return _lacking(pod, state, requests)


def _scheduling_node(body: Json) -> Node:
    metadata, spec = body["metadata"], body.get("spec") or {}
    return Node(
        metadata["name"],
        labels=metadata.get("labels") or {},
        taints=tuple(
            Taint(each["key"], each.get("value") or "", each["effect"])
            for each in spec.get("taints") or ()
        ),
        cordoned=bool(spec.get("unschedulable")),
    )


def _lacking(pod: Json, state: NodeState, requests: Requests) -> tuple[str, ...]:
    there = (*state.pods, *state.nominated)
    has = offered((state.node.get("status") or {}).get("allocatable"))
    used, asked = requests.all_of(there), requests.of(pod)
    reasons = [
        f"Insufficient {name}"
        for name in sorted(asked)
        if name != PODS and asked[name] > 0 and asked[name] > has[name] - used[name]
    ]
    full = ("Too many pods",) if len(there) + 1 > has[PODS] else ()
    return (*full, *reasons)


def score(pod: Json, state: NodeState, requests: Requests) -> int:
    """NodeResourcesFit: the CPU and memory left with the pod on the node, 0 to 100."""
    has = offered((state.node.get("status") or {}).get("allocatable"))
    used = requests.all_of((*state.pods, pod))
    shares = [
        100 * max(0, has[name] - used[name]) // has[name] for name in ("cpu", "memory") if has[name]
    ]
    return sum(shares) // len(shares) if shares else 0
