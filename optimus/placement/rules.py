"""Rules of pods about other pods, ports and volumes, beyond what a node itself admits.

These are the rules of kube-scheduler's in-tree filters NodePorts, InterPodAffinity,
PodTopologySpread, VolumeBinding and VolumeRestrictions; a gang is planned whole before
kube-scheduler has filtered for each of its pods, so the plan has to know them. Preferences are left
out: they are kube-scheduler's to weigh.

``Surroundings`` is what the pods that are there mean for one gang: frozen, so that a gang is
planned on it without a lock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from optimus.jobs import Requirement
from optimus.nodes import satisfies

Labels = tuple[tuple[str, str], ...]
"""A pod's or namespace's labels, in order of keys."""

NamespaceLabels = Mapping[str, Labels]
"""The labels of each namespace."""

NodeTerms = tuple[tuple[Requirement, ...], ...]
"""Alternatives of which a node must fulfil one whole."""

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared, never bound


class HostPort(NamedTuple):
    """A port that a pod takes of its node."""

    port: int
    protocol: str = "TCP"
    address: str = ANY_ADDRESS

    def conflicts_with(self, other: "HostPort") -> bool:
        """Return whether both cannot be on one node."""
        return (self.port, self.protocol) == (other.port, other.protocol) and (
            self.address == other.address or ANY_ADDRESS in (self.address, other.address)
        )

    def __str__(self) -> str:
        return f"{self.port}/{self.protocol}"


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Pods by their labels, in some namespaces."""

    requirements: tuple[Requirement, ...] | None
    """All must hold; ``None`` selects no pod, an empty tuple every pod."""

    namespaces: tuple[str, ...] = ()
    namespace_requirements: tuple[Requirement, ...] | None = None
    """Further namespaces, by their labels; an empty tuple: all."""

    def matches(self, namespace: str, labels: Labels, of_namespaces: NamespaceLabels) -> bool:
        """Return whether a pod with these labels in this namespace is selected."""
        return self.matches_labels(labels) and self.matches_namespace(namespace, of_namespaces)

    def matches_labels(self, labels: Labels) -> bool:
        """Return whether a pod with these labels is selected, in a namespace that is."""
        return self.requirements is not None and all_hold(self.requirements, labels)

    def matches_namespace(self, namespace: str, of_namespaces: NamespaceLabels) -> bool:
        """Return whether pods of this namespace are selected, by their labels."""
        if namespace in self.namespaces:
            return True
        wanted = self.namespace_requirements
        return wanted is not None and all_hold(wanted, of_namespaces.get(namespace, ()))


def all_hold(requirements: tuple[Requirement, ...], labels: Labels) -> bool:
    """Return whether these labels fulfil every requirement."""
    if not requirements:
        return True
    found = dict(labels)
    for each in requirements:  # noqa: SIM110 - once per pod: all() of a generator takes twice as long
        if not satisfies(found.get(each.key), each):
            return False
    return True


class AffinityTerm(NamedTuple):
    """Pods to be beside, or not to be beside: in the same domain, which is all nodes with one value
    of the label ``topology_key``."""

    topology_key: str
    selector: PodSelector


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A topology spread constraint with DoNotSchedule."""

    topology_key: str
    max_skew: int
    selector: PodSelector
    min_domains: int = 1
    honours_affinity: bool = True
    """Whether only nodes count that the pod's node selector and affinity admit."""

    honours_taints: bool = False
    """Whether only nodes count whose taints the pod tolerates."""


@dataclass(frozen=True, slots=True)
class PodRules:
    """The rules of one pod."""

    ports: tuple[HostPort, ...] = ()
    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    claims: tuple[str, ...] = ()
    """The persistent volume claims that it mounts, by name."""

    @property
    def is_empty(self) -> bool:
        """Return whether there is none."""
        return self == NO_RULES


NO_RULES = PodRules()


class Selection(NamedTuple):
    """Pods that all of some selectors match; with ``staying`` none that is being deleted."""

    selectors: tuple[PodSelector, ...]
    staying: bool = False

    def matches(self, namespace: str, labels: Labels, of_namespaces: NamespaceLabels) -> bool:
        """Return whether a pod with these labels in this namespace is one of them."""
        return all(each.matches(namespace, labels, of_namespaces) for each in self.selectors)


def selections_of(rules: PodRules) -> set[Selection]:
    """The pods that must be counted to know where a pod with these rules may go."""
    found = {Selection((term.selector,)) for term in rules.anti_affinity}
    found |= {Selection((each.selector,), staying=True) for each in rules.spread}
    if rules.affinity:
        found.add(Selection(tuple(term.selector for term in rules.affinity)))
    return found


@dataclass(frozen=True, slots=True)
class ClaimedVolume:
    """What a persistent volume claim means for the pods that mount it."""

    terms: NodeTerms | None = None
    """The nodes that reach it, or would; ``None`` for every node."""

    options: tuple[NodeTerms, ...] = ()
    """Where it is bound only once a pod has a node: the volumes that it may get, each by the nodes
    that reach it. Pods that share the claim must all reach the one that is chosen."""

    beyond_plan: bool = False
    """Whether only kube-scheduler knows which nodes are suitable."""

    problem: str | None = None
    """Why no pod that mounts it can be placed now, as a clause for users."""

    exclusive: bool = False
    """Whether one pod alone may mount it (ReadWriteOncePod)."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the pods that are there, placed members of the gang included, mean for one gang."""

    counts: Mapping[Selection, Mapping[str, int]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """Selected pods by node, for each selection of the gang's rules."""

    repelling: tuple[tuple[AffinityTerm, frozenset[str]], ...] = ()
    """Anti-affinity of pods that are there towards any of the gang's, with the nodes that these
    pods are on."""

    repelled_by: frozenset[str] = frozenset()
    """The namespaces of these pods."""

    ports: Mapping[HostPort, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    """Ports in use that conflict with one of the gang's, with the nodes that they are taken of."""

    volumes: Mapping[str, ClaimedVolume] = field(default_factory=lambda: MappingProxyType({}))
    """The gang's claims, by name."""

    of_namespaces: NamespaceLabels = field(default_factory=lambda: MappingProxyType({}))
