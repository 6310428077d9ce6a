"""What a node refuses at the door: the checks that a kubelet repeats after the scheduler.

Two schedulers that fill the same node can overfill it; the kubelet then fails the later pod with
the reason `OutOf<resource>`, and so does this. The node selector, required node affinity and the
operating system's label are checked as a kubelet checks them.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from localcluster.node.quantity import parse_quantity
from localcluster.node.spec import Json

Amounts = Mapping[str, Decimal]


@dataclass(frozen=True)
class Rejection:
    """Why a node does not take a pod: the status reason and a sentence."""

    reason: str
    message: str


class NodeBooks:
    """What is promised on one node. Thread-safe."""

    def __init__(
        self, name: str, capacity: Mapping[str, str], labels: Callable[[], Mapping[str, str]]
    ) -> None:
        """Open the books of a node with this allocatable capacity; `labels` reads the labels that
        it has now."""
        self._name = name
        self._capacity = {resource: parse_quantity(amount) for resource, amount in capacity.items()}
        self._labels = labels
        self._held: dict[str, Amounts] = {}
        self._mutex = threading.Lock()

    def admit(self, pod: Json, *, running: bool = False) -> Rejection | None:
        """Take a pod into the books, or say why not. A pod that an earlier agent was `running`
        always is."""
        requests = pod_requests(pod["spec"])
        misplaced = None if running else self._misplaced(pod["spec"])
        if misplaced is not None:
            return misplaced
        with self._mutex:
            overfull = None if running else self._overfull(requests)
            if overfull is not None:
                return overfull
            self._held[pod["metadata"]["uid"]] = requests
        return None

    def release(self, uid: str) -> None:
        """Give back what a pod held; nothing when it held nothing."""
        with self._mutex:
            self._held.pop(uid, None)

    def _overfull(self, requests: Amounts) -> Rejection | None:
        for resource, asked in requests.items():
            used = sum((held.get(resource, Decimal(0)) for held in self._held.values()), Decimal(0))
            capacity = self._capacity.get(resource, Decimal(0))
            if asked > 0 and used + asked > capacity:
                unit = Decimal(1000) if resource == "cpu" else Decimal(1)
                figures = ", ".join(
                    f"{word}: {int(amount * unit)}"
                    for word, amount in (
                        ("requested", asked),
                        ("used", used),
                        ("capacity", capacity),
                    )
                )
                sentence = (
                    f"Pod was rejected: Node didn't have enough resource: {resource}, {figures}"
                )
                return Rejection(f"OutOf{resource}", sentence)
        return None

    def _misplaced(self, spec: Json) -> Rejection | None:
        wanted = spec.get("nodeSelector") or {}
        affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        )
        if not wanted and not affinity:
            return None
        labels = self._labels()
        fits = all(labels.get(key) == value for key, value in wanted.items())
        if fits and affinity:
            terms = affinity.get("nodeSelectorTerms") or ()
            fits = any(_term_matches(term, labels, self._name) for term in terms)
        if fits:
            return None
        sentence = (
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
        )
        return Rejection("NodeAffinity", f"Pod was rejected: {sentence}")


def pod_requests(spec: Json) -> dict[str, Decimal]:
    """Return what a pod asks of its node: the larger of what runs together later and while it
    initialises.

    Sidecars count from their place in the order of init containers on, and beside the main
    containers. The pod itself is one of the resource `pods`.
    """
    sidecars: dict[str, Decimal] = {}
    peak: dict[str, Decimal] = {}
    for container in spec.get("initContainers") or ():
        own = _requests(container)
        together = _added([sidecars, own])
        peak = _larger(peak, together)
        if container.get("restartPolicy") == "Always":
            sidecars = together
    steady = _added([sidecars, *(_requests(each) for each in spec.get("containers") or ())])
    total = _added([_larger(peak, steady), _amounts(spec.get("overhead") or {})])
    total["pods"] = Decimal(1)
    return total


def _requests(container: Json) -> dict[str, Decimal]:
    resources = container.get("resources") or {}
    return _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amounts(values: Json) -> dict[str, Decimal]:
    return {resource: parse_quantity(amount) for resource, amount in values.items()}


def _added(parts: Iterable[Amounts]) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for part in parts:
        for resource, amount in part.items():
            total[resource] = total.get(resource, Decimal(0)) + amount
    return total


def _larger(left: Amounts, right: Amounts) -> dict[str, Decimal]:
    zero = Decimal(0)
    return {each: max(left.get(each, zero), right.get(each, zero)) for each in {**left, **right}}


def _term_matches(term: Json, labels: Mapping[str, str], name: str) -> bool:
    expressions = term.get("matchExpressions") or ()
    on_fields = term.get("matchFields") or ()
    if not expressions and not on_fields:
        return False
    return all(_matches(each, labels) for each in expressions) and all(
        _matches(each, {"metadata.name": name}) for each in on_fields
    )


def _matches(expression: Json, values: Mapping[str, str]) -> bool:
    found, wanted = values.get(expression["key"]), list(expression.get("values") or ())
    match expression["operator"]:
        case "In":
            return found in wanted
        case "NotIn":
            return found not in wanted
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case "Gt" | "Lt" as operator:
            return _compares(found, wanted, greater=operator == "Gt")
    return False


def _compares(found: str | None, wanted: list[Any], *, greater: bool) -> bool:
    try:
        have, limit = int(found or ""), int(wanted[0])
    except (ValueError, IndexError):
        return False
    return have > limit if greater else have < limit
