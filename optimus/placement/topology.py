"""Prefers nodes of one topology domain and of one kind for a gang, where they hold it whole.

Pods of one zone or rack exchange parameters over shorter links, and a sync job on mixed nodes
trains at the speed of the slowest. A gang that needs more than one node is tried in the domains of
the most specific label first, those with least free before others, then of the next wider label; in
a domain first on nodes of one kind. Where none holds it, it goes where it would go without these
preferences: they refuse nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from optimus.nodes import Node
from optimus.placement.capacity import Capacity, Integers
from optimus.placement.gang import DoesNotFit, Gang, Placement

_MOST_TRIES: Final = 4
"""Domains of one label, and kinds of nodes in one domain, that are tried for a gang."""

_INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"

_ACCELERATORS: Final = (
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "accelerator",
)

_MEMORY_UNIT: Final = 1 << 30
"""Equal machines report slightly different memory."""

_Place = Callable[[Gang, Capacity], Placement | DoesNotFit]
_Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class NodePreferences:
    """Which nodes a gang is placed together on, if they hold it."""

    topology: tuple[str, ...] = ()
    """Node labels, the most specific last, e.g. zone and rack."""

    one_kind: bool = False
    """Whether nodes of one kind are preferred within a domain."""

    def place(
        self, gang: Gang, capacity: Capacity, anywhere: Placement, place: _Place
    ) -> Placement:
        """A placement that follows the preferences; ``anywhere`` is the one without them."""
        names = {*anywhere.nodes.values(), *_bound(gang)}
        used = [capacity.row_of[name] for name in sorted(names) if name in capacity.row_of]
        if len(used) <= 1 or not (self.topology or self._are_mixed(used, capacity)):
            return anywhere
        room = _Room(gang, capacity)
        for depth in range(len(self.topology), -1, -1):
            key = _Domain(self.topology[:depth])
            mixed: Placement | None = None
            for rows in room.domains(key, np.arange(len(capacity.nodes))):
                found = place(gang, _only(capacity, rows)) if depth else anywhere
                if isinstance(found, DoesNotFit):
                    continue
                uniform = self._on_one_kind(gang, capacity, rows, found, room, place)
                if uniform is not None:
                    return uniform
                mixed = mixed or found
            if mixed is not None:
                return mixed
        return anywhere

    def _are_mixed(self, rows: Iterable[int], capacity: Capacity) -> bool:
        """Whether these nodes should be, and are not, of one kind."""
        return self.one_kind and len({kind_of(capacity.nodes[row]) for row in rows}) > 1

    def _on_one_kind(
        self,
        gang: Gang,
        capacity: Capacity,
        rows: Integers,
        found: Placement,
        room: "_Room",
        place: _Place,
    ) -> Placement | None:
        """The gang on nodes of one kind among these; ``None`` where no kind holds it whole."""
        names = {*found.nodes.values(), *_bound(gang)} & capacity.row_of.keys()
        if not self._are_mixed([capacity.row_of[name] for name in names], capacity):
            return found
        for alike in room.domains(kind_of, rows):
            answer = place(gang, _only(capacity, alike))
            if isinstance(answer, Placement):
                return answer
        return None


def kind_of(node: Node) -> _Key:
    """What makes nodes equally fast: instance type and accelerator, or without the label of the
    instance type what is allocatable."""
    accelerators = tuple(node.labels.get(label) for label in _ACCELERATORS)
    if _INSTANCE_TYPE in node.labels:
        return node.labels[_INSTANCE_TYPE], *accelerators
    amounts = sorted(node.allocatable.items())
    rounded = tuple(
        (name, round(amount / _MEMORY_UNIT) if amount > _MEMORY_UNIT else amount)
        for name, amount in amounts
    )
    return (*rounded, *accelerators)


@dataclass(frozen=True, slots=True)
class _Domain:
    """The topology domain of a node: its values of these labels, ``None`` where it lacks one."""

    labels: tuple[str, ...]

    def __call__(self, node: Node) -> _Key | None:
        values = tuple(node.labels.get(label) for label in self.labels)
        return None if None in values else values


class _Room:
    """What is free, to leave out domains that cannot hold the gang."""

    def __init__(self, gang: Gang, capacity: Capacity) -> None:
        self._capacity = capacity
        self._free = np.maximum(np.array(capacity.free, dtype=np.int64), 0)
        self._wanted = np.array(capacity.vector(gang.demand()) or (), dtype=np.int64)
        self._bound = {capacity.row_of[name] for name in _bound(gang) if name in capacity.row_of}

    def domains(self, key: Callable[[Node], _Key | None], rows: Integers) -> Iterator[Integers]:
        """The domains among these rows that might hold the gang, those with least free first: the
        others stay whole for larger gangs. Bound replicas are in the domain."""
        members: dict[_Key, list[int]] = {}
        for row in rows.tolist():
            name = key(self._capacity.nodes[row])
            if name is not None:
                members.setdefault(name, []).append(row)
        found = [
            (tuple((free / np.maximum(self._wanted, 1))[self._wanted > 0].tolist()), alike)
            for alike in members.values()
            if self._bound <= {*alike} and bool(((free := self._sum(alike)) >= self._wanted).all())
        ]
        found.sort(key=lambda each: (min(each[0], default=0.0), each[1]))
        yield from (np.array(alike, dtype=np.int64) for _, alike in found[:_MOST_TRIES])

    def _sum(self, rows: list[int]) -> Integers:
        return np.asarray(self._free[rows].sum(axis=0))


def _bound(gang: Gang) -> set[str]:
    return {member.node for member in gang.members if member.node is not None}


def _only(capacity: Capacity, rows: Integers) -> Capacity:
    """A copy in which only these nodes have anything free."""
    kept = {*rows.tolist()}
    if len(kept) == len(capacity.nodes):
        return capacity
    return capacity.without(node.name for row, node in enumerate(capacity.nodes) if row not in kept)
