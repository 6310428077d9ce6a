"""How many replicas of a kind each node holds now, and when empty: figures for people.

A copy of what is left of the nodes, as arrays, that is corrected where nodes have changed since it
was last used. It belongs to one thread at a time.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from optimus.jobs import NodeConstraints, ReplicaSpec
from optimus.nodes import Node
from optimus.placement.capacity import is_admitted
from optimus.resources import Resources, total

KIND_LABEL: Final = "node.kubernetes.io/instance-type"
"""The label that cloud providers and kubelets set: nodes without it are of one kind, ""."""

_Integers = NDArray[np.int64]
_Mask = NDArray[np.bool_]


class NodeCount(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Of some nodes, how many hold a replica."""

    nodes: int
    admit_it: int
    """Whose labels, taints and cordon let the replica in."""

    hold_it_now: int
    hold_it_empty: int
    """That have enough of every resource once no pod is on them."""

    places: int
    """How many such replicas these nodes hold now in all; not more than are wanted."""

    short_of: Mapping[str, int]
    """By resource, on how many of the nodes that admit it this resource is what limits the
    places."""


class RoleRoom(msgspec.Struct, frozen=True, rename="camel"):
    """How many nodes hold a replica: in all, and by kind of node."""

    all: NodeCount
    by_kind: Mapping[str, NodeCount]
    not_offered: tuple[str, ...] = ()
    """Resources that it asks for and that no node has."""


class NodeRoom:
    """What is left of each node."""

    def __init__(self, kind_label: str = KIND_LABEL) -> None:
        self._kind_label = kind_label
        self._left: dict[str, Resources] = {}
        self._nodes: list[Node] = []
        self.allocatable = Resources()
        """Of all nodes together."""
        self._counted: dict[tuple[ReplicaSpec, int, frozenset[str]], RoleRoom] = {}
        """Since the last change: many gangs wait with the same requests."""
        self._build({})

    def update(self, nodes: Mapping[str, Node] | None, left: Mapping[str, Resources]) -> None:
        """Take over what has changed: all ``nodes`` where any has, and what is ``left`` of some."""
        if nodes is not None or left:
            self._counted.clear()
        self._left |= left
        if nodes is not None:
            self._left = {name: self._left[name] for name in nodes if name in self._left}
            self._build(nodes)
        for name in left.keys() & self._row_of.keys():
            self._free[self._row_of[name]] = self._vector(self._left[name])

    def _build(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = list(nodes.values())
        self._row_of = {name: row for row, name in enumerate(nodes)}
        self.allocatable = total(node.allocatable for node in self._nodes)
        self._columns = sorted(self.allocatable)
        shape = (len(self._nodes), len(self._columns))
        self._whole = np.zeros(shape, dtype=np.int64)
        self._free = np.zeros(shape, dtype=np.int64)
        for row, node in enumerate(self._nodes):
            self._whole[row] = self._vector(node.allocatable)
            self._free[row] = self._vector(self._left.get(node.name, Resources()))
        kinds = [node.labels.get(self._kind_label, "") for node in self._nodes]
        self._of_kind = {
            kind: np.array([each == kind for each in kinds], dtype=np.bool_)
            for kind in sorted({*kinds})
        }
        self._admitting: dict[NodeConstraints, _Mask] = {}

    def _vector(self, amount: Resources) -> list[int]:
        return [amount[name] for name in self._columns]

    def count(
        self, spec: ReplicaSpec, wanted: int, closed: frozenset[str] = frozenset()
    ) -> RoleRoom:
        """How many nodes hold a replica, and how many of ``wanted`` there is room for.

        Nodes in ``closed`` hold none now."""
        key = (spec, wanted, closed)
        found = self._counted.get(key)
        if found is None:
            found = self._counted[key] = self._count(spec, wanted, closed)
        return found

    def _count(self, spec: ReplicaSpec, wanted: int, closed: frozenset[str]) -> RoleRoom:
        asked = {name: amount for name, amount in spec.resources.items() if amount > 0}
        missing = [name for name in asked if name not in self._columns]
        names = [name for name in self._columns if name in asked]
        columns = [self._columns.index(name) for name in names]
        amounts = np.array([asked[name] for name in names], dtype=np.int64)
        admitted = self._admits(spec.constraints)
        now, empty = (
            _places(free[:, columns], amounts, wanted, none=bool(missing))
            for free in (self._free, self._whole)
        )
        now = np.where(self._is_open(closed), now, 0)
        limits = {name: np.ones(len(self._nodes), dtype=np.bool_) for name in missing}
        if columns and not missing:
            each = np.maximum(self._free[:, columns] // amounts, 0)
            least = each.min(axis=1, initial=wanted)
            limits = {name: (each[:, at] == least) for at, name in enumerate(names)}
            limits = {name: mask & (least < wanted) for name, mask in limits.items()}

        def within(mask: _Mask) -> NodeCount:
            able = mask & admitted
            short = {name: int((limit & able).sum()) for name, limit in limits.items()}
            return NodeCount(
                nodes=int(mask.sum()),
                admit_it=int(able.sum()),
                hold_it_now=int((able & (now > 0)).sum()),
                hold_it_empty=int((able & (empty > 0)).sum()),
                places=min(int(now[able].sum()), wanted),
                short_of=_most_first(short),
            )

        every = within(np.ones(len(self._nodes), dtype=np.bool_))
        by_kind = {kind: within(mask) for kind, mask in self._of_kind.items()}
        return RoleRoom(every, by_kind, tuple(missing))

    def _admits(self, constraints: NodeConstraints) -> _Mask:
        known = self._admitting.get(constraints)
        if known is None:
            admitted = [is_admitted(node, constraints) for node in self._nodes]
            known = self._admitting[constraints] = np.array(admitted, dtype=np.bool_)
        return known

    def _is_open(self, closed: Iterable[str]) -> _Mask:
        is_open = np.ones(len(self._nodes), dtype=np.bool_)
        is_open[[self._row_of[name] for name in closed if name in self._row_of]] = False
        return is_open


def _places(free: _Integers, amounts: _Integers, wanted: int, *, none: bool) -> _Integers:
    """How many replicas each node holds; ``none``: it lacks a resource altogether."""
    if none:
        return np.zeros(len(free), dtype=np.int64)
    if not len(amounts):
        return np.full(len(free), wanted, dtype=np.int64)
    return np.asarray(np.clip((free // amounts).min(axis=1), 0, wanted))


def _most_first(counts: Mapping[str, int]) -> dict[str, int]:
    found = [(name, count) for name, count in counts.items() if count]
    return dict(sorted(found, key=lambda each: (-each[1], each[0])))
