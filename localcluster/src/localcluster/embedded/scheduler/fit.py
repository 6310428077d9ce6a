"""Which nodes a pod may go to, by kube-scheduler's own rules and in its words.

The rules of one node are asked in order, and the first that refuses gives the reason: cordoned,
named, tainted, selected, room. Room counts the pods on the node and those that are nominated to it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec

from optimus.kube.podspec import PodSpec, requests_of
from optimus.kube.quantity import offered
from optimus.resources import PODS, Resources, total

Json: TypeAlias = dict[str, Any]

_UNSCHEDULABLE_TAINT: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@dataclass(frozen=True)
class Refusal:
    """Why a node is refused; ``for_good``: no eviction would help."""

    reasons: tuple[str, ...]
    for_good: bool = True


@dataclass(frozen=True)
class NodeState:
    """A node and the pods that take room on it. ``nominated`` are those that wait with their eye on
    it."""

    node: Json
    pods: Sequence[Json] = ()
    nominated: Sequence[Json] = ()

    @property
    def name(self) -> str:
        """The node's name."""
        return str(self.node["metadata"]["name"])


@dataclass
class Requests:
    """What pods ask for, reckoned once per pod and version."""

    _known: dict[tuple[str, str], Resources] = field(default_factory=dict)

    def of(self, pod: Json) -> Resources:
        """What a pod takes of its node, itself included."""
        metadata = pod["metadata"]
        key = (metadata["uid"], metadata["resourceVersion"])
        if key not in self._known:
            if len(self._known) > 20_000:
                self._known.clear()
            self._known[key] = requests_of(msgspec.convert(pod["spec"], PodSpec, strict=False))
        return self._known[key]

    def all_of(self, pods: Iterable[Json]) -> Resources:
        """What pods take together."""
        return total(self.of(pod) for pod in pods)


def refusal_of(pod: Json, state: NodeState, requests: Requests) -> Refusal | None:
    """Why a pod cannot go to a node; None where it can."""
    spec, node_spec = pod["spec"], state.node.get("spec") or {}
    tolerations = spec.get("tolerations") or ()
    if node_spec.get("unschedulable") and not _tolerated(_UNSCHEDULABLE_TAINT, tolerations):
        return Refusal(("node(s) were unschedulable",))
    if spec.get("nodeName") not in (None, "", state.name):
        return Refusal(("node(s) didn't match the requested node name",))
    if any(
        _repels(taint) and not _tolerated(taint, tolerations)
        for taint in node_spec.get("taints") or ()
    ):
        return Refusal(("node(s) had untolerated taint(s)",))
    if not _selected(spec, state.node):
        return Refusal(("node(s) didn't match Pod's node affinity/selector",))
    return _lacking(pod, state, requests)


# --- taints


def _repels(taint: Json) -> bool:
    return taint["effect"] in ("NoSchedule", "NoExecute")


def _tolerated(taint: Json, tolerations: Iterable[Json]) -> bool:
    return any(_tolerates(each, taint) for each in tolerations)


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    # Only with Exists may the key be left out.
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (
        taint.get("value") or ""
    )


# --- selectors


def _selected(spec: Json, node: Json) -> bool:
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    if not (spec.get("nodeSelector") or {}).items() <= labels.items():
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(
        _term_holds(term, labels, fields) for term in required.get("nodeSelectorTerms") or ()
    )


def _term_holds(term: Json, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    expressions, matched_fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not matched_fields:
        return False
    return all(_holds(each, labels) for each in expressions) and all(
        _holds(each, fields) for each in matched_fields
    )


def _holds(requirement: Json, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(requirement["key"]), requirement.get("values") or ()
    match requirement["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return _compares(operator, value, values)
    return False


def _compares(operator: str, value: str | None, values: Sequence[str]) -> bool:
    try:
        difference = int(value or "") - int(values[0])
    except (ValueError, IndexError):
        return False
    return difference > 0 if operator == "Gt" else difference < 0


# --- room


def _lacking(pod: Json, state: NodeState, requests: Requests) -> Refusal | None:
    there = (*state.pods, *state.nominated)
    has = offered((state.node.get("status") or {}).get("allocatable"))
    used, asked = requests.all_of(there), requests.of(pod)
    lacking = [
        name
        for name in sorted(asked)
        if name != PODS and asked[name] > 0 and asked[name] > has[name] - used[name]
    ]
    reasons = [f"Insufficient {name}" for name in lacking]
    if len(there) + 1 > has[PODS]:
        reasons.insert(0, "Too many pods")
    return (
        Refusal(tuple(reasons), any(asked[name] > has[name] for name in lacking))
        if reasons
        else None
    )


def score(pod: Json, state: NodeState, requests: Requests) -> int:
    """0 to 100: how much of the node's CPU and memory is left with the pod on it, as
    NodeResourcesFit scores."""
    has = offered((state.node.get("status") or {}).get("allocatable"))
    used = requests.all_of((*state.pods, pod))
    shares = [
        100 * max(0, has[name] - used[name]) // has[name] for name in ("cpu", "memory") if has[name]
    ]
    return sum(shares) // len(shares) if shares else 0
