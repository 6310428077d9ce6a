"""Records what a gang lacks that does not fit: it is not tried again until nodes have gained that
much.

A refusal holds until a node that admits the gang can hold more of the replicas that it lacked:
``Shortfall`` records how many were lacking, and compares nodes that change with what they had then.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from optimus.jobs import NodeConstraints
from optimus.nodes import Node
from optimus.placement.capacity import Capacity, Vector, is_admitted
from optimus.placement.gang import DoesNotFit, Gang


class Shortage(NamedTuple):
    """How many replicas with this request found no place. Without ``amount`` it is not known which:
    any node that admits them and has more of ``asked`` may help."""

    missing: int
    constraints: frozenset[NodeConstraints]
    amount: Vector | None = None
    asked: tuple[int, ...] = ()
    """The columns of the resources that count without ``amount``."""

    def replicas_on(self, free: Vector) -> int:
        """Return how many such replicas fit into what is free on a node."""
        assert self.amount is not None
        counts = [have // each for have, each in zip(free, self.amount, strict=True) if each > 0]
        return max(min(counts, default=0), 0)

    def gain(self, before: Vector, after: Vector) -> int:
        """Return how many more a node holds than before."""
        if self.amount is not None:
            return max(self.replicas_on(after) - self.replicas_on(before), 0)
        return int(any(after[column] > before[column] for column in self.asked))


@dataclass(slots=True)
class Shortfall:
    """What gangs of one shape lacked on one state of the cluster. Belongs to the planner's thread.

    ``before`` has what was left of each node that has changed since; gangs refused between the same
    two plans share it."""

    shortages: Sequence[Shortage]
    before: dict[str, Vector]
    closed: frozenset[str] = frozenset()
    """Nodes that do not count."""

    gains: dict[str, list[int]] = field(default_factory=dict)

    def update(self, node: Node, now: Vector) -> None:
        """A node has changed."""
        if node.name in self.closed:
            return
        before = self.before[node.name]
        grew = any(after > was for after, was in zip(now, before, strict=True))
        if not grew:
            self.gains.pop(node.name, None)
            return
        self.gains[node.name] = [
            each.gain(before, now)
            if any(is_admitted(node, constraints) for constraints in each.constraints)
            else 0
            for each in self.shortages
        ]

    def is_covered(self) -> bool:
        """Return whether nodes have gained as much as was lacking."""
        return bool(self.gains) and all(
            sum(gains[at] for gains in self.gains.values()) >= each.missing
            for at, each in enumerate(self.shortages)
        )


def shortages(gang: Gang, capacity: Capacity) -> tuple[Shortage, ...]:
    """Return what a gang that does not fit lacks, by request and in all.

    Each is a necessary condition: until nodes gain that many places, the gang fits nowhere."""
    specs = Counter(member.spec for member in gang.unbound)
    amounts = {spec: capacity.vector(spec.resources) for spec in specs}
    wanted = [
        (frozenset({spec.constraints}), amounts[spec], count) for spec, count in specs.items()
    ]
    known = [amount for amount in amounts.values() if amount is not None]
    every = frozenset(spec.constraints for spec in specs)
    if len(known) > 1:
        # A node with room for n replicas has room for n times the least that any of them asks for.
        wanted.append((every, tuple(map(min, *known)), specs.total()))
    found = []
    for constraints, amount, count in wanted:
        if amount is None:  # no node has such a resource: a new kind of node ends every refusal
            return (Shortage(1, frozenset()),)
        missing = count - _replicas_that_fit(capacity, constraints, amount, count)
        if missing > 0:
            found.append(Shortage(missing, constraints, amount))
    asked = {column for amount in known for column, each in enumerate(amount) if each > 0}
    return tuple(found) or (Shortage(1, every, None, tuple(sorted(asked))),)


def _replicas_that_fit(
    capacity: Capacity, constraints: Iterable[NodeConstraints], amount: Vector, most: int
) -> int:
    """How many replicas with this request the nodes hold that admit any of the constraints."""
    columns = [(column, each) for column, each in enumerate(amount) if each > 0]
    if not columns:
        return most
    masks = [capacity.admits(each) for each in constraints]
    replicas = np.min([capacity.class_free[:, column] // each for column, each in columns], axis=0)
    replicas = np.clip(replicas, 0, most) * capacity.class_sizes
    if all(mask is not None for mask in masks):
        replicas = replicas * np.any([mask for mask in masks if mask is not None], axis=0)
    return int(replicas.sum())


@dataclass(frozen=True, slots=True)
class GangRefusal:
    """Why a gang is not planned, and what it lacks."""

    answer: DoesNotFit
    shortfall: Shortfall
    at: float
    """When it was found out (monotonic, seconds)."""

    rules_openings: int | None = None
    """Where rules of pods concern the gang, the snapshot's."""

    blocked_by: frozenset[str] = frozenset()
    """Nodes that are closed for the gang and without which it would fit."""
