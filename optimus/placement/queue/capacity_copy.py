"""A copy of what is left of each node, for one thread that plans."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

from optimus.nodes import Node
from optimus.placement.capacity import Capacity, Vector
from optimus.resources import Resources


class ChangedNodes(Protocol):
    """What has changed of the nodes since the last time."""

    @property
    def left(self) -> Mapping[str, Resources | None]:
        """Return what is left of each node that has changed; ``None``: the node is gone."""
        ...

    @property
    def nodes(self) -> Mapping[str, Node] | None:
        """All nodes, where any has come, gone or changed in itself."""
        ...


class CapacityChanges(NamedTuple):
    """What nodes had and have; nodes in ``altered`` may also admit what they did not."""

    before: Mapping[str, Vector]
    after: Mapping[str, Vector]
    altered: Collection[str]


class CapacityCopy:
    """What is left of each node, as of the last snapshot less what this slice has planned."""

    def __init__(self) -> None:
        self.capacity = Capacity((), {})
        self.nodes: dict[str, Node] = {}
        self._left: dict[str, Resources] = {}
        self._touched: dict[str, Vector] = {}
        """What the last snapshot left of nodes of which this slice has taken."""

    def update(self, snapshot: ChangedNodes) -> "CapacityChanges | None":
        """Take over a snapshot. ``None`` where nodes have other resources than before, so that
        nothing can be compared."""
        changed = self._touched.keys() | snapshot.left.keys()
        before = {name: self._touched.get(name) or self._vector(name) for name in changed}
        altered: set[str] = set()
        self._touched = {}
        for name, left in snapshot.left.items():
            if left is None:
                self._left.pop(name, None)
            else:
                self._left[name] = left
        resources = self.capacity.resources
        if snapshot.nodes is not None:
            altered = {
                name for name, node in snapshot.nodes.items() if self.nodes.get(name) != node
            }
            self.nodes = dict(snapshot.nodes)
            self._rebuild()
        else:
            mine = [name for name in changed if name in self._left]
            if not all(self.capacity.set_free(name, self._left[name]) for name in mine):
                self._rebuild()
        if self.capacity.resources != resources:
            return None
        after = {name: self._vector(name) for name in before.keys() | altered}
        return CapacityChanges(before, after, altered)

    def _rebuild(self) -> None:
        # What is left of a node may be in a snapshot before the node is, and after it.
        free = {name: self._left[name] for name in self.nodes if name in self._left}
        self.capacity = Capacity(tuple(self.nodes.values()), free)

    def _vector(self, name: str) -> Vector:
        row = self.capacity.row_of.get(name)
        nothing = (0,) * len(self.capacity.resources)
        return nothing if row is None else self.capacity.free[row]

    def add(self, amounts: Mapping[str, Resources], sign: int) -> None:
        """Give (1) or take (-1) amounts on nodes; ``undo_to`` undoes it."""
        for name, amount in amounts.items():
            row, vector = self.capacity.row_of.get(name), self.capacity.vector(amount)
            if row is not None and vector is not None:
                self.capacity.take(row, tuple([-sign * one for one in vector]))

    def close(self, names: Iterable[str]) -> None:
        """Leave nothing on these nodes; ``undo_to`` undoes it."""
        for row in (self.capacity.row_of.get(name) for name in sorted(names)):
            if row is not None:
                self.capacity.take(row, self.capacity.free[row])

    def reserve(self, amounts: Mapping[str, Resources], sign: int = -1) -> None:
        """Take (or give) amounts until the next snapshot."""
        for name in amounts:
            self._touched.setdefault(name, self._vector(name))
        self.add(amounts, sign)

    def touched(self) -> dict[str, Vector]:
        """Return what is left of the nodes of which this slice has taken."""
        return {name: self._vector(name) for name in self._touched}
