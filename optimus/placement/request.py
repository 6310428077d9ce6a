"""One gang on one capacity index: what it asks for, and the nodes as it sees them."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from optimus.jobs import Counts, Job, NodeConstraints, Role
from optimus.placement.capacity import Capacity, Integers, Mask, Vector
from optimus.placement.gang import Gang, Member
from optimus.placement.min_transfer import GroupTable, ReplicasByServer, ServerTable
from optimus.resources import NONE, Resources


class Replicas(NamedTuple):
    """The PSs or the workers of a gang: ``total`` in all, ``waiting`` of them without a node.

    ``bound`` is how many are on a row already. A replica that is bound to a node that has left is
    placed, but on no server that could be counted. All ask for ``amount``, and may not go on
    ``excluded``: they come from one template, so a node excluded for one is excluded for all. Where
    they differ all the same, the largest amount counts, and ``amounts`` has each one's own.
    """

    total: int
    waiting: int
    amount: Vector
    constraints: Collection[NodeConstraints]
    bound: Mapping[int, int] = MappingProxyType({})
    excluded: Collection[int] = ()
    amounts: Sequence[Vector] = ()

    def asked(self, first: int, count: int) -> Vector:
        """Return what so many of those that wait ask for together, from the ``first`` on."""
        if self.amounts:
            each = self.amounts[first : first + count]
            return tuple(
                [sum(column) for column in zip((0,) * len(self.amount), *each, strict=True)]
            )
        return tuple([count * each for each in self.amount])


class FixedReplica(NamedTuple):
    """One replica of a fixed role that has no node."""

    role: Role
    replica_index: int
    amount: Vector
    constraints: NodeConstraints
    excluded: Collection[int] = ()


class Request(NamedTuple):
    """One gang on one capacity index; fixed replicas that ask for most come first."""

    ps: Replicas
    workers: Replicas
    fixed: Sequence[FixedReplica]
    dominant: int
    """The column of the dominant resource of the PSs and workers that wait; -1 for none."""
    special: Collection[int]
    """Rows that hold bound replicas or are excluded: they differ from others of their class."""

    @classmethod
    def of_job(cls, job: Job, counts: Counts, capacity: Capacity) -> "Request | None":
        """A job of which nothing is bound; ``None`` where it requests a resource no node has."""
        nothing = (0,) * len(capacity.resources)
        ps = capacity.vector(job.ps.resources) if counts.ps else nothing
        worker = capacity.vector(job.worker.resources) if counts.workers else nothing
        if ps is None or worker is None:
            return None
        fixed: Sequence[FixedReplica] = ()
        if job.fixed:
            members = Gang.of(job, Counts(0, 0)).members
            found = _fixed_replicas(members, capacity)
            if found is None:
                return None
            fixed = found
        demand = [counts.ps * a + counts.workers * b for a, b in zip(ps, worker, strict=True)]
        return cls(
            Replicas(counts.ps, counts.ps, ps, (job.ps.constraints,)),
            Replicas(counts.workers, counts.workers, worker, (job.worker.constraints,)),
            fixed,
            capacity.dominant(demand),
            (),
        )

    @classmethod
    def of_gang(cls, gang: Gang, capacity: Capacity) -> "Request | None":
        """A gang that may be bound in part; ``None`` where it requests a resource no node has."""
        ps, workers = (_replicas(gang, role, capacity) for role in (Role.PS, Role.WORKER))
        fixed = _fixed_replicas(gang.unbound, capacity)
        if ps is None or workers is None or fixed is None:
            return None
        demand = [
            ps.waiting * a + workers.waiting * b
            for a, b in zip(ps.amount, workers.amount, strict=True)
        ]
        special = {*ps.bound, *workers.bound, *ps.excluded, *workers.excluded}
        return cls(ps, workers, fixed, capacity.dominant(demand), special)

    @property
    def constraints(self) -> set[NodeConstraints]:
        """All that decides which nodes admit which replica."""
        fixed = (each.constraints for each in self.fixed)
        return {*self.ps.constraints, *self.workers.constraints, *fixed}

    def on_one(self, ps: int, workers: int) -> Vector:
        """Return what so many PSs and workers ask for together."""
        return tuple(
            [ps * a + workers * b for a, b in zip(self.ps.amount, self.workers.amount, strict=True)]
        )

    def fewest_servers(self, largest_free: Vector) -> int:
        """No fewer servers than this, where no node has more than ``largest_free``."""
        fewest = 1
        demand = self.on_one(self.ps.waiting, self.workers.waiting)
        for asked, left in zip(demand, largest_free, strict=True):
            if 0 < left < asked:
                fewest = max(fewest, -(-asked // left))
        return fewest

    def might_fit(self, capacity: Capacity) -> bool:
        """Whether there are nodes enough for the PSs, for the workers, and for all in sum."""
        sums = (np.maximum(capacity.class_free, 0).T @ capacity.class_sizes).tolist()
        demand = self.on_one(self.ps.waiting, self.workers.waiting)
        for fixed in self.fixed:
            demand = tuple([a + b for a, b in zip(demand, fixed.amount, strict=True)])
        return fits(demand, sums) and _places(capacity, self.ps) and _places(capacity, self.workers)


def _places(capacity: Capacity, replicas: Replicas) -> bool:
    """Return whether the nodes that admit one type of replica hold all of it that wait."""
    wanted = replicas.waiting
    asked = [(column, each) for column, each in enumerate(replicas.amount) if each > 0]
    if wanted == 0 or not asked:
        return True
    capacity.distinguish(*replicas.constraints)
    admitted = [capacity.admits(each) for each in replicas.constraints]
    each = np.min([capacity.class_free[:, column] // one for column, one in asked], axis=0)
    places = np.clip(each, 0, wanted) * capacity.class_sizes
    masks = [mask for mask in admitted if mask is not None]
    if masks and len(masks) == len(admitted):
        places = places[np.logical_or.reduce(masks)]
    return int(places.sum()) >= wanted


def _replicas(gang: Gang, role: Role, capacity: Capacity) -> Replicas | None:
    members = [member for member in gang.members if member.role is role]
    waiting = waiting_replicas(gang, role)
    placed = [member.node for member in members if member.node is not None]
    bound = Counter(capacity.row_of[node] for node in placed if node in capacity.row_of)
    amount = capacity.vector(_largest(waiting))
    if amount is None:
        return None
    specs = {member.spec for member in waiting}
    amounts = [capacity.vector(member.spec.resources) or amount for member in waiting]
    return Replicas(
        len(waiting) + bound.total(),
        len(waiting),
        amount,
        {spec.constraints for spec in specs},
        bound,
        _excluded_rows(waiting, capacity),
        amounts if len({*amounts}) > 1 else (),
    )


def waiting_replicas(gang: Gang, role: Role) -> list[Member]:
    """The replicas of one type without a node, in order of indices."""
    found = [member for member in gang.members if member.role is role and member.node is None]
    return sorted(found, key=lambda member: member.index)


def _largest(members: Sequence[Member]) -> Resources:
    """The largest amount that any of the replicas requests, by resource."""
    if len({member.spec.resources for member in members}) <= 1:
        return members[0].spec.resources if members else NONE
    names = {name for member in members for name in member.spec.resources}
    return Resources(
        {name: max(member.spec.resources[name] for member in members) for name in names}
    )


def _excluded_rows(members: Sequence[Member], capacity: Capacity) -> set[int]:
    names = {name for member in members for name in member.excluded}
    return {capacity.row_of[name] for name in names if name in capacity.row_of}


def _fixed_replicas(members: Sequence[Member], capacity: Capacity) -> list[FixedReplica] | None:
    fixed = [each for each in members if each.role not in (Role.PS, Role.WORKER)]
    fixed.sort(key=lambda each: (-sum(each.spec.resources.values()), each.role, each.index))
    found: list[FixedReplica] = []
    for each in fixed:
        amount = capacity.vector(each.spec.resources)
        if amount is None:
            return None
        excluded = _excluded_rows((each,), capacity)
        found.append(FixedReplica(each.role, each.index, amount, each.spec.constraints, excluded))
    return found


def fits(asked: Vector, free: Sequence[int]) -> bool:
    """Return whether so much fits in what is free; what is not asked for does not matter."""
    for amount, left in zip(asked, free, strict=True):  # noqa: SIM110 - on the path of every job: all() of a generator takes twice as long
        if amount > left and amount > 0:
            return False
    return True


def equal_servers(
    ps: tuple[int, Vector], workers: tuple[int, Vector], free: Vector, count: int
) -> GroupTable:
    """``count`` servers with this free on each, which admit a gang of these numbers of PSs and
    workers with these requests."""
    nothing, admitted = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.bool_)
    types = [
        ReplicasByServer(total, np.array(amount, dtype=np.int64), nothing, admitted)
        for total, amount in (ps, workers)
    ]
    table = ServerTable(nothing, np.array([free], dtype=np.int64), *types)
    return GroupTable(table, np.array([count], dtype=np.int64))


class NodeGroups:
    """Nodes in groups, each of nodes that can hold the same of one gang.

    The groups are the classes of the capacity index, but for the nodes that are special to the
    gang. One that is excluded, or on which a fixed replica has been placed first (``taken`` is what
    that leaves free), is a group by itself. Those with bound replicas are kept apart: every plan
    includes them, and they are few.
    """

    def __init__(
        self,
        request: Request,
        capacity: Capacity,
        taken: Mapping[int, Vector] = MappingProxyType({}),
    ) -> None:
        self.request, self.capacity, self._taken = request, capacity, taken
        capacity.distinguish(*request.ps.constraints, *request.workers.constraints)
        self.free, self.sizes = capacity.class_free, capacity.class_sizes
        self._classes = len(self.sizes)
        self._apart = sorted({*request.special, *taken})
        self.bound = [r for r in self._apart if r in request.ps.bound or r in request.workers.bound]
        self._singles = np.array(sorted({*self._apart} - {*self.bound}), dtype=np.int64)
        if self._apart:
            self.sizes = self.sizes.copy()
            for row in self._apart:
                self.sizes[capacity.class_of(row)] -= 1
        if len(self._singles):
            singles = np.array([self._free_on(row) for row in self._singles.tolist()])
            width = self.free.shape[1]
            self.free = np.concatenate([self.free, singles.reshape(len(singles), width)])
            self.sizes = np.append(self.sizes, np.ones(len(singles), dtype=np.int64))
        self._admitted = [self._admitting(each) for each in (request.ps, request.workers)]
        self._known: dict[tuple[int, int], tuple[Mask, int]] = {}

    def _free_on(self, row: int) -> Vector:
        return self._taken.get(row) or self.capacity.free[row]

    def _admits(self, replicas: Replicas, row: int) -> bool:
        classes = self.capacity.admits(*replicas.constraints)
        admitted = classes is None or bool(classes[self.capacity.class_of(row)])
        return admitted and row not in replicas.excluded

    def _admitting(self, replicas: Replicas) -> Mask | None:
        classes = self.capacity.admits(*replicas.constraints)
        if not len(self._singles):
            return classes
        if classes is None:
            classes = np.ones(self._classes, dtype=np.bool_)
        return np.append(classes, [self._admits(replicas, row) for row in self._singles.tolist()])

    def can_hold(self, ps: int, workers: int) -> tuple[Mask, int]:
        """Return which groups can hold these counts on each node, and how many nodes that are."""
        known = self._known.get((ps, workers))
        if known is None:
            able = self.sizes > 0
            for column, asked in enumerate(self.request.on_one(ps, workers)):
                if asked > 0:
                    able &= self.free[:, column] >= asked
            for count, admitted in zip((ps, workers), self._admitted, strict=True):
                if count and admitted is not None:
                    able &= admitted
            known = self._known[ps, workers] = able, int(self.sizes[able].sum())
        return known

    def bound_can_hold(self, row: int, ps: int, workers: int) -> bool:
        """Whether a node with bound replicas can hold these counts, the bound ones included."""
        more_ps = ps - self.request.ps.bound.get(row, 0)
        more_workers = workers - self.request.workers.bound.get(row, 0)
        asked = self.request.on_one(more_ps, more_workers)
        return (
            more_ps >= 0
            and more_workers >= 0
            and (more_ps == 0 or self._admits(self.request.ps, row))
            and (more_workers == 0 or self._admits(self.request.workers, row))
            and fits(asked, self._free_on(row))
        )

    def first_rows(self, groups: Integers, most: int) -> tuple[Integers, Integers]:
        """At least the first nodes of each of these groups, and for each node its position in
        ``groups``."""
        if not self._apart:
            return self.capacity.first_rows_of(groups.tolist(), most)
        is_class = groups < self._classes
        classes, singles = np.flatnonzero(is_class), np.flatnonzero(~is_class)
        found = self.capacity.first_rows_of(groups[classes].tolist(), most + len(self._apart))
        kept = ~np.isin(found[0], self._apart)
        rows = np.append(found[0][kept], self._singles[groups[singles] - self._classes])
        return rows, np.append(classes[found[1][kept]], singles)

    def dominant_free(self, free: Integers) -> Integers:
        """The column of the gang's dominant resource, by which nodes are preferred."""
        column = self.request.dominant
        return free[:, column] if column >= 0 else np.zeros(len(free), dtype=np.int64)

    def by_group(self) -> GroupTable:
        """The groups that can hold anything, and the nodes with bound replicas."""
        groups = self._usable()
        table = self._table(groups, np.arange(len(groups)), groups)
        return GroupTable(table, np.append(np.ones(len(self.bound), np.int64), self.sizes[groups]))

    def table(self, most: int) -> ServerTable:
        """The nodes one by one, those first that have most of the dominant resource: of each group
        so many at most."""
        groups = self._usable()
        rows, which = self.first_rows(groups, most)
        table = self._table(groups, which, rows)
        return table.take(np.lexsort((table.rows, -self.dominant_free(table.free))))

    def _usable(self) -> Integers:
        return np.flatnonzero(self.can_hold(1, 0)[0] | self.can_hold(0, 1)[0])

    def _table(self, groups: Integers, which: Integers, rows: Integers) -> ServerTable:
        """The nodes with bound replicas, then these rows; ``which`` is the position of each one's
        group in ``groups``."""
        width = self.free.shape[1]
        bound = np.array([self._free_on(row) for row in self.bound], dtype=np.int64)
        free = np.append(bound.reshape(len(bound), width), self.free[groups[which]], axis=0)
        others = np.zeros(len(which), dtype=np.int64)
        columns = []
        masks = zip((self.request.ps, self.request.workers), self._admitted, strict=True)
        for replicas, mask in masks:
            there = np.array([replicas.bound.get(row, 0) for row in self.bound], dtype=np.int64)
            alike = np.ones(len(which), np.bool_) if mask is None else mask[groups][which]
            special = np.array([self._admits(replicas, row) for row in self.bound], dtype=np.bool_)
            asked = np.array(replicas.amount, dtype=np.int64)
            columns.append(
                ReplicasByServer(
                    replicas.total, asked, np.append(there, others), np.append(special, alike)
                )
            )
        return ServerTable(np.append(np.array(self.bound, dtype=np.int64), rows), free, *columns)
