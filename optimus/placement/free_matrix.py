"""Free room as a matrix, so that a gang is planned on thousands of nodes in a few milliseconds.

One row per node, in order of names, and one column per resource. Whether a node admits a replica
apart from room is worked out once per set of constraints: the pods of one replica type share
theirs."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Self

import numpy as np
from numpy.typing import NDArray

from optimus.jobs import NodeConstraints
from optimus.nodes import Node, refusal
from optimus.resources import Resources, total

Rows = NDArray[np.bool_]
Amounts = NDArray[np.int64]


class FreeMatrix:
    """What is free on each node; ``free`` has shape (nodes, resources), in the units of
    ``Resources``."""

    __slots__ = ("_admissions", "_columns", "_rows", "capacity", "free", "names", "nodes")

    def __init__(self, nodes: Sequence[Node], free: Mapping[str, Resources]) -> None:
        """Nodes that ``free`` does not know have no room."""
        ordered = sorted((node for node in nodes if node.name in free), key=lambda node: node.name)
        columns = _columns(free[node.name] for node in ordered)
        amounts = np.zeros((len(ordered), len(columns)), dtype=np.int64)
        for row, node in enumerate(ordered):
            for resource, amount in free[node.name].items():
                amounts[row, columns[resource]] = amount
        self._set_up(ordered, columns, amounts, total(node.allocatable for node in ordered))

    @classmethod
    def part(
        cls, nodes: list[Node], resources: Sequence[str], free: Amounts, capacity: Resources
    ) -> Self:
        """Some nodes, in order of names, of a cluster of this capacity; ``free`` has the resources
        in this order."""
        room = cls.__new__(cls)
        room._set_up(nodes, {name: column for column, name in enumerate(resources)}, free, capacity)  # noqa: SLF001 - its own
        return room

    def _set_up(
        self, nodes: list[Node], columns: dict[str, int], free: Amounts, capacity: Resources
    ) -> None:
        self.nodes, self._columns, self.free, self.capacity = nodes, columns, free, capacity
        self.names = [node.name for node in nodes]
        self._rows = {name: row for row, name in enumerate(self.names)}
        self._admissions: dict[NodeConstraints, Rows] = {}

    def copy(self) -> Self:
        """Room that can be changed without touching this one; what nodes admit is shared."""
        twin = copy(self)
        twin.free = self.free.copy()
        return twin

    def row(self, name: str) -> int | None:
        """The row of a node; ``None`` for a node that is not there."""
        return self._rows.get(name)

    def set_free(self, name: str, amount: Resources) -> bool:
        """Correct what is free on one node; false where node or resource are new and the room must
        be built anew."""
        row = self._rows.get(name)
        if row is None or any(resource not in self._columns for resource in amount):
            return False
        self.free[row] = 0
        for resource, value in amount.items():
            self.free[row, self._columns[resource]] = value
        return True

    def take(self, row: int, amount: Resources, count: int = 1) -> None:
        """Take room for ``count`` replicas from one node."""
        for resource, value in amount.items():
            column = self._columns.get(resource)
            if column is not None:
                self.free[row, column] -= value * count

    def asks(self, amount: Resources) -> Amounts | None:
        """The amount as a row of the matrix; ``None`` where it asks for a resource that no node
        has."""
        asked = np.zeros(len(self._columns), dtype=np.int64)
        for resource, value in amount.items():
            column = self._columns.get(resource)
            if column is None:
                return None
            asked[column] = value
        return asked

    def column(self, resource: str) -> Amounts:
        """What is free of one resource, by node."""
        column = self._columns.get(resource)
        return np.zeros(len(self.names), dtype=np.int64) if column is None else self.free[:, column]

    def admits(self, constraints: NodeConstraints) -> Rows:
        """Which nodes admit replicas with these constraints, whatever their room."""
        known = self._admissions.get(constraints)
        if known is None:
            admitted = (is_admitted(node, constraints) for node in self.nodes)
            known = np.fromiter(admitted, dtype=np.bool_, count=len(self.nodes))
            self._admissions[constraints] = known
        return known

    def holds(self, amount: Resources) -> Rows:
        """Which nodes have room for the amount; a resource that is not asked for does not
        matter."""
        asked = self.asks(amount)
        if asked is None:
            return np.zeros(len(self.names), dtype=np.bool_)
        wanted = asked > 0
        return np.asarray((self.free[:, wanted] >= asked[wanted]).all(axis=1))


def is_admitted(node: Node, constraints: NodeConstraints) -> bool:
    """Whether the node admits replicas with these constraints, whatever its room."""
    choosy = constraints.selector or constraints.affinity or node.taints or node.cordoned
    return not choosy or refusal(node, constraints) is None


def _columns(amounts: Iterable[Resources]) -> dict[str, int]:
    names: set[str] = set()
    for amount in amounts:
        names.update(amount)
    return {name: column for column, name in enumerate(sorted(names))}
