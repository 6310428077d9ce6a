"""Single further tasks for jobs that are placed already: on their own servers first, else where
they leave least over.

What whole jobs leave over lies in pieces that hold no job, but may hold a task. A job's own server
with the fewest tasks of that kind comes first, which keeps it even; then, of all nodes, one that
the task fills up best."""

from heapq import heapify, heappop, heappush, heapreplace

import numpy as np

from optimus.jobs import NodeConstraints, ReplicaSpec
from optimus.placement.assignment import Assignment, Server
from optimus.placement.capacity import Capacity
from optimus.placement.node_classes import Vector

_NONE = (0, 0)


def _has(free: Vector, asked: list[tuple[int, int]]) -> bool:
    for column, amount in asked:  # noqa: SIM110 - a hundred thousand times a plan: all() of a generator takes twice as long
        if free[column] < amount:
            return False
    return True


class IncrementalPlacement:
    """One job while it grows on a stock; takes the room of what it adds."""

    def __init__(self, seats: Assignment, stock: Capacity, tightest: "TightestFit") -> None:
        self._stock, self._tightest = stock, tightest
        self._fixed = seats.fixed
        self._servers = {row: [ps, workers] for row, ps, workers in seats.servers}

    def add(self, spec: ReplicaSpec, column: int, count: int) -> int:
        """Add up to so many PSs (column 0) or workers (1); says for how many there was room."""
        task = self._stock.vector(spec.resources)
        if task is None or count <= 0:
            return 0
        asked = [(at, amount) for at, amount in enumerate(task) if amount > 0]
        own = self._with_room(column, asked)
        for added in range(count):
            row = self._next_own(own, asked)
            if row is None:
                row = self._tightest.row(task, spec.constraints)
                if row is None:
                    return added
                heappush(own, (self._servers.get(row, _NONE)[column] + 1, row))
            self._stock.take(row, task)
            self._servers.setdefault(row, [0, 0])[column] += 1
        return count

    def _with_room(self, column: int, asked: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """A heap of own servers that have room for one more, those with the fewest such tasks
        first.

        Only servers that hold such a task are looked at: these are known to admit it.
        """
        free, found = self._stock.free, []
        for row, counts in self._servers.items():
            if counts[column] and _has(free[row], asked):
                found.append((counts[column], row))
        heapify(found)
        return found

    def _next_own(self, own: list[tuple[int, int]], asked: list[tuple[int, int]]) -> int | None:
        """The first of them; one that has no more room is left out from now on."""
        free = self._stock.free
        while own:
            count, row = own[0]
            if _has(free[row], asked):
                heapreplace(own, (count + 1, row))
                return row
            heappop(own)
        return None

    @property
    def seats(self) -> Assignment:
        """Where the job is now."""
        servers = tuple(Server(row, ps, workers) for row, (ps, workers) in self._servers.items())
        return Assignment(servers, self._fixed)


class TightestFit:
    """The node that leaves least over beside one task, by the sum of its free shares.

    A kind of node that was the tightest is taken to be so until none of it is left.
    """

    def __init__(self, stock: Capacity) -> None:
        self._stock = stock
        self._known: dict[tuple[Vector, NodeConstraints], tuple[int, Vector]] = {}

    def row(self, task: Vector, constraints: NodeConstraints) -> int | None:
        """A node for one task; ``None`` where there is none. Takes no room."""
        stock = self._stock
        known = self._known.get((task, constraints))
        if known is not None:
            row = stock.first_row(known[0])
            if row is not None and stock.free[row] == known[1]:
                return row
        slot = self._find(task, constraints)
        row = None if slot is None else stock.first_row(slot)
        if slot is not None and row is not None:
            self._known[task, constraints] = slot, stock.free[row]
        return row

    def _find(self, task: Vector, constraints: NodeConstraints) -> int | None:
        stock = self._stock
        stock.tell_apart(constraints)
        able = stock.holds(task)
        admitted = stock.admits(constraints)
        if admitted is not None:
            able &= admitted
        slots = np.flatnonzero(able)
        if len(slots) == 0:
            return None
        left = stock.free_shares(slots)
        alike = slots[left == left.min()].tolist()
        return int(min(alike, key=lambda slot: stock.first_rows(slot, 1)[0]))
