"""Placement replica by replica, as schedulers do that know pods and not jobs.

The rules that Theorem 1 is compared with. Each replica in turn goes to the node, among those that
admit it and have room, where the free fraction of its dominant resource is largest (spreading:
Kubernetes' default, least allocated) or smallest (packing). Equal replicas are placed in strides:
while packing, a node that is the fullest stays so until it holds no more; while spreading, equal
nodes are used one after the other.
"""

from collections.abc import Collection
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from optimus.jobs import Counts, Job, ReplicaSpec, Role
from optimus.placement.capacity import Capacity
from optimus.placement.gang import (
    Assignment,
    DoesNotFit,
    FixedAssignment,
    Gang,
    Placement,
    Server,
    does_not_fit,
    job_does_not_fit,
)
from optimus.snapshot import ReplicaId


@dataclass(frozen=True, slots=True)
class PerPod:
    """A rule of this kind; ``emptiest_first`` spreads, otherwise it packs."""

    emptiest_first: bool

    def place(self, gang: Gang, capacity: Capacity) -> Placement | DoesNotFit:
        """Choose nodes for the gang's unbound replicas; takes nothing."""
        mark, nodes = capacity.mark(), dict[ReplicaId, str]()
        for member in sorted(gang.unbound, key=lambda member: (member.role, member.index)):
            rows = self._rows(member.spec, 1, capacity, member.excluded)
            if rows is None:
                break
            replica = ReplicaId(gang.job_uid, member.role, member.index)
            nodes[replica] = capacity.nodes[rows[0]].name
        capacity.undo_to(mark)
        if len(nodes) < len(gang.unbound):
            return does_not_fit(gang)
        return Placement(gang.job_uid, MappingProxyType(nodes))

    def place_job(self, job: Job, counts: Counts, capacity: Capacity) -> Assignment | DoesNotFit:
        """Choose nodes for a whole job of which nothing is bound, and take what it requests."""
        mark, servers, fixed = capacity.mark(), dict[int, list[int]](), list[FixedAssignment]()
        roles = [(Role.PS, job.ps, counts.ps), (Role.WORKER, job.worker, counts.workers)]
        roles += [(each.role, each.spec, each.count) for each in job.fixed]
        for role, spec, count in sorted(roles, key=lambda each: each[0]):
            rows = self._rows(spec, count, capacity)
            if rows is None:
                capacity.undo_to(mark)
                return job_does_not_fit(job, counts)
            if role is Role.PS or role is Role.WORKER:
                for row in rows:
                    servers.setdefault(row, [0, 0])[role is Role.WORKER] += 1
            else:
                fixed += [FixedAssignment(role, index, row) for index, row in enumerate(rows)]
        found = (Server(row, ps, workers) for row, (ps, workers) in servers.items())
        return Assignment(tuple(found), tuple(fixed))

    def _rows(
        self, spec: ReplicaSpec, count: int, capacity: Capacity, excluded: Collection[str] = ()
    ) -> list[int] | None:
        """A node for each of so many replicas, in order; takes what they ask for."""
        asked = capacity.vector(spec.resources)
        avoid = {capacity.row_of[name] for name in excluded if name in capacity.row_of}
        rows: list[int] = []
        while asked is not None and len(rows) < count:
            stride = self._stride(spec, count - len(rows), capacity, avoid)
            if not stride:
                return None
            for row in stride:
                capacity.take(row, asked)
            rows += stride
        return rows if len(rows) == count else None

    def _stride(
        self, spec: ReplicaSpec, count: int, capacity: Capacity, avoid: Collection[int]
    ) -> list[int]:
        """The next node, or as many next ones as are sure to follow."""
        asked = capacity.vector(spec.resources) or ()
        able = capacity.able(asked, spec.constraints)
        column = capacity.dominant(asked)
        rows: list[int] = []
        alike: list[int] = []
        while not rows and able.any():
            classes = np.flatnonzero(able)
            shares = capacity.free_fractions(column)[classes] if column >= 0 else classes * 0.0
            best = shares.max() if self.emptiest_first else shares.min()
            alike = classes[shares == best].tolist()
            first = (capacity.first_rows(number, count + len(avoid)) for number in alike)
            rows = [row for found in first for row in found if row not in avoid]
            able[alike] = False
        if not rows or column < 0:
            return [min(rows)] if rows else []
        if self.emptiest_first:
            return rows[:count] if len(alike) == 1 else [min(rows)]
        row = min(rows)
        free = zip(capacity.free[row], asked, strict=True)
        return [row] * min(count, *(left // amount for left, amount in free if amount > 0))


SPREAD = PerPod(emptiest_first=True)
PACK = PerPod(emptiest_first=False)
