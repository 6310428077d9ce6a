"""kube-scheduler's rules about pods beside pods, written down slowly and one by one.

Independent of what plans: pods and nodes are looked at as kube-scheduler's filters look at them,
for one pod at a time, with every pod that is on a node already.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, permutations, product

from optimus.jobs import NodeConstraints, Requirement
from optimus.nodes import Node, refusal
from optimus.placement.rules import NO_RULES, AffinityTerm, PodRules, PodSelector, SpreadConstraint
from optimus.resources import Resources


@dataclass(frozen=True)
class OnePod:
    """A pod, as the filters look at it."""

    namespace: str
    labels: Mapping[str, str]
    rules: PodRules = NO_RULES
    resources: Resources = field(default_factory=Resources)
    constraints: NodeConstraints = field(default_factory=NodeConstraints)
    leaving: bool = False
    claims: Mapping[str, tuple[tuple[Requirement, ...], ...]] = field(default_factory=dict)
    """The nodes that reach the volumes of its claims."""


Placed = Sequence[tuple[OnePod, Node]]


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """A requirement on labels, by the documentation of label selectors."""
    there = requirement.key in labels
    if requirement.operator == "Exists":
        return there
    if requirement.operator == "DoesNotExist":
        return not there
    if requirement.operator == "In":
        return there and labels[requirement.key] in requirement.values
    return not there or labels[requirement.key] not in requirement.values


def selects(selector: PodSelector, pod: OnePod) -> bool:
    """Whether a selector without namespace labels selects the pod."""
    if selector.requirements is None or pod.namespace not in selector.namespaces:
        return False
    return all(holds(each, pod.labels) for each in selector.requirements)


def together(key: str, one: Node, other: Node) -> bool:
    """Whether two nodes are in one domain of a topology."""
    return key in one.labels and key in other.labels and one.labels[key] == other.labels[key]


def may_go(pod: OnePod, node: Node, placed: Placed, nodes: Sequence[Node]) -> bool:
    """Whether kube-scheduler would put the pod on the node now."""
    return (
        refusal(node, pod.constraints) is None
        and all(reaches(terms, node) for terms in pod.claims.values())
        and has_room(pod, node, placed)
        and has_ports(pod, node, placed)
        and is_apart(pod, node, placed)
        and (not pod.rules.affinity or is_beside(pod, pod.rules.affinity, node, placed))
        and all(is_spread(pod, each, node, placed, nodes) for each in pod.rules.spread)
    )


def reaches(terms: Sequence[Sequence[Requirement]], node: Node) -> bool:
    """Whether the node reaches a volume."""
    return any(all(holds(each, node.labels) for each in term) for term in terms)


def has_room(pod: OnePod, node: Node, placed: Placed) -> bool:
    """Whether the node has what the pod requests."""
    here = [other for other, where in placed if where.name == node.name]
    return all(
        pod.resources[name] <= node.allocatable[name] - sum(other.resources[name] for other in here)
        for name in pod.resources
    )


def has_ports(pod: OnePod, node: Node, placed: Placed) -> bool:
    """Whether the pod's host ports are free on the node."""
    every = "0.0.0.0"
    here = [other for other, where in placed if where.name == node.name]
    return not any(
        (mine.port, mine.protocol) == (theirs.port, theirs.protocol)
        and (every in (mine.address, theirs.address) or mine.address == theirs.address)
        for other in here
        for mine, theirs in product(pod.rules.ports, other.rules.ports)
    )


def is_apart(pod: OnePod, node: Node, placed: Placed) -> bool:
    """Required anti-affinity, of the pod towards others and of others towards it."""
    for other, where in placed:
        for owner, selected in ((pod, other), (other, pod)):
            for term in owner.rules.anti_affinity:
                if selects(term.selector, selected) and together(term.topology_key, where, node):
                    return False
    return True


