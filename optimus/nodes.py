"""Nodes, and which replicas they admit apart from room: labels, taints, cordons.

The rules are those of kube-scheduler's in-tree filters NodeAffinity, TaintToleration and
NodeUnschedulable; a gang is planned whole before kube-scheduler has filtered for each of its pods,
so the plan has to know them.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from optimus.jobs import Job, NodeConstraints, ReplicaSpec, Requirement, Toleration
from optimus.resources import NONE, Resources

_REPELLING = ("NoSchedule", "NoExecute")

NODE_KIND_LABEL: Final = "node.kubernetes.io/instance-type"
"""The nodes' label that tells their kind, where no other is set."""

NODE_PRICE_LABEL: Final = "optimus.dl/price-per-hour"
"""The nodes' label that tells what an hour of one costs, in any currency."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A node's taint."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class Node:
    """A node: allocatable resources, labels, taints; ``cordoned`` is ``spec.unschedulable``."""

    name: str
    allocatable: Resources = NONE
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    taints: tuple[Taint, ...] = ()
    cordoned: bool = False

    @property
    def price(self) -> float | None:
        """What an hour of it costs; ``None`` where no amount above 0 is labelled."""
        try:
            price = float(self.labels.get(NODE_PRICE_LABEL, ""))
        except ValueError:
            return None
        return price if 0 < price < math.inf else None


def most_on_a_node(nodes: Iterable[Node], spec: ReplicaSpec) -> int:
    """How many such replicas the largest node that admits them holds while it is empty."""
    offers = {each.allocatable for each in nodes if refusal(each, spec.constraints) is None}
    asked = [(name, amount) for name, amount in spec.resources.items() if amount > 0]
    held = (min((offer[name] // amount for name, amount in asked), default=0) for offer in offers)
    return max(held, default=0)


def refusal(node: Node, constraints: NodeConstraints) -> str | None:
    """Why the node does not admit a replica with these constraints; ``None`` when it does."""
    if node.cordoned and not _tolerated(_CORDON, constraints.tolerations):
        return "node is cordoned"
    for taint in node.taints:
        if taint.effect in _REPELLING and not _tolerated(taint, constraints.tolerations):
            return f"taint {taint.key} is not tolerated"
    if any(node.labels.get(key) != value for key, value in constraints.selector):
        return "node selector does not match"
    if constraints.affinity and not fulfils_any(constraints.affinity, node):
        return "node affinity does not match"
    return None


_CORDON = Taint("node.kubernetes.io/unschedulable")


def _tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if not toleration.key:
        return toleration.operator == "Exists"
    if toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value


def fulfils_any(terms: tuple[tuple[Requirement, ...], ...], node: Node) -> bool:
    """Return whether the node fulfils one of the alternatives whole."""
    return any(_holds_whole(term, node) for term in terms)


def _holds_whole(term: tuple[Requirement, ...], node: Node) -> bool:
    # Kubernetes: a term without requirements matches no node.
    return bool(term) and all(_holds(requirement, node) for requirement in term)


def _holds(requirement: Requirement, node: Node) -> bool:
    actual = node.name if requirement.field else node.labels.get(requirement.key)
    return satisfies(actual, requirement)


def satisfies(actual: str | None, requirement: Requirement) -> bool:
    """Return whether a label with this value, ``None`` for absent, fulfils the requirement."""
    match requirement.operator:
        case "In":
            return actual in requirement.values
        case "NotIn":
            return actual not in requirement.values
        case "Exists":
            return actual is not None
        case "DoesNotExist":
            return actual is None
        case "Gt" | "Lt":
            return _compares(actual, requirement)
        case _:
            return False


def _compares(actual: str | None, requirement: Requirement) -> bool:
    try:
        left, right = int(actual or ""), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return left > right if requirement.operator == "Gt" else left < right


def label_keys(jobs: Iterable[Job]) -> frozenset[str]:
    """The labels by which some replica of these jobs chooses its nodes."""
    keys: set[str] = set()
    for job in jobs:
        for spec in (job.ps, job.worker, *(role.spec for role in job.fixed)):
            keys.update(key for key, _ in spec.constraints.selector)
            terms = spec.constraints.affinity
            keys.update(each.key for term in terms for each in term if not each.field)
    return frozenset(keys)


def what_is_offered(nodes: Iterable[Node], keys: frozenset[str]) -> tuple[object, ...]:
    """Capacity of nodes, and all of them that decides which replicas they admit.

    Other labels, and taints that only ask to be avoided, change neither."""
    wanted = sorted(keys)
    return tuple(
        (
            node.name,
            node.allocatable,
            node.cordoned,
            tuple(each for each in node.taints if each.effect in _REPELLING),
            tuple(node.labels.get(key) for key in wanted),
        )
        for node in nodes
    )
