"""Places a gang whose pods have rules about other pods, ports and volumes: whole or not at all.

1. The plan that the gang would get without rules, on the nodes that each of its replicas may use
   (for one with affinity also: of one domain): if its replicas can be bound to it one after the
   other, it is the best plan there is.
2. One pass: each replica in turn, those that may use the fewest nodes first, goes where the
   constraints that count it have the fewest pods, then to a server of the gang that has the fewest
   of its role, else to the roomiest that most of the gang may use.
3. The same with the replicas that may use the most nodes first.

Nothing is taken back, so that a gang that both passes give up on may fit all the same.
Every step is checked as kube-scheduler's filters check it for one pod, with the replicas placed
before it as bound. Deterministic: rows number nodes by name, and ties go to the first row.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np

from optimus.jobs import NodeConstraints, Role
from optimus.nodes import Node, fulfils_any
from optimus.placement.capacity import Capacity, Integers, Mask, Vector, is_admitted
from optimus.placement.gang import (
    DoesNotFit,
    Gang,
    Member,
    Placement,
    does_not_fit,
    does_not_fit_because,
)
from optimus.placement.rules import (
    NO_RULES,
    AffinityTerm,
    NodeTerms,
    PodRules,
    Selection,
    SpreadConstraint,
    Surroundings,
)

_MOST_OPTIONS: Final = 16
"""Choices of volumes tried for claims that are not bound yet."""

_MOST_DOMAINS: Final = 8
"""Domains tried for a gang whose replicas are to be in one."""

PlaceWithoutRules: TypeAlias = Callable[[Gang, Capacity], Placement | DoesNotFit]
"""Places a gang as if its pods had no rules."""

RULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ports": "no free host port for each of its pods",
        "anti-affinity": "required pod anti-affinity leaves too few nodes",
        "affinity": "required pod affinity leaves too few nodes",
        "spread": "topology spread constraints leave too few nodes",
        "volumes": "its volumes leave too few nodes",
    }
)
"""What can be in the way, in words."""


def place_by_rules(
    gang: Gang, surroundings: Surroundings, capacity: Capacity, unruled: PlaceWithoutRules
) -> Placement | DoesNotFit:
    """Choose nodes for the gang's unbound replicas that its rules allow; takes nothing."""
    problem = _problem_of_volumes(gang, surroundings)
    if problem is not None:
        return does_not_fit_because(gang, problem)
    for each in _with_options(gang, surroundings, capacity):
        found = _RuleSearch(gang, each, capacity).place(unruled)
        if found is not None:
            return found
    plain = unruled(gang, capacity)
    if isinstance(plain, DoesNotFit) and not gang.differs_within_roles:
        return plain
    concerned = [name for name in RULES if _has_rule(name, gang, surroundings)]
    if concerned:
        return does_not_fit_because(gang, ", or ".join(RULES[name] for name in concerned))
    return does_not_fit(gang)


def _has_rule(name: str, gang: Gang, surroundings: Surroundings) -> bool:
    """Return whether any rule of this name concerns the gang."""
    every = [member.rules or NO_RULES for member in gang.unbound]
    match name:
        case "ports":
            return any(each.ports for each in every)
        case "anti-affinity":
            return bool(surroundings.repelling) or any(each.anti_affinity for each in every)
        case "affinity":
            return any(each.affinity for each in every)
        case "spread":
            return any(each.spread for each in every)
        case _:
            return any(volume.terms is not None for volume in surroundings.volumes.values())


def _with_options(
    gang: Gang, surroundings: Surroundings, capacity: Capacity
) -> Iterator[Surroundings]:
    """The surroundings with one volume chosen for each claim that several replicas share and that
    is not bound yet; the nodes of replicas that count as placed must reach it."""
    mounts = Counter(
        claim for member in gang.members for claim in (member.rules or NO_RULES).claims
    )
    shared = [
        name
        for name, volume in sorted(surroundings.volumes.items())
        if volume.options and mounts[name] > 1
    ]
    every = product(*(_reachable(name, gang, surroundings, capacity) for name in shared))
    for chosen in islice(every, _MOST_OPTIONS):
        volumes = {
            name: replace(surroundings.volumes[name], terms=terms)
            for name, terms in zip(shared, chosen, strict=True)
        }
        yield replace(surroundings, volumes={**surroundings.volumes, **volumes})


