"""Placing a job one replica at a time, as schedulers do that know pods and not jobs.

Each replica in turn goes to the node, among those that admit it and have room, where the free share
of its dominant resource is largest (spreading) or smallest (packing). On a stock the same is done
in strides: while packing, a node that is the fullest stays so until it holds no more; while
spreading, nodes that are alike are used one after the other."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from optimus.jobs import Counts, Job, ReplicaSpec, Role
from optimus.nodes import Node
from optimus.placement.assignment import Assignment, FixedAssignment, Server
from optimus.placement.capacity import Capacity
from optimus.placement.free_matrix import FreeMatrix
from optimus.placement.gang import DoesNotFit, Gang, Member, Placement
from optimus.placement.reasons import does_not_fit, job_does_not_fit
from optimus.resources import Resources
from optimus.snapshot import ReplicaId


class PerPod:
    """A rule of this kind: a ``PlacementRule`` once ``emptiest_first`` is said."""

    __slots__ = ()
    emptiest_first: ClassVar[bool]

    def place(
        self, gang: Gang, nodes: Sequence[Node], free: Mapping[str, Resources]
    ) -> Placement | DoesNotFit:
        """Choose nodes for the gang's unbound replicas; ``free`` is the free room by node name."""
        return self.place_in(gang, FreeMatrix(nodes, free))

    def place_in(self, gang: Gang, room: FreeMatrix) -> Placement | DoesNotFit:
        """The same on room that is at hand as a matrix; the room is not changed."""
        return _seat_gang(gang, room, self.emptiest_first)

    def seat(
        self,
        job: Job,
        counts: Counts,
        stock: Capacity,
        *,
        evenly: bool = False,  # noqa: ARG002 - part of the protocol
    ) -> Assignment | DoesNotFit:
        """The same for a whole job of which nothing is bound, on a stock, from which the room is
        taken.

        ``evenly`` says nothing to a rule that does not know jobs.
        """
        return _seat_job(job, counts, stock, self.emptiest_first)


def _seat_gang(gang: Gang, room: FreeMatrix, emptiest_first: bool) -> Placement | DoesNotFit:
    """Seat every unbound replica in order of roles and indices."""
    left = room.copy()
    capacity = {node.name: node.allocatable for node in room.nodes}
    seats: dict[ReplicaId, str] = {}
    for member in sorted(gang.unbound, key=lambda member: (member.role, member.index)):
        row = _best(member, left, capacity, emptiest_first)
        if row is None:
            return does_not_fit(gang)
        seats[ReplicaId(gang.job_uid, member.role, member.index)] = left.names[row]
        left.take(row, member.spec.resources)
    return Placement(gang.job_uid, MappingProxyType(seats))


def _best(
    member: Member, room: FreeMatrix, capacity: Mapping[str, Resources], emptiest_first: bool
) -> int | None:
    asked = member.spec.resources
    able = room.admits(member.spec.constraints) & room.holds(asked)
    rows = [row for row in np.flatnonzero(able).tolist() if room.names[row] not in member.barred]
    dominant, _ = asked.dominant(room.capacity)
    left = room.column(dominant)

    def share(row: int) -> float:
        whole = capacity[room.names[row]][dominant]
        return int(left[row]) / whole if whole else 0.0

    sign = -1 if emptiest_first else 1
    return min(rows, key=lambda row: (sign * share(row), row), default=None)


def _seat_job(
    job: Job, counts: Counts, stock: Capacity, emptiest_first: bool
) -> Assignment | DoesNotFit:
    """Seat every replica in order of roles and indices, or none."""
    mark = stock.mark()
    servers: dict[int, list[int]] = {}
    fixed: list[FixedAssignment] = []
    for role, spec, count in sorted(_roles(job, counts), key=lambda each: each[0]):
        rows = _rows(spec, count, stock, emptiest_first)
        if rows is None:
            stock.back_to(mark)
            return job_does_not_fit(job, counts)
        for number, row in enumerate(rows):
            if role is Role.PS or role is Role.WORKER:
                servers.setdefault(row, [0, 0])[role is Role.WORKER] += 1
            else:
                fixed.append(FixedAssignment(role, number, row))
    return Assignment(
        tuple(Server(row, ps, workers) for row, (ps, workers) in servers.items()), tuple(fixed)
    )


def _roles(job: Job, counts: Counts) -> Iterator[tuple[Role, ReplicaSpec, int]]:
    yield Role.PS, job.ps, counts.ps
    yield Role.WORKER, job.worker, counts.workers
    for fixed in job.fixed:
        yield fixed.role, fixed.spec, fixed.count


def _rows(spec: ReplicaSpec, count: int, stock: Capacity, emptiest_first: bool) -> list[int] | None:
    """A node for each of so many replicas, in order; takes their room."""
    asked = stock.vector(spec.resources)
    rows: list[int] = []
    while asked is not None and len(rows) < count:
        stride = _stride(spec, count - len(rows), stock, emptiest_first)
        if not stride:
            return None
        for row in stride:
            stock.take(row, asked)
        rows += stride
    return rows if len(rows) == count else None


def _stride(spec: ReplicaSpec, count: int, stock: Capacity, emptiest_first: bool) -> list[int]:
    """The next node, or as many next ones as are sure to follow."""
    asked = stock.vector(spec.resources) or ()
    stock.tell_apart(spec.constraints)
    able = stock.holds(asked)
    admitted = stock.admits(spec.constraints)
    if admitted is not None:
        able &= admitted
    slots = np.flatnonzero(able)
    if len(slots) == 0:
        return []
    column = stock.dominant(asked)
    shares = stock.shares_left(column)[slots] if column >= 0 else np.zeros(len(slots))
    best = shares.max() if emptiest_first else shares.min()
    alike = slots[shares == best].tolist()
    row = min(stock.first_rows(slot, 1)[0] for slot in alike)
    if column < 0:
        return [row]
    if emptiest_first:
        return stock.first_rows(alike[0], count) if len(alike) == 1 else [row]
    more = min(
        left // amount for left, amount in zip(stock.free[row], asked, strict=True) if amount > 0
    )
    return [row] * min(more, count)
