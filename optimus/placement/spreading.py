"""The question behind Theorem 1 as numbers: how many PSs and workers can each node hold?

``Tasks`` is the PSs and workers of one gang, bound ones included; ``Hosting`` answers, for a number
of PSs on a node, how many workers fit beside them. Everything else is counting over these columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimus.jobs import NodeConstraints, Role
from optimus.placement.free_matrix import Amounts, FreeMatrix, Rows
from optimus.placement.gang import Gang, Member
from optimus.resources import NONE, Resources

Counted = NDArray[np.int64]

NEVER = -(10**9)
"""Stands for "these counts cannot be": far below any sum of real counts."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """The replicas of one type: ``count`` in all, ``bound`` of them already on each node.

    Replicas of one type come from one template, so a node barred for one is barred for all of them,
    and where they differ all the same the largest amount counts.
    """

    count: int
    bound: Counted
    resources: Resources
    admitted: Rows
    waiting: tuple[Member, ...]

    @classmethod
    def of(cls, gang: Gang, role: Role, room: FreeMatrix) -> "Tasks":
        """The gang's replicas of one type on this room."""
        members = [member for member in gang.members if member.role is role]
        waiting = tuple(
            sorted((m for m in members if m.node is None), key=lambda member: member.index)
        )
        bound = np.zeros(len(room.names), dtype=np.int64)
        gone = 0
        for member in members:
            row = None if member.node is None else room.row(member.node)
            if row is not None:
                bound[row] += 1
            elif member.node is not None:
                gone += 1
        # A replica that is bound to a node that has left is placed, but on no server that could be
        # counted.
        return cls(len(members) - gone, bound, largest(waiting), _admitted(waiting, room), waiting)


def largest(members: Sequence[Member]) -> Resources:
    """The largest amount that any of the replicas asks for, by resource."""
    if len({member.spec.resources for member in members}) <= 1:
        return members[0].spec.resources if members else NONE
    names = {name for member in members for name in member.spec.resources}
    return Resources(
        {name: max(member.spec.resources[name] for member in members) for name in names}
    )


def _admitted(members: Sequence[Member], room: FreeMatrix) -> Rows:
    admitted = np.ones(len(room.names), dtype=np.bool_)
    constraints: set[NodeConstraints] = {member.spec.constraints for member in members}
    for constraint in constraints:
        admitted &= room.admits(constraint)
    for name in {name for member in members for name in member.barred}:
        row = room.row(name)
        if row is not None:
            admitted[row] = False
    return admitted


class Hosting:
    """How many workers each node can hold beside a given number of PSs, bound ones included on both
    sides."""

    def __init__(self, room: FreeMatrix, ps: Tasks, workers: Tasks) -> None:
        self.room, self.ps, self.workers = room, ps, workers
        self.bound: Rows = (ps.bound > 0) | (workers.bound > 0)
        self._asked_ps, self._asked_worker = room.asks(ps.resources), room.asks(workers.resources)
        self._beside: dict[int, Counted] = {}
        self.order = self._order()

    def _order(self) -> Counted:
        """Rows by free dominant resource descending, names breaking ties (rows are in order of
        names)."""
        demand = self.ps.resources * len(self.ps.waiting) + self.workers.resources * len(
            self.workers.waiting
        )
        self.dominant, _ = demand.dominant(self.room.capacity)
        return np.argsort(-self.room.column(self.dominant), kind="stable")

    def workers_beside(self, ps: int) -> Counted:
        """By node, the most workers (at most the gang's) beside exactly ``ps`` PSs; ``NEVER`` where
        those cannot be."""
        known = self._beside.get(ps)
        if known is None:
            known = self._beside[ps] = self._count(ps)
        return known

    def _count(self, ps: int) -> Counted:
        more = ps - self.ps.bound
        left: Amounts = self.room.free
        possible = more == 0
        if self._asked_ps is not None and (more > 0).any():
            left = np.subtract(left, np.outer(np.maximum(more, 0), self._asked_ps), dtype=np.int64)
            wanted = self._asked_ps > 0
            possible |= (more > 0) & self.ps.admitted & (left[:, wanted] >= 0).all(axis=1)
        return np.where(possible, self.workers.bound + self._more_workers(left), NEVER).astype(
            np.int64
        )

    def _more_workers(self, left: Amounts) -> Counted:
        most = np.where(self.workers.admitted, self.workers.count - self.workers.bound, 0)
        if self._asked_worker is None:
            return np.zeros_like(most)
        for column in np.flatnonzero(self._asked_worker):
            np.minimum(most, np.maximum(left[:, column] // self._asked_worker[column], 0), out=most)
        return most

    def can_hold(self, ps: int, workers: int) -> Rows:
        """By node, whether it can hold exactly these counts."""
        return (self.workers_beside(ps) >= workers) & (self.workers.bound <= workers)