def _reachable(
    claim: str, gang: Gang, surroundings: Surroundings, capacity: Capacity
) -> list[NodeTerms]:
    """The options of a claim that the gang's placed replicas leave."""
    rows = [
        capacity.row_of[member.node]
        for member in gang.members
        if member.node in capacity.row_of and claim in (member.rules or NO_RULES).claims
    ]
    return [
        terms
        for terms in surroundings.volumes[claim].options
        if all(fulfils_any(terms, capacity.nodes[row]) for row in rows)
    ]


def _problem_of_volumes(gang: Gang, surroundings: Surroundings) -> str | None:
    """Return what keeps every pod that mounts one of the gang's claims from being placed."""
    if not surroundings.volumes:
        return None
    claims = [claim for member in gang.members for claim in (member.rules or NO_RULES).claims]
    waiting = {claim for member in gang.unbound for claim in (member.rules or NO_RULES).claims}
    for claim in sorted(waiting & surroundings.volumes.keys()):
        volume = surroundings.volumes[claim]
        if volume.problem is not None:
            return volume.problem
        if volume.exclusive and claims.count(claim) > 1:
            return f"one pod alone may mount persistent volume claim {claim} (ReadWriteOncePod)"
    return None


# --- what is counted


@dataclass(eq=False, slots=True)
class _Domains:
    """The values of one node label: the domain of each row, ``size`` for nodes without it."""

    of_row: Integers
    size: int

    @classmethod
    def of(cls, key: str, nodes: Sequence[Node]) -> "_Domains":
        values = [node.labels.get(key) for node in nodes]
        numbers = {
            value: at for at, value in enumerate(sorted({v for v in values if v is not None}))
        }
        of_row = [len(numbers) if value is None else numbers[value] for value in values]
        return cls(np.array(of_row, dtype=np.int64), len(numbers))


@dataclass(eq=False, slots=True)
class _Tally:
    """Pods by domain; the last entry stands for nodes without the label, and stays 0."""

    domains: _Domains
    eligible: Mask | None = None
    """The rows of which pods count; every row by default."""

    counts: Integers = field(init=False)

    def __post_init__(self) -> None:
        """Start from no pods."""
        self.counts = np.zeros(self.domains.size + 1, dtype=np.int64)

    def add(self, row: int, count: int) -> None:
        """Count pods on a node."""
        domain = self.domains.of_row[row]
        if domain < self.domains.size and (self.eligible is None or self.eligible[row]):
            self.counts[domain] += count

    def by_row(self) -> Integers:
        """The pods in the domain of each row."""
        return np.asarray(self.counts[self.domains.of_row])


@dataclass(eq=False, slots=True)
class _Spread:
    """One topology spread constraint of some replicas."""

    tally: _Tally
    max_skew: int
    counts_itself: bool
    """Whether the constraint selects the replica that has it."""

    present: Integers
    """The domains that count towards the minimum."""

    enough_domains: bool

    def allows(self) -> Mask:
        """The rows that a further replica may go to."""
        here = self.tally.counts[self.present]
        least = int(here.min()) if self.enough_domains and len(here) else 0
        return np.asarray(self.tally.by_row() + self.counts_itself - least <= self.max_skew)


@dataclass(eq=False, slots=True)
class _ReplicaGroup:
    """Unbound replicas that are alike: of one role, with the same requests, rules and selectors
    that match them."""

    role: Role
    members: list[Member]
    amount: Vector
    rules: PodRules
    matched: tuple[bool, ...]
    static: Mask
    """The rows that it may use as far as the gang's unbound replicas do not matter."""

    anti: list[_Tally] = field(default_factory=list)
    """Pods that it must not be beside, and pods that must not be beside it."""

    affinity: list[_Tally] = field(default_factory=list)
    may_be_first: bool = False
    """Whether it is itself one of the pods that it wants to be beside."""

    labelled: Mask | None = None
    """The rows that have every label that its affinity and spread name."""

    spread: list[_Spread] = field(default_factory=list)
    conflicting: list["_ReplicaGroup"] = field(default_factory=list)
    """Groups that cannot share a node with it, for a host port."""

    taken: Integers | None = None
    """By row, replicas with a conflicting host port."""

    counted_by: list[_Tally] = field(default_factory=list)
    evened: list[_Tally] = field(default_factory=list)
    """Those of them that belong to a topology spread constraint."""

    placed: int = 0

    @property
    def is_deferrable(self) -> bool:
        """Return whether further replicas may open nodes to it that are closed now."""
        return bool(self.affinity or self.spread)


