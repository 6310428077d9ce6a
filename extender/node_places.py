"""Counts of the nodes that hold a replica now, and when empty: figures for people."""

from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from optimus.jobs import ReplicaSpec
from optimus.nodes import Node
from optimus.placement.capacity import is_admitted
from optimus.resources import Resources, total


class Places(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Counts of the nodes that hold a replica."""

    nodes: int
    admit_it: int
    """Whose labels, taints and cordon let the replica in."""

    hold_it_now: int = 0
    hold_it_empty: int = 0
    """That have enough of every resource once no pod is on them."""

    places: int = 0
    """How many such replicas these nodes hold now in all; not more than are wanted."""

    places_empty: int = 0
    """How many they hold in all once no pod is on them; not more than are wanted."""

    short_of: Mapping[str, int] = msgspec.field(default_factory=dict)
    """By resource, on how many of the nodes that admit it this resource is what limits the
    places."""

    not_offered: tuple[str, ...] = ()
    """Resources that it asks for and that no node has."""


class NodePlaces:
    """The nodes with what is left of each, at one time."""

    def __init__(self, nodes: Mapping[str, Node], left: Mapping[str, Resources]) -> None:
        self._nodes = list(nodes.values())
        self.allocatable = total(node.allocatable for node in self._nodes)
        """Of all nodes together."""
        self._columns = sorted(self.allocatable)
        self._whole = self._table([node.allocatable for node in self._nodes])
        self._free = self._table([left[name] for name in nodes])
        self._counted: dict[tuple[ReplicaSpec, int, frozenset[str]], Places] = {}
        """Many gangs wait with the same requests."""

    def _table(self, amounts: list[Resources]) -> NDArray[np.int64]:
        rows = [[amount[name] for name in self._columns] for amount in amounts]
        return np.array(rows, dtype=np.int64).reshape(len(rows), len(self._columns))

    def count(self, spec: ReplicaSpec, wanted: int, closed: frozenset[str] = frozenset()) -> Places:
        """Return how many nodes hold a replica, and how many of ``wanted`` they hold in all.

        Nodes in ``closed`` hold none now."""
        key = (spec, wanted, closed)
        if key not in self._counted:
            self._counted[key] = self._count(spec, wanted, closed)
        return self._counted[key]

    def _count(self, spec: ReplicaSpec, wanted: int, closed: frozenset[str]) -> Places:
        admitting = [
            row for row, node in enumerate(self._nodes) if is_admitted(node, spec.constraints)
        ]
        asked = {name: amount for name, amount in spec.resources.items() if amount > 0}
        missing = tuple(name for name in asked if name not in self._columns)
        if missing:
            short_of = dict.fromkeys(missing, len(admitting)) if admitting else {}
            return Places(
                nodes=len(self._nodes),
                admit_it=len(admitting),
                short_of=short_of,
                not_offered=missing,
            )
        columns = [self._columns.index(name) for name in asked]
        amounts = np.array([*asked.values()], dtype=np.int64)
        each, empty = (
            np.maximum(table[np.ix_(admitting, columns)] // amounts, 0)
            for table in (self._free, self._whole)
        )
        least, most = each.min(axis=1, initial=wanted), empty.min(axis=1, initial=wanted)
        limits = (each == least[:, None]) & (least < wanted)[:, None]
        is_open = np.array([self._nodes[row].name not in closed for row in admitting], np.bool_)
        now = np.where(is_open, least, 0)
        short = {name: int(limits[:, at].sum()) for at, name in enumerate(asked)}
        most_first = sorted(short.items(), key=lambda item: (-item[1], item[0]))
        return Places(
            nodes=len(self._nodes),
            admit_it=len(admitting),
            hold_it_now=int((now > 0).sum()),
            hold_it_empty=int((most > 0).sum()),
            places=min(int(now.sum()), wanted),
            places_empty=min(int(most.sum()), wanted),
            short_of={name: count for name, count in most_first if count},
        )
