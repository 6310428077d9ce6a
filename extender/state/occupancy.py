"""What the pods on the nodes mean for the rules of others: labels, host ports, anti-affinity.

Pods that are bound and replicas that room is reserved for count alike. Everything is corrected pod
by pod: how many pods of a selection are on each node is counted once, when a gang asks for it
first, and kept. Selections and anti-affinity terms are found by one label that they demand, so that
a pod is compared with those few that may select it, however many jobs select their own pods.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final, Generic, NamedTuple, TypeVar

from extender.state.volumes import Volumes
from optimus.placement.gang import Gang
from optimus.placement.rules import (
    NO_RULES,
    AffinityTerm,
    ClaimedVolume,
    HostPort,
    Labels,
    PodRules,
    PodSelector,
    Selection,
    Surroundings,
    selections_of,
)
from optimus.snapshot import ReplicaId

_MOST_SELECTIONS: Final = 1024
"""Selections that are kept counted; the one that was asked for longest ago goes first."""


class Occupant(NamedTuple):
    """A pod on a node, or a replica that room is reserved for there."""

    node: str
    namespace: str
    labels: Labels
    rules: PodRules | None = None
    leaving: bool = False


Item = TypeVar("Item", bound=Hashable)


class _SelectorIndex(Generic[Item]):
    """Things that select pods, found by a label that a selected pod must have."""

    def __init__(self) -> None:
        self._by_pair: dict[tuple[str, str], dict[Item, None]] = {}
        self._others: dict[Item, None] = {}
        self._pair_of: dict[Item, tuple[str, str] | None] = {}

    def add(self, item: Item, selectors: Iterable[PodSelector]) -> tuple[str, str] | None:
        """Add an item whose pods all of these select; it is found by its rarest demanded label.

        Returns that label, if one is demanded."""
        demanded = [
            (each.key, each.values[0])
            for selector in selectors
            for each in selector.requirements or ()
            if each.operator == "In" and len(each.values) == 1
        ]
        pair = min(demanded, key=lambda each: len(self._by_pair.get(each, ())), default=None)
        self._pair_of[item] = pair
        (self._others if pair is None else self._by_pair.setdefault(pair, {}))[item] = None
        return pair

    def remove(self, item: Item) -> None:
        """Remove an item."""
        pair = self._pair_of.pop(item)
        if pair is None:
            del self._others[item]
            return
        del self._by_pair[pair][item]
        if not self._by_pair[pair]:
            del self._by_pair[pair]

    def candidates(self, pairs: Iterable[tuple[str, str]]) -> Iterator[Item]:
        """The items that may select a pod with any of these labels, in a lasting order."""
        yield from self._others
        for pair in pairs:
            yield from self._by_pair.get(pair, ())


class Occupancy:
    """The pods on all nodes, as far as they concern the rules of others. Not thread-safe."""

    def __init__(self) -> None:
        self.volumes = Volumes()
        self.generation = 0
        """Grows when what the rules of pods count may have changed for any gang."""
        self.openings = 0
        """Grows when it may have opened a node to a gang that the rules kept from it."""
        self._reserved: dict[ReplicaId, str] = {}
        self._occupants: dict[str, dict[Hashable, Occupant]] = {}
        self._of_namespaces: dict[str, Labels] = {}
        self._ports: dict[HostPort, Counter[str]] = {}
        self._terms: dict[AffinityTerm, Counter[str]] = {}
        self._terms_of: dict[AffinityTerm, Counter[str]] = {}
        """By anti-affinity term, the namespaces of the pods that have it."""
        self._terms_by_label: _SelectorIndex[AffinityTerm] = _SelectorIndex()
        self._counts: dict[Selection, Counter[str]] = {}
        self._counts_by_label: _SelectorIndex[Selection] = _SelectorIndex()
        self._claims: Counter[tuple[str, str]] = Counter()

    # --- what has changed

    def add(self, key: Hashable, pod: Occupant) -> None:
        """A pod has come onto a node, by its UID, or room is reserved for a replica."""
        self._occupants.setdefault(pod.namespace, {})[key] = pod
        self._count(pod, 1)

    def remove(self, key: Hashable, namespace: str) -> None:
        """It has left; nothing where it was not there."""
        of_namespace = self._occupants.get(namespace, {})
        pod = of_namespace.pop(key, None)
        if pod is None:
            return
        if not of_namespace:
            del self._occupants[namespace]
        self._count(pod, -1)

    def set(self, key: Hashable, pod: Occupant) -> None:
        """A pod is on a node, again or for the first time: what is as it was is not counted again,
        so that a changed label makes nobody's plan out of date whom it does not concern."""
        before = self._occupants.get(pod.namespace, {}).get(key)
        if before == pod:
            return
        if before is None or (before.node, before.rules) != (pod.node, pod.rules):
            self.remove(key, pod.namespace)
            self.add(key, pod)
            return
        self._occupants[pod.namespace][key] = pod
        for selection in {
            *self._counts_by_label.candidates(before.labels),
            *self._counts_by_label.candidates(pod.labels),
        }:
            change = self._selects(selection, pod) - self._selects(selection, before)
            if change:
                _add(self._counts[selection], pod.node, change)
                self._changed()

    def reserve(self, replica: ReplicaId, pod: Occupant) -> None:
        """Room is reserved for a replica; again: elsewhere."""
        self.release(replica)
        self._reserved[replica] = pod.namespace
        self.add(replica, pod)

    def release(self, replica: ReplicaId) -> None:
        """Nothing is reserved for a replica any more."""
        namespace = self._reserved.pop(replica, None)
        if namespace is not None:
            self.remove(replica, namespace)

    def volumes_changed(self) -> None:
        """A claim, volume or storage class has changed that a gang uses."""
        self._changed(opens=False)

    def set_namespace(self, name: str, labels: Labels | None) -> None:
        """Record a namespace's labels; ``None``: it is gone."""
        if self._of_namespaces.get(name) == labels:
            return
        if labels is None:
            del self._of_namespaces[name]
        else:
            self._of_namespaces[name] = labels
        for selection in [each for each in self._counts if _asks_for_namespaces(each)]:
            self._forget(selection)
        self._changed()

    def _changed(self, *, opens: bool = True) -> None:
        self.generation += 1
        self.openings += opens

    def _count(self, pod: Occupant, sign: int) -> None:
        for selection in self._counts_by_label.candidates(pod.labels):
            if self._selects(selection, pod):
                _add(self._counts[selection], pod.node, sign)
                self._changed()
        rules = pod.rules
        if rules is None:
            return
        self._changed(opens=sign < 0)  # what more pods ask for opens no node to another
        for port in rules.ports:
            _add_to(self._ports, port, pod.node, sign)
        for term in rules.anti_affinity:
            self._count_term(term, pod, sign)
        for claim in rules.claims:
            _add(self._claims, (pod.namespace, claim), sign)

    def _count_term(self, term: AffinityTerm, pod: Occupant, sign: int) -> None:
        if term not in self._terms:
            self._terms_by_label.add(term, (term.selector,))
        _add_to(self._terms, term, pod.node, sign)
        _add_to(self._terms_of, term, pod.namespace, sign)
        if term not in self._terms:
            self._terms_by_label.remove(term)

    def _selects(self, selection: Selection, pod: Occupant) -> bool:
        if selection.staying and pod.leaving:
            return False
        return selection.matches(pod.namespace, pod.labels, self._of_namespaces)

    # --- what it means for a gang

    def surroundings(self, gang: Gang, besides: Iterable[Hashable] = ()) -> Surroundings | None:
        """Return what the pods that are there mean for a gang, but for those in ``besides``: its
        own replicas that are planned again, its own pods that leave. ``None`` where no rule
        does."""
        has_rules = any(member.rules is not None for member in gang.unbound)
        if not has_rules and not self._terms:
            return None
        with self._without(gang.key.namespace, besides):
            repelling = self._repelling(gang)
            if not has_rules and not repelling:
                return None
            every = {member.rules or NO_RULES for member in gang.unbound}
            ports = {port for rules in every for port in rules.ports}
            selections = {each for rules in every for each in selections_of(rules)}
            return Surroundings(
                MappingProxyType({each: dict(self._counted(each)) for each in selections}),
                repelling,
                frozenset(name for term, _ in repelling for name in self._terms_of[term]),
                MappingProxyType(self._conflicting(ports)),
                MappingProxyType(self._claimed(gang, every)),
                MappingProxyType(dict(self._of_namespaces)),
            )

    def is_beyond_plan(self, gang: Gang) -> bool:
        """Return whether only kube-scheduler knows which nodes suit the volumes of the gang."""
        every = {member.rules for member in gang.unbound if member.rules is not None}
        return any(volume.beyond_plan for volume in self._claimed(gang, every).values())

    @contextmanager
    def _without(self, namespace: str, keys: Iterable[Hashable]) -> Iterator[None]:
        there = self._occupants.get(namespace, {})
        absent = {key: there[key] for key in keys if key in there}
        before = self.generation, self.openings
        for key in absent:
            self.remove(key, namespace)
        try:
            yield
        finally:
            for key, pod in absent.items():
                self.add(key, pod)
            self.generation, self.openings = before

    def _repelling(self, gang: Gang) -> tuple[tuple[AffinityTerm, frozenset[str]], ...]:
        """The anti-affinity terms of pods that are there which select one of the gang's."""
        if not self._terms:
            return ()
        namespace, labels = gang.key.namespace, {member.labels for member in gang.unbound}
        return tuple(
            (term, frozenset(self._terms[term])) for term in self._selecting(namespace, labels)
        )

    def has_rules_for(self, namespace: str, labels: Labels) -> bool:
        """Return whether a pod that is there has an anti-affinity term which selects such a pod."""
        return bool(self._terms) and any(self._selecting(namespace, {labels}))

    def _selecting(self, namespace: str, labels: Collection[Labels]) -> Iterator[AffinityTerm]:
        pairs = sorted({pair for each in labels for pair in each})
        return (
            term
            for term in self._terms_by_label.candidates(pairs)
            if any(term.selector.matches(namespace, each, self._of_namespaces) for each in labels)
        )

    def _conflicting(self, wanted: Iterable[HostPort]) -> dict[HostPort, frozenset[str]]:
        mine = tuple(wanted)
        if not mine:
            return {}
        return {
            port: frozenset(nodes)
            for port, nodes in self._ports.items()
            if any(port.conflicts_with(each) for each in mine)
        }

    def _claimed(self, gang: Gang, every: Iterable[PodRules]) -> dict[str, ClaimedVolume]:
        namespace = gang.key.namespace
        claims = sorted({claim for rules in every for claim in rules.claims})
        return {
            claim: self.volumes.claimed(namespace, claim, self._claims[namespace, claim])
            for claim in claims
        }

    def _counted(self, selection: Selection) -> Counter[str]:
        """Selected pods by node."""
        known = self._counts.pop(selection, None)
        if known is None:
            while len(self._counts) >= _MOST_SELECTIONS:
                self._forget(next(iter(self._counts)))
            pair = self._counts_by_label.add(selection, selection.selectors)
            selectors, staying = selection.selectors, selection.staying
            known = Counter(
                pod.node
                for pod in self._within(selection)
                if (pair is None or pair in pod.labels)
                and not (staying and pod.leaving)
                and all(each.matches_labels(pod.labels) for each in selectors)
            )
        self._counts[selection] = known  # as the last: it was asked for just now
        return known

    def _within(self, selection: Selection) -> Iterator[Occupant]:
        """The pods of the namespaces that a selection selects."""
        if _asks_for_namespaces(selection):
            candidates: Iterable[str] = self._occupants
        else:
            candidates = selection.selectors[0].namespaces
        for namespace in candidates:
            if all(
                each.matches_namespace(namespace, self._of_namespaces)
                for each in selection.selectors
            ):
                yield from self._occupants.get(namespace, {}).values()

    def _forget(self, selection: Selection) -> None:
        del self._counts[selection]
        self._counts_by_label.remove(selection)


def _asks_for_namespaces(selection: Selection) -> bool:
    return any(each.namespace_requirements is not None for each in selection.selectors)


Key = TypeVar("Key", bound=Hashable)


def _add_to(counts: dict[Key, Counter[str]], key: Key, node: str, sign: int) -> None:
    by_node = counts.setdefault(key, Counter())
    _add(by_node, node, sign)
    if not by_node:
        del counts[key]


def _add(counts: Counter[Key], key: Key, sign: int) -> None:
    counts[key] += sign
    if not counts[key]:
        del counts[key]
