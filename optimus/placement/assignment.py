"""Where a whole job goes, server by server, and taking its room from a stock."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from optimus.jobs import Counts, Job, ReplicaSpec, Role
from optimus.placement.capacity import Capacity
from optimus.placement.node_classes import Vector
from optimus.snapshot import ReplicaId


class Server(NamedTuple):
    """One node of a plan, by its row, with the PSs and workers that it holds in the end."""

    row: int
    ps: int
    workers: int


class FixedAssignment(NamedTuple):
    """The node, by its row, of one replica of a fixed role."""

    role: Role
    number: int
    row: int


class Assignment(NamedTuple):
    """A place for every replica of one job: PSs and workers by server, in order of indices, and
    fixed roles."""

    servers: tuple[Server, ...] = ()
    fixed: tuple[FixedAssignment, ...] = ()

    def replicas(self, job: Job) -> Iterator[tuple[ReplicaId, int]]:
        """Every replica and its row."""
        workers = ps = 0
        for server in self.servers:
            for _ in range(server.ps):
                yield ReplicaId(job.uid, Role.PS, ps), server.row
                ps += 1
            for _ in range(server.workers):
                yield ReplicaId(job.uid, Role.WORKER, workers), server.row
                workers += 1
        for seat in self.fixed:
            yield ReplicaId(job.uid, seat.role, seat.number), seat.row

    @property
    def counts(self) -> Counts:
        """How many PSs and workers these are."""
        return Counts(
            sum(each.ps for each in self.servers), sum(each.workers for each in self.servers)
        )

    def take_from(self, stock: Capacity, job: Job) -> None:
        """Take the room of every replica."""
        for rows, amount in self._amounts(stock, job):
            stock.take_each(rows, amount)

    def give_back_to(self, stock: Capacity, job: Job) -> None:
        """Give the room of every replica back."""
        for rows, amount in self._amounts(stock, job):
            stock.take_each(rows, tuple([-each for each in amount]))

    def _amounts(self, stock: Capacity, job: Job) -> Iterator[tuple[list[int], Vector]]:
        """What is asked for on which rows; rows of the same counts together."""
        nothing = (0,) * len(stock.resources)
        ps, worker = (
            stock.vector(job.ps.resources) or nothing,
            stock.vector(job.worker.resources) or nothing,
        )
        alike: dict[tuple[int, int], list[int]] = {}
        for row, p, w in self.servers:
            alike.setdefault((p, w), []).append(row)
        for (p, w), rows in alike.items():
            yield rows, tuple([p * a + w * b for a, b in zip(ps, worker, strict=True)])
        specs = {each.role: each.spec for each in job.fixed}
        for seat in self.fixed:
            yield [seat.row], stock.vector(specs[seat.role].resources) or nothing


def fixed_replicas(job: Job) -> list[tuple[Role, int, ReplicaSpec]]:
    """Replicas of fixed roles, those that ask for most first."""
    each = [(role.role, index, role.spec) for role in job.fixed for index in range(role.count)]
    return sorted(each, key=lambda one: (-sum(one[2].resources.values()), one[0], one[1]))


def seat_fixed(
    job: Job, servers: Sequence[Server], stock: Capacity
) -> tuple[FixedAssignment, ...] | None:
    """Put each replica of a fixed role where most room is left, on one of the servers if one holds
    it.

    The servers' room is taken already; that of the fixed roles is taken here, also where one finds
    no place."""
    rather = {server.row for server in servers}
    seats: list[FixedAssignment] = []
    for role, index, spec in fixed_replicas(job):
        row = _roomiest(spec, rather, stock)
        if row is None:
            return None
        stock.take(row, stock.vector(spec.resources) or ())
        seats.append(FixedAssignment(role, index, row))
    return tuple(seats)


def _roomiest(spec: ReplicaSpec, rather: set[int], stock: Capacity) -> int | None:
    asked = stock.vector(spec.resources)
    if asked is None:
        return None
    stock.tell_apart(spec.constraints)
    able = stock.holds(asked)
    admitted = stock.admits(spec.constraints)
    if admitted is not None:
        able &= admitted
    slots = np.flatnonzero(able).tolist()
    column = stock.dominant(asked)
    on_servers = [row for slot in slots for row in stock.rows_among(slot, rather)]
    rows = on_servers or [row for slot in slots for row in stock.first_rows(slot, 1)]
    return min(
        rows, key=lambda row: (-stock.free[row][column] if column >= 0 else 0, row), default=None
    )