# --- the search


class _RuleSearch:
    """One gang on one capacity index."""

    def __init__(
        self,
        gang: Gang,
        surroundings: Surroundings,
        capacity: Capacity,
    ) -> None:
        self._gang, self._surroundings, self._capacity = gang, surroundings, capacity
        self._nodes = capacity.nodes
        self._free = np.array(capacity.free, dtype=np.int64).reshape(len(self._nodes), -1)
        self._domains: dict[str, _Domains] = {}
        self._tallies: dict[tuple[Selection, str, object], _Tally] = {}
        self._terms: dict[NodeTerms, Mask] = {}
        self._admitted: dict[NodeConstraints, Mask] = {}
        self._counts = {role: np.zeros(len(self._nodes), dtype=np.int64) for role in Role}
        for member in gang.members:
            if member.node is not None and member.node in capacity.row_of:
                self._counts[member.role][capacity.row_of[member.node]] += 1
        self._used = sum(self._counts.values(), np.zeros(len(self._nodes), dtype=np.int64))
        self._groups = self._grouped()
        self._prepare(self._groups)
        self._groups.sort(key=lambda g: (int(g.static.sum()), g.role, g.members[0].index))

    def place(self, unruled: PlaceWithoutRules) -> Placement | None:
        """A node for every unbound replica, if one is found."""
        if not all(group.static.any() for group in self._groups):
            return None
        gang = replace(self._gang, surroundings=None)
        for usable in self._usable():
            plan = unruled(gang, usable)
            if isinstance(plan, Placement) and self._can_be_bound(plan):
                return plan
        for order in (self._groups, self._groups[::-1]):
            rows = self._pass(order)
            if rows is not None and self._is_bound_in_every_order(rows):
                return self._named(rows)
        return None

    def _can_be_bound(self, plan: Placement) -> bool:
        """Return whether the replicas can be bound to these nodes one after the other, whichever
        kube-scheduler takes first; takes nothing."""
        rows: dict[int, list[int]] = {}
        for group in self._groups:
            for member in group.members:
                node = plan.nodes.get(self._gang.replica(member))
                if node is None or node not in self._capacity.row_of:
                    return False
                rows.setdefault(id(group), []).append(self._capacity.row_of[node])
        return self._is_bound_in_every_order(rows)

    def _is_bound_in_every_order(self, rows: Mapping[int, Sequence[int]]) -> bool:
        """Return whether replicas on these rows, by the ``id`` of their group, are bound in the
        orders that can go wrong.

        A topology spread can refuse a pod because of others that were bound before it, and a pod
        affinity that its first pod need not fulfil can do so, too. The worst order therefore
        begins with the groups that have neither; of those that have one, each may be the first.
        """
        ruled = [group for group in self._groups if group.spread or group.affinity]
        plain = [group for group in self._groups if not (group.spread or group.affinity)]
        orders = [[*plain, *ruled[at:], *ruled[:at]] for at in range(len(ruled))] or [plain]
        return all(self._is_bound_in_order(order, rows) for order in orders)

    def _is_bound_in_order(
        self, groups: Sequence[_ReplicaGroup], rows: Mapping[int, Sequence[int]]
    ) -> bool:
        """Return whether all are bound where each round tries the groups in this order."""
        waiting = [(group, row) for group in groups for row in rows[id(group)]]
        done: list[tuple[_ReplicaGroup, int]] = []
        progress = True
        while waiting and progress:
            progress, left = False, []
            for group, row in waiting:
                if self._allowed(group)[row]:
                    self._take(group, row, 1)
                    done.append((group, row))
                    progress = True
                else:
                    left.append((group, row))
            waiting = left
        for group, row in done:
            self._take(group, row, -1)
        return not waiting

    # --- groups and what concerns them

    def _grouped(self) -> list[_ReplicaGroup]:
        """The unbound replicas in groups; one that asks for what no node has may use no row."""
        terms = sorted(
            {term for m in self._gang.unbound for term in (m.rules or NO_RULES).anti_affinity},
            key=repr,
        )
        selections = sorted(
            {each for m in self._gang.unbound for each in _selections(m.rules or NO_RULES)},
            key=repr,
        )
        self._asked = [*(Selection((term.selector,)) for term in terms), *selections]
        groups: dict[object, _ReplicaGroup] = {}
        matched: dict[object, tuple[bool, ...]] = {}
        for member in sorted(self._gang.unbound, key=lambda each: (each.role, each.index)):
            if member.labels not in matched:
                matched[member.labels] = tuple(self._matches(each, member) for each in self._asked)
            signature, rules = matched[member.labels], member.rules or NO_RULES
            repelled = self._is_repelled_by(member)
            key = (member.role, member.spec, member.excluded, rules, signature, repelled)
            if key in groups:
                groups[key].members.append(member)
                continue
            amount = self._capacity.vector(member.spec.resources)
            static = self._static(member, rules)
            if amount is None:
                amount = (0,) * len(self._capacity.resources)
                static[:] = False
            groups[key] = _ReplicaGroup(member.role, [member], amount, rules, signature, static)
        return list(groups.values())

    def _matches(self, selection: Selection, member: Member) -> bool:
        namespace, of_namespaces = self._gang.key.namespace, self._surroundings.of_namespaces
        return selection.matches(namespace, member.labels, of_namespaces)

    def _is_repelled_by(self, member: Member) -> tuple[int, ...]:
        """Return which anti-affinities of pods that are there select the member."""
        return tuple(
            at
            for at, (term, _) in enumerate(self._surroundings.repelling)
            if self._matches(Selection((term.selector,)), member)
        )

    def _prepare(self, groups: list[_ReplicaGroup]) -> None:
        """Connect the groups with what is counted, for their own rules and for one another's."""
        for group in groups:
            self._prepare_affinity(group)
            group.spread = [self._spread(group, each) for each in group.rules.spread]
            if group.spread:
                group.static &= self._labelled(each.topology_key for each in group.rules.spread)
            group.conflicting = [
                other
                for other in groups
                if any(a.conflicts_with(b) for a in group.rules.ports for b in other.rules.ports)
            ]
            if group.conflicting:
                group.taken = np.zeros(len(self._nodes), dtype=np.int64)
        for group in groups:
            for (selection, _, spread), tally in self._tallies.items():
                if group.matched[self._asked.index(selection)]:
                    group.counted_by.append(tally)
                    if spread is not None:
                        group.evened.append(tally)
        for term in {term for group in groups for term in group.rules.anti_affinity}:
            self._prepare_repelling(term, groups)
        column = self._capacity.dominant(self._demand())
        self._dominant = self._free[:, column] if column >= 0 else np.zeros(len(self._nodes))
        self._popularity = sum(
            (group.static.astype(np.int64) for group in groups),
            np.zeros(len(self._nodes), dtype=np.int64),
        )

    def _prepare_affinity(self, group: _ReplicaGroup) -> None:
        rules = group.rules
        group.anti = [
            self._tally(Selection((term.selector,)), term.topology_key)
            for term in rules.anti_affinity
        ]
        if rules.affinity:
            together = Selection(tuple(term.selector for term in rules.affinity))
            group.affinity = [self._tally(together, term.topology_key) for term in rules.affinity]
            group.may_be_first = group.matched[self._asked.index(together)]
            group.labelled = self._labelled(term.topology_key for term in rules.affinity)

    def _prepare_repelling(self, term: AffinityTerm, groups: Sequence[_ReplicaGroup]) -> None:
        """A replica with an anti-affinity keeps those that it selects away, as they keep it."""
        owners = _Tally(self._domain(term.topology_key))
        for group in groups:
            if term in group.rules.anti_affinity:
                group.counted_by.append(owners)
            if group.matched[self._asked.index(Selection((term.selector,)))]:
                group.anti.append(owners)

    def _domain(self, key: str) -> _Domains:
        if key not in self._domains:
            self._domains[key] = _Domains.of(key, self._nodes)
        return self._domains[key]

    def _labelled(self, keys: Iterator[str]) -> Mask:
        """The rows that have all these labels."""
        found = np.ones(len(self._nodes), dtype=np.bool_)
        for key in keys:
            domain = self._domain(key)
            found &= domain.of_row < domain.size
        return found

    def _tally(
        self, selection: Selection, key: str, eligible: Mask | None = None, of: object = None
    ) -> _Tally:
        """The count of selected pods by domain, the pods that are there included."""
        known = self._tallies.get((selection, key, of))
        if known is None:
            known = self._tallies[selection, key, of] = _Tally(self._domain(key), eligible)
            for node, count in self._surroundings.counts.get(selection, {}).items():
                if node in self._capacity.row_of:
                    known.add(self._capacity.row_of[node], count)
        return known

    def _spread(self, group: _ReplicaGroup, constraint: SpreadConstraint) -> _Spread:
        member, rules = group.members[0], group.rules
        eligible = self._labelled(each.topology_key for each in rules.spread)
        constraints = member.spec.constraints
        if constraint.honours_affinity:
            asked = replace(constraints, tolerations=())
            eligible = eligible & np.array(
                [_is_selected(node, asked) for node in self._nodes], dtype=np.bool_
            )
        if constraint.honours_taints:
            tolerations = NodeConstraints(tolerations=constraints.tolerations)
            eligible = eligible & np.array(
                [is_admitted(replace(node, cordoned=False), tolerations) for node in self._nodes],
                dtype=np.bool_,
            )
        selection = Selection((constraint.selector,), staying=True)
        tally = self._tally(selection, constraint.topology_key, eligible, eligible.tobytes())
        present = np.unique(tally.domains.of_row[eligible])
        return _Spread(
            tally,
            constraint.max_skew,
            group.matched[self._asked.index(selection)],
            present,
            len(present) >= constraint.min_domains,
        )

    # --- nodes that are ruled out from the start

    def _static(self, member: Member, rules: PodRules) -> Mask:
        """The rows that the member may use as far as the gang's unbound replicas do not matter."""
        mask = self._admits(member.spec.constraints).copy()
        self._rule_out(mask, member.excluded)
        for claim in rules.claims:
            volume = self._surroundings.volumes.get(claim)
            if volume is not None and volume.terms is not None:
                mask &= self._fulfilling(volume.terms)
        for port, names in self._surroundings.ports.items() if rules.ports else ():
            if any(mine.conflicts_with(port) for mine in rules.ports):
                self._rule_out(mask, names)
        for at in self._is_repelled_by(member):
            self._keep_away(mask, *self._surroundings.repelling[at])
        return mask

    def _rule_out(self, mask: Mask, names: frozenset[str]) -> None:
        for name in names & self._capacity.row_of.keys():
            mask[self._capacity.row_of[name]] = False

    def _keep_away(self, mask: Mask, term: AffinityTerm, names: frozenset[str]) -> None:
        owners = _Tally(self._domain(term.topology_key))
        for name in names & self._capacity.row_of.keys():
            owners.add(self._capacity.row_of[name], 1)
        mask &= owners.by_row() == 0

    def _admits(self, constraints: NodeConstraints) -> Mask:
        if constraints not in self._admitted:
            self._admitted[constraints] = np.array(
                [is_admitted(node, constraints) for node in self._nodes], dtype=np.bool_
            )
        return self._admitted[constraints]

    def _fulfilling(self, terms: NodeTerms) -> Mask:
        if terms not in self._terms:
            self._terms[terms] = np.array(
                [fulfils_any(terms, node) for node in self._nodes], dtype=np.bool_
            )
        return self._terms[terms]

    def _usable(self) -> Iterator[Capacity]:
        """The capacity without the nodes that some replica may not use; then, where replicas are to
        be beside others, with one domain alone, those with most of the dominant resource first."""
        groups = self._groups
        usable = np.logical_and.reduce([group.static for group in groups])
        yield self._with_rows(usable)
        keys = {term.topology_key for group in groups for term in group.rules.affinity}
        for key in sorted(keys):
            domain = self._domain(key)
            here = np.where(usable, domain.of_row, domain.size)
            free = np.maximum(self._dominant, 0)
            sums = np.bincount(here, weights=free, minlength=domain.size + 1)[: domain.size]
            for number in np.argsort(-sums, kind="stable")[:_MOST_DOMAINS].tolist():
                yield self._with_rows(here == number)

    def _with_rows(self, usable: Mask) -> Capacity:
        if usable.all():
            return self._capacity
        unusable = np.flatnonzero(~usable).tolist()
        return self._capacity.without(self._nodes[row].name for row in unusable)

    # --- one step

    def _allowed(self, group: _ReplicaGroup) -> Mask:
        """The rows that the group's next replica may go to."""
        mask = group.static.copy()
        for column, asked in enumerate(group.amount):
            if asked > 0:
                mask &= self._free[:, column] >= asked
        if group.taken is not None:
            mask &= group.taken == 0
        for tally in group.anti:
            mask &= tally.by_row() == 0
        if group.affinity:
            first = group.may_be_first and not any(each.counts.any() for each in group.affinity)
            for tally in () if first else group.affinity:
                mask &= tally.by_row() > 0
            if first and group.labelled is not None:
                mask &= group.labelled
        for spread in group.spread:
            mask &= spread.allows()
        return mask

    def _take(self, group: _ReplicaGroup, row: int, sign: int) -> None:
        """Put a replica of a group on a row, or take it away again (``sign`` -1)."""
        self._free[row] -= sign * np.array(group.amount, dtype=np.int64)
        self._counts[group.role][row] += sign
        self._used[row] += sign
        group.placed += sign
        for tally in group.counted_by:
            tally.add(row, sign)
        for other in group.conflicting:
            if other.taken is not None:
                other.taken[row] += sign

    def _best(self, group: _ReplicaGroup, rows: Integers) -> int:
        """The row, of these, for the group's next replica."""
        pods = sum((tally.by_row()[rows] for tally in group.evened), np.zeros_like(rows))
        order = np.lexsort(
            (
                rows,
                -self._dominant[rows],
                -self._popularity[rows],
                -self._used[rows],
                self._counts[group.role][rows],
                self._used[rows] == 0,
                pods,
            )
        )
        return int(rows[order[0]])

    # --- many steps

    def _pass(self, order: Sequence[_ReplicaGroup]) -> dict[int, list[int]] | None:
        """The rows of every replica, by the ``id`` of its group, where each finds one; takes
        nothing."""
        taken: list[tuple[_ReplicaGroup, int]] = []
        while (step := self._next(order)) is not None:
            self._take(*step, 1)
            taken.append(step)
        rows: dict[int, list[int]] = {}
        for group, row in taken:
            rows.setdefault(id(group), []).append(row)
            self._take(group, row, -1)
        return rows if len(taken) == len(self._gang.unbound) else None

    def _next(self, order: Sequence[_ReplicaGroup]) -> tuple[_ReplicaGroup, int] | None:
        """The group whose turn it is, and the row: the first that has any."""
        for group in order:
            if group.placed == len(group.members):
                continue
            rows = np.flatnonzero(self._allowed(group))
            if len(rows):
                return group, self._best(group, rows)
            if not group.is_deferrable:
                return None
        return None

    def _named(self, rows: Mapping[int, Sequence[int]]) -> Placement:
        """The plan by names; of one group, replicas of lower indices were placed first."""
        nodes = {
            self._gang.replica(member): self._nodes[row].name
            for group in self._groups
            for member, row in zip(group.members, rows[id(group)], strict=True)
        }
        return Placement(self._gang.job_uid, MappingProxyType(dict(sorted(nodes.items()))))

    def _demand(self) -> Vector:
        sums = [0] * len(self._capacity.resources)
        for group in self._groups:
            sums = [a + len(group.members) * b for a, b in zip(sums, group.amount, strict=True)]
        return tuple(sums)


def _selections(rules: PodRules) -> Iterator[Selection]:
    if rules.affinity:
        yield Selection(tuple(term.selector for term in rules.affinity))
    for each in rules.spread:
        yield Selection((each.selector,), staying=True)


def _is_selected(node: Node, constraints: NodeConstraints) -> bool:
    """Return whether selector and affinity admit the node, whatever its taints."""
    return is_admitted(replace(node, taints=(), cordoned=False), constraints)
