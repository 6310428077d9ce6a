"""Prefers nodes of one topology domain and of one kind for a gang, where they hold it whole.

Pods of one zone or rack exchange parameters over shorter links, and a sync job on mixed nodes
trains at the speed of the slowest. A gang that needs more than one node is tried in the domains of
the most specific label first, those with least free before others, then of the next wider label; in
a domain first on nodes of one kind. Where none holds it, it goes where it would go without these
preferences: they refuse nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from optimus.nodes import Node
from optimus.placement.capacity import Capacity, Integers, Mask
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
_Value: TypeAlias = tuple[object, ...]


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
            labels = self.topology[:depth]
            mixed: Placement | None = None
            for domain in room.domains(_Key(labels)):
                found = place(gang, room.only(domain)) if depth else anywhere
                if isinstance(found, DoesNotFit):
                    continue
                uniform = self._on_one_kind(gang, capacity, domain, found, room, place)
                if uniform is not None:
                    return uniform
                mixed = mixed or found
            if mixed is not None:
                return mixed
        return anywhere

    def _are_mixed(self, rows: Iterable[int], capacity: Capacity) -> bool:
        """Return whether these nodes should be, and are not, of one kind."""
        return self.one_kind and len({kind_of(capacity.nodes[row]) for row in rows}) > 1

    def _on_one_kind(
        self,
        gang: Gang,
        capacity: Capacity,
        domain: "_Domain",
        found: Placement,
        room: "_Room",
        place: _Place,
    ) -> Placement | None:
        """The gang on nodes of one kind in a domain; ``None`` where no kind holds it whole."""
        names = {*found.nodes.values(), *_bound(gang)} & capacity.row_of.keys()
        if not self._are_mixed([capacity.row_of[name] for name in names], capacity):
            return found
        for alike in room.domains(_Key(domain.key.labels, by_kind=True), domain):
            answer = place(gang, room.only(alike))
            if isinstance(answer, Placement):
                return answer
        return None


def kind_of(node: Node) -> _Value:
    """Return what makes nodes equally fast: instance type and accelerator, or without the label of
    the instance type what is allocatable."""
    accelerators = tuple(node.labels.get(label) for label in _ACCELERATORS)
    if _INSTANCE_TYPE in node.labels:
        return node.labels[_INSTANCE_TYPE], *accelerators
    amounts = sorted(node.allocatable.items())
    rounded = tuple(
        (name, round(amount / _MEMORY_UNIT) if amount > _MEMORY_UNIT else amount)
        for name, amount in amounts
    )
    return (*rounded, *accelerators)


class _Key(NamedTuple):
    """Divides nodes by the values of labels, and in a domain by their kinds."""

    labels: tuple[str, ...]
    by_kind: bool = False

    def of(self, node: Node) -> _Value | None:
        """The node's; ``None`` where it lacks a label."""
        values = tuple(node.labels.get(label) for label in self.labels)
        if None in values:
            return None
        return (values, kind_of(node)) if self.by_kind else values


class _Domain(NamedTuple):
    """Nodes that belong together."""

    key: _Key
    number: int
    rows: list[int]


class _Partition:
    """All nodes by one key, and what is free in each domain. Nodes do not change; what is free is
    corrected row by row."""

    def __init__(self, key: _Key, nodes: Sequence[Node], free: Integers) -> None:
        numbers: dict[_Value, int] = {}
        self.domains: list[_Domain] = []
        self._domain_of = np.full(len(nodes), -1, dtype=np.int64)
        for row, node in enumerate(nodes):
            value = key.of(node)
            if value is None:
                continue
            number = numbers.setdefault(value, len(numbers))
            if number == len(self.domains):
                self.domains.append(_Domain(key, number, []))
            self.domains[number].rows.append(row)
            self._domain_of[row] = number
        self.free = np.zeros((len(self.domains), free.shape[1]), dtype=np.int64)
        self.add(np.arange(len(nodes)), free)

    def add(self, rows: Integers, amounts: Integers) -> None:
        """Record that this much more is free on these rows."""
        inside = self._domain_of[rows] >= 0
        np.add.at(self.free, self._domain_of[rows[inside]], amounts[inside])

    def holds_all(self, rows: Iterable[int]) -> Mask:
        """Return which domains all of these rows are in."""
        found = np.ones(len(self.domains), dtype=np.bool_)
        for row in rows:
            found &= np.arange(len(self.domains)) == self._domain_of[row]
        return found