def is_beside(pod: OnePod, terms: Sequence[AffinityTerm], node: Node, placed: Placed) -> bool:
    """Required affinity; the first of pods that want to be together may go anywhere."""
    if any(term.topology_key not in node.labels for term in terms):
        return False
    wanted = [(o, w) for o, w in placed if all(selects(t.selector, o) for t in terms)]
    if all(any(together(term.topology_key, where, node) for _, where in wanted) for term in terms):
        return True
    countable = [w for _, w in wanted if any(term.topology_key in w.labels for term in terms)]
    return not countable and all(selects(term.selector, pod) for term in terms)


def is_spread(
    pod: OnePod, constraint: SpreadConstraint, node: Node, placed: Placed, nodes: Sequence[Node]
) -> bool:
    """A topology spread constraint with DoNotSchedule."""
    key = constraint.topology_key
    if any(each.topology_key not in node.labels for each in pod.rules.spread):
        return False
    domains: dict[str, int] = {}
    on: dict[str, list[OnePod]] = {}
    for other, where in placed:
        on.setdefault(where.name, []).append(other)
    for each in nodes:
        if any(other.topology_key not in each.labels for other in pod.rules.spread):
            continue
        asked = NodeConstraints(pod.constraints.selector, pod.constraints.affinity)
        bare = Node(each.name, each.allocatable, each.labels)
        if constraint.honours_affinity and refusal(bare, asked) is not None:
            continue
        tolerations = NodeConstraints(tolerations=pod.constraints.tolerations)
        tainted = Node(each.name, each.allocatable, each.labels, each.taints)
        if constraint.honours_taints and refusal(tainted, tolerations) is not None:
            continue
        count = sum(
            not other.leaving and selects(constraint.selector, other)
            for other in on.get(each.name, ())
        )
        domains[each.labels[key]] = domains.get(each.labels[key], 0) + count
    enough = len(domains) >= constraint.min_domains
    least = min(domains.values()) if domains and enough else 0
    skew = domains.get(node.labels[key], 0) + selects(constraint.selector, pod) - least
    return skew <= constraint.max_skew


def can_bind(plan: Sequence[tuple[OnePod, Node]], placed: Placed, nodes: Sequence[Node]) -> bool:
    """Whether the pods can be bound to their nodes, whichever kube-scheduler takes first: no choice
    among those that may be bound next leads to where none of the rest may.

    Of plans of more than eight pods one order is tried: there are too many.
    """
    every = tuple(plan)
    tried = 1 if len(every) > 8 else None
    seen = {0}
    states = [0]
    while states:
        bound = states.pop()
        there = [*placed, *(each for at, each in enumerate(every) if bound >> at & 1)]
        possible = (
            bound | 1 << at
            for at, (pod, node) in enumerate(every)
            if not bound >> at & 1 and may_go(pod, node, there, nodes)
        )
        further = {*islice(possible, tried)}
        if not further and bound != (1 << len(every)) - 1:
            return False
        states += further - seen
        seen |= further
    return True


def any_plan(pods: Sequence[OnePod], placed: Placed, nodes: Sequence[Node]) -> bool:
    """Whether there is an order, and a node for each pod in it, that kube-scheduler accepts."""
    return any(_fits_in_order(order, list(placed), nodes) for order in _orders(pods))


def _orders(pods: Sequence[OnePod]) -> Iterator[tuple[OnePod, ...]]:
    seen = set()
    for order in permutations(range(len(pods))):
        key = tuple(repr(pods[at]) for at in order)
        if key not in seen:
            seen.add(key)
            yield tuple(pods[at] for at in order)


def _fits_in_order(
    pods: Sequence[OnePod], there: list[tuple[OnePod, Node]], nodes: Sequence[Node]
) -> bool:
    if not pods:
        return True
    for node in nodes:
        if may_go(pods[0], node, there, nodes) and _fits_in_order(
            pods[1:], [*there, (pods[0], node)], nodes
        ):
            return True
    return False
