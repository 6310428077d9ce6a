"""Nodes sorted into kinds: those on which the same is free, of which a question about all nodes is
asked once.

Rows number the nodes, slots the kinds. Two nodes are of one kind if the same is free on both and
they are of one class, which stands for all else in which nodes differ. A slot of which the last
node has gone stands for another kind later."""

from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from optimus.placement.free_matrix import Amounts, Rows

Vector = tuple[int, ...]
"""Amounts in the order of the stock's resources."""

_NOBODY = -(2**62)
"""What is free on a kind of which there is no node."""
_FIRST_SIZE = 64


class NodeClasses:
    """Nodes by kind. ``kinds`` has shape (slots, resources), ``counts`` says how many nodes are
    such.

    ``free`` is what is free on each row. Both arrays may be longer than there are slots, which are
    as many as ``rows``."""

    kinds: Amounts
    counts: NDArray[np.int64]
    free: list[Vector]
    rows: list[list[int]]
    """The rows of each kind, negated and ascending: the first node of a kind is the last of its
    list."""
    _classes: list[int]
    _slots: dict[tuple[Vector, int], int]
    _spare: list[int]
    _slot_of: list[int]
    _top: tuple[int, Vector] | None
    _reached: list[bool]
    _class_of: NDArray[np.int64]
    _whole: Amounts

    def top(self) -> tuple[int, Vector] | None:
        """A kind that has most of every resource, and what is free on it, where there is such a
        kind."""
        if self._top is None:
            used = len(self.rows)
            most = self.kinds[:used].max(axis=0) if used else np.zeros(0, dtype=np.int64)
            alike = (
                np.flatnonzero((self.kinds[:used] == most).all(axis=1))
                if len(most)
                else np.zeros(0, dtype=np.int64)
            )
            self._top = None if len(alike) == 0 else (int(alike[0]), tuple(most.tolist()))
            self._reached = ((self.kinds[:used] == most).sum(axis=0) > 1).tolist() if used else []
        return self._top

    def most(self) -> Vector:
        """The most that any node has of each resource."""
        used = len(self.rows)
        return tuple(self.kinds[:used].max(axis=0).tolist()) if used else (0,) * self.kinds.shape[1]

    def is_alone_at_the_top(self, column: int) -> bool:
        """Whether no other kind has as much of this resource as the top kind. May say no where it
        is so."""
        return not self._reached[column]

    def holds(self, amount: Vector) -> Rows:
        """Which kinds have room for the amount; what is not asked for does not matter."""
        able = self.counts[: len(self.rows)] > 0
        for column, asked in enumerate(amount):
            if asked > 0:
                able &= self.kinds[: len(self.rows), column] >= asked
        return able

    def shares_left(self, column: int) -> NDArray[np.float64]:
        """Of each kind, the part of one resource that is free; 0 where there is none of it."""
        whole = self._whole[self._class_of[: len(self.rows)], column]
        left = self.kinds[: len(self.rows), column]
        return np.asarray(np.divide(left, whole, out=np.zeros(len(left)), where=whole > 0))

    def first_rows_of(
        self, slots: Sequence[int], most: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first rows of each of these kinds, and the positions in ``slots`` of the kinds that
        they are of."""
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
        return (
            [-row for row in rows if -row in wanted]
            if len(rows) < len(wanted)
            else self._wanted(slot, wanted)
        )

    def _wanted(self, slot: int, wanted: "set[int]") -> list[int]:
        return [row for row in sorted(wanted) if self._slot_of[row] == slot]

    def _own(self) -> None:
        """Stop sharing what changes with what this is a copy of."""
        self.free, self._slots, self._spare = (
            self.free.copy(),
            self._slots.copy(),
            self._spare.copy(),
        )
        self._slot_of, self._reached = self._slot_of.copy(), self._reached.copy()
        self.rows = [rows.copy() for rows in self.rows]
        self.kinds, self.counts, self._class_of = (
            self.kinds.copy(),
            self.counts.copy(),
            self._class_of.copy(),
        )

    def _compare(self, vector: Vector) -> None:
        """A new kind may reach the top kind, or rise above it."""
        if self._top is not None:
            for column, (here, most) in enumerate(zip(vector, self._top[1], strict=True)):
                if here >= most:
                    self._reached[column] = True
                    if here > most:
                        self._top = None
                        return

    def _group(self, classes: list[int], whole: Amounts) -> None:
        """Sort the nodes into kinds anew: by the class of each row, and what each class holds in
        all."""
        self._classes, self._whole = classes, whole
        size, width = _FIRST_SIZE, whole.shape[1]
        self._slot_of = [0] * len(classes)
        self._top, self._reached = None, []
        self._slots = {}
        self.rows = []
        self._spare = []
        self.kinds = np.full((size, width), _NOBODY, dtype=np.int64)
        self.counts = np.zeros(size, dtype=np.int64)
        self._class_of = np.zeros(size, dtype=np.int64)
        # From the last to the first, so that each list is ascending as it comes.
        for row in range(len(classes) - 1, -1, -1):
            slot = self._slot((self.free[row], classes[row]))
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