class _DomainPart(NamedTuple):
    """The capacity of one domain, as of a version."""

    capacity: Capacity
    version: int


class _Divided:
    """The domains of one capacity. It is kept with the capacity, since most of it stays as it is
    from gang to gang."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._free = capacity.free_rows()
        self._version = 0
        self._changed_at = np.zeros(len(capacity.nodes), dtype=np.int64)
        self._partitions: dict[_Key, _Partition] = {}
        self._parts: dict[tuple[_Key, int], _DomainPart] = {}

    def update(self) -> None:
        """Take over what has changed."""
        now = self._capacity.free_rows()
        changed = np.flatnonzero((now != self._free).any(axis=1))
        more = np.maximum(now[changed], 0) - np.maximum(self._free[changed], 0)
        for partition in self._partitions.values():
            partition.add(changed, more)
        self._free = now
        self._version += 1
        self._changed_at[changed] = self._version

    def partition(self, key: _Key) -> _Partition:
        """The domains by a key."""
        found = self._partitions.get(key)
        if found is None:
            found = _Partition(key, self._capacity.nodes, np.maximum(self._free, 0))
            self._partitions[key] = found
        return found

    def only(self, domain: _Domain) -> Capacity:
        """The capacity of a domain alone. The caller must not change it for good."""
        key = domain.key, domain.number
        known = self._parts.get(key)
        if known is None:
            part = self._capacity.only(domain.rows)
        else:
            part, rows = known.capacity, np.array(domain.rows, dtype=np.int64)
            for at in np.flatnonzero(self._changed_at[rows] > known.version).tolist():
                part.set_vector(at, self._capacity.free[domain.rows[at]])
        self._parts[key] = _DomainPart(part, self._version)
        return part


class _Room:
    """Leaves out domains in which too little is free for the gang."""

    def __init__(self, gang: Gang, capacity: Capacity) -> None:
        self._gang, self._capacity = gang, capacity
        divided = capacity.derived.get(_Divided)
        if not isinstance(divided, _Divided):
            divided = capacity.derived[_Divided] = _Divided(capacity)
        divided.update()
        self._divided = divided
        self._wanted = np.array(capacity.vector(gang.demand()) or (), dtype=np.int64)
        self._bound = [capacity.row_of[name] for name in _bound(gang) if name in capacity.row_of]

    def domains(self, key: _Key, within: _Domain | None = None) -> Iterator[_Domain]:
        """The domains, or those within one, that might hold the gang, those with least free first:
        the others stay whole for larger gangs. Bound replicas are in the domain."""
        partition, asked = self._divided.partition(key), self._wanted > 0
        if not len(self._wanted) or not partition.domains:
            return
        able = (partition.free >= self._wanted).all(axis=1) & partition.holds_all(self._bound)
        found = np.flatnonzero(able)
        if within is not None:
            inside = {*within.rows}
            found = found[[partition.domains[each].rows[0] in inside for each in found.tolist()]]
        free = partition.free[found][:, asked] / self._wanted[asked]
        order = np.argsort(free.min(axis=1, initial=np.inf), kind="stable")
        yield from (partition.domains[each] for each in found[order][:_MOST_TRIES].tolist())

    def only(self, domain: _Domain) -> Capacity:
        """Return what is free in a domain alone."""
        capacity = self._capacity
        if len(domain.rows) == len(capacity.nodes):
            return capacity
        if self._gang.surroundings is None:
            return self._divided.only(domain)
        # Rules of pods count the pods on the other nodes too: there nothing is free.
        kept = {*domain.rows}
        return capacity.without(
            node.name for row, node in enumerate(capacity.nodes) if row not in kept
        )


def _bound(gang: Gang) -> set[str]:
    return {member.node for member in gang.members if member.node is not None}
