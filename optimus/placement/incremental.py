"""Places single further tasks of jobs that are placed already: on their own servers first, else
where they leave least over.

What whole jobs leave over lies in pieces that hold no job, but may hold a task. A job's own server
with the fewest tasks of that type comes first, which keeps it even; then, of all nodes, one that
the task fills up best.
"""

from heapq import heapify, heappop, heappush, heapreplace

import numpy as np

from optimus.jobs import NodeConstraints, ReplicaSpec
from optimus.placement.capacity import Capacity, Vector
from optimus.placement.gang import Assignment, Server


def _has(free: Vector, asked: list[tuple[int, int]]) -> bool:
    for column, amount in asked:  # noqa: SIM110 - a hundred thousand times a plan: all() of a generator takes twice as long
        if free[column] < amount:
            return False
    return True


class Task:
    """One task as the nodes see it, and what is known of the nodes that it fills up best.

    Compared by identity: thousands of tasks are alike, and hashing each one's amounts and
    constraints takes longer than placing it.
    """

    __slots__ = ("amount", "asked", "constraints", "fits_nowhere", "tightest")

    def __init__(self, amount: Vector, constraints: NodeConstraints) -> None:
        self.amount, self.constraints = amount, constraints
        self.asked = [(column, each) for column, each in enumerate(amount) if each > 0]
        self.tightest: tuple[int, Vector] | None = None
        """The class of nodes that was the tightest, and what was free on each."""
        self.fits_nowhere = False
        """No node had room for it, and nothing has been given back since."""


class IncrementalPlacement:
    """One job while it grows; takes what its further tasks ask for."""

    def __init__(self, assignment: Assignment, capacity: Capacity, tightest: "TightestFit") -> None:
        self._capacity, self._tightest = capacity, tightest
        self._fixed = assignment.fixed
        self._servers = {server[0]: server for server in assignment.servers}

    def add(self, spec: ReplicaSpec, column: int, count: int) -> int:
        """Add up to so many PSs (column 0) or workers (1); returns for how many there was room."""
        task = self._tightest.task(spec)
        if task is None or count <= 0:
            return 0
        asked, servers = task.asked, self._servers
        own = self._own_with_room(column, asked)
        for added in range(count):
            row = self._next_own(own, asked) if own else None
            if row is None:
                row = self._tightest.row(task)
                if row is None:
                    return added
                heappush(own, (self._count(row, column) + 1, row))
            self._capacity.take(row, task.amount)
            _, ps, workers = servers.get(row) or (row, 0, 0)
            servers[row] = Server(row, ps, workers + 1) if column else Server(row, ps + 1, workers)
        return count

    def _count(self, row: int, column: int) -> int:
        server = self._servers.get(row)
        return 0 if server is None else server[1 + column]

    def _own_with_room(self, column: int, asked: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """A heap of own servers that have room for one more, those with the fewest such tasks
        first.

        Only servers that hold such a task are considered: these are known to admit it.
        """
        free, at = self._capacity.free, 1 + column
        found = [
            (server[at], row)
            for row, server in self._servers.items()
            if server[at] and _has(free[row], asked)
        ]
        heapify(found)
        return found

    def _next_own(self, own: list[tuple[int, int]], asked: list[tuple[int, int]]) -> int | None:
        """The first of them; one that has no more room is left out from now on."""
        free = self._capacity.free
        while own:
            count, row = own[0]
            if _has(free[row], asked):
                heapreplace(own, (count + 1, row))
                return row
            heappop(own)
        return None

    @property
    def assignment(self) -> Assignment:
        """Return where the job is now."""
        return Assignment(tuple(self._servers.values()), self._fixed)


class TightestFit:
    """The node that leaves least over beside one task, by the sum of its free shares.

    A class of nodes that was the tightest is taken to be so until none of it is left. Whoever gives
    something back meanwhile says so with ``given_back``.
    """

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._alike: dict[tuple[Vector, NodeConstraints], Task] = {}
        self._known: dict[tuple[int, int], tuple[ReplicaSpec, Task | None]] = {}
        """By the identity of what a spec holds, which most specs share. The spec is kept, so that
        no other object gets that identity."""

    def reset(self, capacity: Capacity) -> None:
        """Forget which nodes were the tightest: others have been placed since."""
        self._capacity = capacity
        for task in self._alike.values():
            task.tightest, task.fits_nowhere = None, False

    def task(self, spec: ReplicaSpec) -> Task | None:
        """One replica of this spec; ``None`` where it requests a resource that no node has."""
        key = id(spec.resources), id(spec.constraints)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = spec, self._task(spec)
        return known[1]

    def _task(self, spec: ReplicaSpec) -> Task | None:
        amount, constraints = self._capacity.vector(spec.resources), spec.constraints
        if amount is None:
            return None
        return self._alike.setdefault((amount, constraints), Task(amount, constraints))

    def any_fits_on(self, capacity: Capacity) -> bool:
        """Return whether any node has room for any of the tasks that were asked about."""
        tasks = self._alike.values()
        return any(capacity.able(task.amount, task.constraints).any() for task in tasks)

    def fits_nowhere(self, spec: ReplicaSpec) -> bool:
        """Return whether it is known that no node has room for a replica of this spec."""
        task = self.task(spec)
        return task is not None and task.fits_nowhere

    def row(self, task: Task) -> int | None:
        """A node for one task; ``None`` where there is none. Takes nothing."""
        capacity, known = self._capacity, task.tightest
        if task.fits_nowhere:
            return None
        if known is not None:
            row = capacity.first_row(known[0])
            if row is not None and capacity.free[row] == known[1]:
                return row
        number = self._find(task)
        row = None if number is None else capacity.first_row(number)
        if number is not None and row is not None:
            task.tightest = number, capacity.free[row]
        else:
            task.fits_nowhere = True
        return row

    def given_back(self) -> None:
        """Something has been given back to a node: what had no room may have some now."""
        for task in self._alike.values():
            task.fits_nowhere = False

    def _find(self, task: Task) -> int | None:
        classes = np.flatnonzero(self._capacity.able(task.amount, task.constraints))
        if len(classes) == 0:
            return None
        left = self._capacity.free_shares(classes)
        alike = classes[left == left.min()].tolist()
        return int(min(alike, key=lambda number: self._capacity.first_rows(number, 1)))
