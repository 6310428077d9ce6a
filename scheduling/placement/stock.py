"""What is free, with nodes that are alike counted together: thousands of jobs are placed on thousands of nodes.

Two nodes are alike if the same is free on both, they hold the same in all, and the same replicas are admitted. Most
nodes of a cluster are like many others, so that a question about all nodes is a question about a few kinds. Rows number
the nodes in order of names, slots the kinds. Every change is noted, and can be taken back as far as a mark.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from itertools import chain
from typing import Self

import numpy as np
from numpy.typing import NDArray

from scheduling.jobs import Counts, Job, NodeConstraints, ReplicaSpec
from scheduling.nodes import Node
from scheduling.placement.room import Amounts, Room, Rows, is_admitted
from scheduling.resources import Resources, total

Vector = tuple[int, ...]
"""Amounts in the order of the stock's resources."""

_NOBODY = -(2**62)
"""What is free on a kind of which there is no node."""


class Stock:
    """Free room by kind of node. ``kinds`` has shape (slots, resources), ``counts`` says how many nodes are such."""

    kinds: Amounts
    counts: NDArray[np.int64]
    free: list[Vector]
    rows: list[list[int]]
    """The rows of each kind, negated and ascending: the first node of a kind is the last of its list."""
    _slots: dict[tuple[Vector, int], int]
    _spare: list[int]
    _slot_of: list[int]
    _top: tuple[int, Vector] | None
    _reached: list[bool]
    _class_of: NDArray[np.int64]
    _changes: list[tuple[int, Vector]]

    def __init__(self, nodes: Sequence[Node], free: Mapping[str, Resources]) -> None:
        """Nodes that ``free`` does not know have no room."""
        self.nodes: list[Node] = sorted((node for node in nodes if node.name in free), key=lambda node: node.name)
        self.row_of = {node.name: row for row, node in enumerate(self.nodes)}
        alike = Counter(node.allocatable for node in self.nodes)
        self.capacity = total(amount * count for amount, count in alike.items())
        self.resources = tuple(sorted({name for amount in {*free.values(), *alike} for name in amount}))
        self._capacity = tuple([self.capacity[name] for name in self.resources])
        self._vectors: dict[Resources, Vector] = {}
        self.free = [self._known(free[node.name]) for node in self.nodes]
        self._allocatable = [self._known(node.allocatable) for node in self.nodes]
        classes: dict[Vector, int] = {}
        self._classes = [classes.setdefault(each, len(classes)) for each in self._allocatable]
        self._admissions: dict[NodeConstraints, NDArray[np.bool_] | None] = {}
        self._changes = []
        self._group()

    def copy(self) -> Self:
        """The same stock, to try something on."""
        twin = copy(self)
        twin._own()  # noqa: SLF001 - it is of this class
        return twin

    def _own(self) -> None:
        """Stop sharing what changes with the stock that this one is a copy of."""
        self.free, self._slots, self._spare = self.free.copy(), self._slots.copy(), self._spare.copy()
        self._slot_of, self._reached = self._slot_of.copy(), self._reached.copy()
        self.rows = [rows.copy() for rows in self.rows]
        self.kinds, self.counts, self._class_of = self.kinds.copy(), self.counts.copy(), self._class_of.copy()
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
        """The amount in the order of resources; ``None`` where it asks for a resource that no node has."""
        known = self._vectors.get(amount)
        return self._known(amount) if known is None and all(name in self.resources for name in amount) else known

    def dominant(self, amounts: Sequence[int]) -> int:
        """The column with the largest share of the capacity, as ``Resources.dominant`` has it; -1 for nothing."""
        best, column = 0.0, -1
        for at, (asked, whole) in enumerate(zip(amounts, self._capacity, strict=True)):
            if asked:
                share = asked / whole if whole > 0 else float("inf")
                if share >= best:
                    best, column = share, at
        return column

    def share(self, job: Job, counts: Counts) -> float:
        """The share of the capacity that a job's PSs and workers take of their dominant resource."""
        ps, worker = self.vector(job.ps.resources), self.vector(job.worker.resources)
        if ps is None or worker is None:
            return float("inf")
        demand = [counts.ps * a + counts.workers * b for a, b in zip(ps, worker, strict=True)]
        column = self.dominant(demand)
        return demand[column] / self._capacity[column] if column >= 0 and self._capacity[column] > 0 else 0.0

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
        """What is free in all, these nodes left out. Below zero where nodes are overcommitted in sum."""
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

    def first_rows_of(self, slots: Sequence[int], most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first rows of each of these kinds, and the positions in ``slots`` of the kinds that they are of."""
        found = [self.rows[slot][-most:] for slot in slots]
        kinds = np.repeat(np.arange(len(slots)), [len(rows) for rows in found])
        return -np.fromiter(chain.from_iterable(found), dtype=np.int64, count=len(kinds)), kinds

    def first_row(self, slot: int) -> int | None:
        """The first row of a kind, if there is a node of that kind."""
        rows = self.rows[slot]
        return -rows[-1] if rows else None

    def first_rows(self, slot: int, most: int) -> list[int]:
        """The first rows of a kind, in order."""
        return [-row for row in self.rows[slot][: -most - 1 : -1]]

    def rows_among(self, slot: int, wanted: "set[int]") -> list[int]:
        """Those of the wanted rows that are of a kind."""
        rows = self.rows[slot]
        return [-row for row in rows if -row in wanted] if len(rows) < len(wanted) else self._wanted(slot, wanted)

    def _wanted(self, slot: int, wanted: "set[int]") -> list[int]:
        return [row for row in sorted(wanted) if self._slot_of[row] == slot]

    def shares_left(self, column: int) -> NDArray[np.float64]:
        """Of each kind, the part of one resource that is free; 0 where there is none of it."""
        whole = self._whole[self._class_of[: len(self.rows)], column]
        left = self.kinds[: len(self.rows), column]
        return np.asarray(np.divide(left, whole, out=np.zeros(len(left)), where=whole > 0))

    def free_shares(self) -> NDArray[np.float64]:
        """By kind, the sum over the resources of what is free on one node as a share of the cluster."""
        capacity = np.maximum(np.array(self._capacity, dtype=np.float64), 1.0)
        return np.asarray((self.kinds[: len(self.rows)] / capacity).sum(axis=1))

    def holds(self, amount: Vector) -> Rows:
        """Which kinds have room for the amount; what is not asked for does not matter."""
        able = self.counts[: len(self.rows)] > 0
        for column, asked in enumerate(amount):
            if asked > 0:
                able &= self.kinds[: len(self.rows), column] >= asked
        return able

    def top(self) -> tuple[int, Vector] | None:
        """A kind that has most of every resource, and what is free on it, where there is such a kind."""
        if self._top is None:
            used = len(self.rows)
            most = self.kinds[:used].max(axis=0) if used else np.zeros(0, dtype=np.int64)
            alike = (
                np.flatnonzero((self.kinds[:used] == most).all(axis=1)) if len(most) else np.zeros(0, dtype=np.int64)
            )
            self._top = None if len(alike) == 0 else (int(alike[0]), tuple(most.tolist()))
            self._reached = ((self.kinds[:used] == most).sum(axis=0) > 1).tolist() if used else []
        return self._top

    def most(self) -> Vector:
        """The most that any node has of each resource."""
        used = len(self.rows)
        return tuple(self.kinds[:used].max(axis=0).tolist()) if used else (0,) * len(self.resources)

    def is_alone_at_the_top(self, column: int) -> bool:
        """Whether no other kind has as much of this resource as the top kind. May say no where it is so."""
        return not self._reached[column]

    def _compare(self, vector: Vector) -> None:
        """A new kind may reach the top kind, or rise above it."""
        if self._top is not None:
            for column, (here, most) in enumerate(zip(vector, self._top[1], strict=True)):
                if here >= most:
                    self._reached[column] = True
                    if here > most:
                        self._top = None
                        return

    def tell_apart(self, *constraints: NodeConstraints) -> None:
        """From now on nodes are not alike that differ in whether they admit these; numbers the kinds anew."""
        for each in constraints:
            if each not in self._admissions:
                self._split_by(each)

    def admits(self, constraints: NodeConstraints) -> Rows | None:
        """Which kinds admit replicas with these constraints, by which they are told apart; ``None`` means all."""
        self.tell_apart(constraints)
        known = self._admissions[constraints]
        return None if known is None else known[self._class_of[: len(self.rows)]]

    def part(self, each: int, specs: Collection[ReplicaSpec], besides: Iterable[str] = ()) -> Room:
        """What a plan of so many replicas of these specs can make use of: the first so many nodes of each kind.

        Kinds that hold none of them are left out; the nodes named ``besides`` are there in any case.
        """
        self.tell_apart(*(spec.constraints for spec in specs))
        able = np.zeros(len(self.rows), dtype=np.bool_)
        for vector in {self.vector(spec.resources) for spec in specs}:
            able |= False if vector is None else self.holds(vector)
        named = {self.row_of[name] for name in besides if name in self.row_of}
        rows = sorted(named.union(*(self.first_rows(slot, each) for slot in np.flatnonzero(able).tolist())))
        free = np.array([self.free[row] for row in rows], dtype=np.int64).reshape(len(rows), len(self.resources))
        return Room.part([self.nodes[row] for row in rows], self.resources, free, self.capacity)

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
            self._classes = [renamed[each] for each in zip(self._classes, admitted, strict=True)]
            self._admissions = {known: None if bits is None else bits[olds] for known, bits in self._admissions.items()}
            self._group()
        bits = dict(zip(self._classes, admitted, strict=True))
        some = None if all(admitted) else np.array([bits[each] for each in sorted(bits)], dtype=np.bool_)
        self._admissions = {**self._admissions, constraints: some}

    def _group(self) -> None:
        """Sort the nodes into kinds anew."""
        width = len(self.resources)
        size = 64
        self._slot_of = [0] * len(self.nodes)
        self._top, self._reached = None, []
        self._slots = {}
        self.rows = []
        self._spare = []
        self.kinds = np.full((size, width), _NOBODY, dtype=np.int64)
        self.counts = np.zeros(size, dtype=np.int64)
        self._class_of = np.zeros(size, dtype=np.int64)
        by_class = dict(zip(self._classes, self._allocatable, strict=True))
        self._whole = np.array([by_class[each] for each in sorted(by_class)], dtype=np.int64).reshape(-1, width)
        # From the last to the first, so that each list is ascending as it comes.
        for row in range(len(self.nodes) - 1, -1, -1):
            slot = self._slot((self.free[row], self._classes[row]))
            self.rows[slot].append(-row)
            self.counts[slot] += 1
            self._slot_of[row] = slot

    def _slot(self, kind: tuple[Vector, int]) -> int:
        slot = self._slots.get(kind)
        if slot is not None:
            return slot
        if self._spare:
            slot = self._spare.pop()
        else:
            slot = len(self.rows)
            self.rows.append([])
            if slot == len(self.counts):
                self._enlarge()
        self._slots[kind] = slot
        self._compare(kind[0])
        self.kinds[slot] = kind[0]
        self._class_of[slot] = kind[1]
        return slot

    def _enlarge(self) -> None:
        more = len(self.counts)
        empty = np.full((more, self.kinds.shape[1]), _NOBODY, dtype=np.int64)
        self.kinds = np.concatenate([self.kinds, empty])
        self.counts = np.concatenate([self.counts, np.zeros(more, dtype=np.int64)])
        self._class_of = np.concatenate([self._class_of, np.zeros(more, dtype=np.int64)])

    def _put(self, row: int, amounts: Vector) -> None:
        """Sort one node into the kind that it belongs to now."""
        self._shift(row, self._slot_of[row], self._slot((amounts, self._classes[row])), amounts)

    def _shift(self, row: int, slot: int, to: int, amounts: Vector) -> None:
        """Move one node from one kind to another."""
        if slot == to:
            return
        insort(self.rows[to], -row)
        self.counts[to] += 1
        rows = self.rows[slot]
        if rows[-1] == -row:
            rows.pop()
        else:
            del rows[bisect_left(rows, -row)]
        self.counts[slot] -= 1
        if not rows:
            del self._slots[self.free[row], self._classes[row]]
            self.kinds[slot] = _NOBODY
            self._spare.append(slot)
            if self._top is not None and self._top[0] == slot:
                self._top = None  # the slot may stand for another kind from now on
        self.free[row] = amounts
        self._slot_of[row] = to
