"""What is free, with nodes that are alike counted together: thousands of jobs are placed on
thousands of nodes.

Two nodes are alike if the same is free on both, they hold the same in all, and the same replicas
are admitted: module
``kinds`` sorts them. Most nodes of a cluster are like many others, so that a question about all
nodes is a question about a few kinds. Rows number the nodes in order of names. Every change is
noted, and can be taken back as far as a mark.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from typing import Self

import numpy as np
from numpy.typing import NDArray

from optimus.jobs import Counts, Job, NodeConstraints, ReplicaSpec
from optimus.nodes import Node
from optimus.placement.free_matrix import FreeMatrix, Rows, is_admitted
from optimus.placement.node_classes import NodeClasses, Vector
from optimus.resources import Resources, total


class Capacity(NodeClasses):
    """Free room by kind of node, in the words of jobs and nodes."""

    _changes: list[tuple[int, Vector]]

    def __init__(self, nodes: Sequence[Node], free: Mapping[str, Resources]) -> None:
        """Nodes that ``free`` does not know have no room."""
        self.nodes: list[Node] = sorted(
            (node for node in nodes if node.name in free), key=lambda node: node.name
        )
        self.row_of = {node.name: row for row, node in enumerate(self.nodes)}
        alike = Counter(node.allocatable for node in self.nodes)
        self.capacity = total(amount * count for amount, count in alike.items())
        self.resources = tuple(
            sorted({name for amount in {*free.values(), *alike} for name in amount})
        )
        self._capacity = tuple([self.capacity[name] for name in self.resources])
        self._vectors: dict[Resources, Vector] = {}
        self.free = [self._known(free[node.name]) for node in self.nodes]
        self._allocatable = [self._known(node.allocatable) for node in self.nodes]
        classes: dict[Vector, int] = {}
        self._admissions: dict[NodeConstraints, NDArray[np.bool_] | None] = {}
        self._changes = []
        self._sort([classes.setdefault(each, len(classes)) for each in self._allocatable])

    def copy(self) -> Self:
        """The same stock, to try something on."""
        twin = copy(self)
        twin._own()  # noqa: SLF001 - it is of this class
        return twin

    def _own(self) -> None:
        super()._own()
        self._changes = []

    def mark(self) -> int:
        """Now, to come back to."""
        return len(self._changes)

    def back_to(self, mark: int) -> None:
        """Take back every change since the mark."""
        while len(self._changes) > mark:
            row, before = self._changes.pop()
            self._put(row, before)

    def vector(self, amount: Resources) -> Vector | None:
        """The amount in the order of resources; ``None`` where it asks for a resource that no node
        has."""
        known = self._vectors.get(amount)
        return (
            self._known(amount)
            if known is None and all(name in self.resources for name in amount)
            else known
        )

    def dominant(self, amounts: Sequence[int]) -> int:
        """The column with the largest share of the capacity, as ``Resources.dominant`` has it; -1
        for nothing."""
        best, column = 0.0, -1
        for at, (asked, whole) in enumerate(zip(amounts, self._capacity, strict=True)):
            if asked:
                share = asked / whole if whole > 0 else float("inf")
                if share >= best:
                    best, column = share, at
        return column

    def share(self, job: Job, counts: Counts) -> float:
        """The share of the capacity that a job's PSs and workers take of their dominant
        resource."""
        ps, worker = self.vector(job.ps.resources), self.vector(job.worker.resources)
        if ps is None or worker is None:
            return float("inf")
        demand = [counts.ps * a + counts.workers * b for a, b in zip(ps, worker, strict=True)]
        column = self.dominant(demand)
        return (
            demand[column] / self._capacity[column]
            if column >= 0 and self._capacity[column] > 0
            else 0.0
        )

    def take(self, row: int, amount: Vector) -> None:
        """Take room from one node."""
        before = self.free[row]
        self._changes.append((row, before))
        self._put(row, tuple([left - asked for left, asked in zip(before, amount, strict=True)]))

    def give_back(self, row: int, amount: Vector) -> None:
        """Give room back to one node."""
        self.take(row, tuple([-each for each in amount]))

    def take_each(self, rows: Iterable[int], amount: Vector) -> None:
        """Take the same room from each of several nodes."""
        becomes: dict[int, tuple[int, Vector]] = {}
        for row in rows:
            before, slot = self.free[row], self._slot_of[row]
            if slot not in becomes:
                after = tuple([left - asked for left, asked in zip(before, amount, strict=True)])
                becomes[slot] = self._slot((after, self._classes[row])), after
            self._changes.append((row, before))
            self._shift(row, slot, *becomes[slot])
            if not self.rows[slot]:
                # The slot may stand for another kind from now on.
                becomes.clear()

    def free_by_name(self) -> dict[str, Resources]:
        """Free room by node name."""
        return {node.name: self.resources_of(self.free[row]) for row, node in enumerate(self.nodes)}

    def total_free(self, without: Collection[str] = ()) -> Resources:
        """What is free in all, these nodes left out. Below zero where nodes are overcommitted in
        sum."""
        used = len(self.rows)
        there = self.counts[:used] > 0
        sums = (self.kinds[:used][there].T @ self.counts[:used][there]).tolist()
        for row in (self.row_of[name] for name in without if name in self.row_of):
            sums = [every - here for every, here in zip(sums, self.free[row], strict=True)]
        return self.resources_of(tuple(sums))

    def resources_of(self, amounts: Vector) -> Resources:
        """A vector as resources."""
        return Resources(dict(zip(self.resources, amounts, strict=True)))

    def servers(self) -> dict[Resources, int]:
        """What is free on a node that takes new pods, and on how many nodes it is just that."""
        cordoned = {row for row, node in enumerate(self.nodes) if node.cordoned}
        found: Counter[Vector] = Counter()
        for slot, count in enumerate(self.counts[: len(self.rows)].tolist()):
            if count:
                vector = self.free[-self.rows[slot][-1]]
                found[vector] += count - len(self.rows_among(slot, cordoned))
        return {self.resources_of(vector): count for vector, count in found.items() if count}

    def free_shares(self, slots: NDArray[np.intp]) -> NDArray[np.float64]:
        """Of each of these kinds, the sum over the resources of what is free on one node as a share
        of the cluster."""
        capacity = np.maximum(np.array(self._capacity, dtype=np.float64), 1.0)
        return np.asarray((self.kinds[slots] / capacity).sum(axis=1))

    def tell_apart(self, *constraints: NodeConstraints) -> None:
        """From now on nodes are not alike that differ in whether they admit these; numbers the
        kinds anew."""
        for each in constraints:
            if each not in self._admissions:
                self._split_by(each)

    def admits(self, constraints: NodeConstraints) -> Rows | None:
        """Which kinds admit replicas with these constraints, by which they are told apart; ``None``
        means all."""
        self.tell_apart(constraints)
        known = self._admissions[constraints]
        return None if known is None else known[self._class_of[: len(self.rows)]]

    def part(
        self, each: int, specs: Collection[ReplicaSpec], besides: Iterable[str] = ()
    ) -> FreeMatrix:
        """What a plan of so many replicas of these specs can make use of: the first so many nodes
        of each kind.

        NodeClasses that hold none of them are left out; the nodes named ``besides`` are there in
        any case."""
        self.tell_apart(*(spec.constraints for spec in specs))
        able = np.zeros(len(self.rows), dtype=np.bool_)
        for vector in {self.vector(spec.resources) for spec in specs}:
            able |= False if vector is None else self.holds(vector)
        named = {self.row_of[name] for name in besides if name in self.row_of}
        rows = sorted(
            named.union(*(self.first_rows(slot, each) for slot in np.flatnonzero(able).tolist()))
        )
        free = np.array([self.free[row] for row in rows], dtype=np.int64).reshape(
            len(rows), len(self.resources)
        )
        return FreeMatrix.part(
            [self.nodes[row] for row in rows], self.resources, free, self.capacity
        )

    def _known(self, amount: Resources) -> Vector:
        known = self._vectors.get(amount)
        if known is None:
            known = self._vectors[amount] = tuple([amount[name] for name in self.resources])
        return known

    def _split_by(self, constraints: NodeConstraints) -> None:
        admitted = [is_admitted(node, constraints) for node in self.nodes]
        seen = dict(zip(zip(self._classes, admitted, strict=True), self._allocatable, strict=True))
        if len(seen) > len(set(self._classes)):
            renamed = {each: number for number, each in enumerate(sorted(seen))}
            olds = [old for old, _ in renamed]
            self._admissions = {
                known: None if bits is None else bits[olds]
                for known, bits in self._admissions.items()
            }
            self._sort([renamed[each] for each in zip(self._classes, admitted, strict=True)])
        bits = dict(zip(self._classes, admitted, strict=True))
        some = (
            None
            if all(admitted)
            else np.array([bits[each] for each in sorted(bits)], dtype=np.bool_)
        )
        self._admissions = {**self._admissions, constraints: some}

    def _sort(self, classes: list[int]) -> None:
        """Sort the nodes into kinds anew, by the class of each row."""
        by_class = dict(zip(classes, self._allocatable, strict=True))
        whole = np.array([by_class[each] for each in sorted(by_class)], dtype=np.int64)
        self._group(classes, whole.reshape(-1, len(self.resources)))
