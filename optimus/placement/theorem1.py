"""Job-level placement, all of a job or nothing: Theorem 1 (Optimus, section 4.2 and appendix).

For k = 1, 2, ...: if k servers hold the job with PSs and workers spread evenly (counts per server
differ by at most one), take them, servers with most of the job's dominant resource free first. On k
servers only four pairs of counts occur (so many PSs or one more, so many workers or one more), and
Hall's condition decides by counting the servers that can hold each pair. It is exact for any free
resources and constraints, and counting classes of nodes is enough; nodes are named only once k is
known.

Where no even spread puts PSs beside workers (they may not share nodes, what is free is too uneven,
bound replicas lie unevenly), ``min_transfer`` minimises the transfer time itself, and is taken if
it needs fewer servers than one for each replica. Fixed roles then go on the plan's server with most
room left, else on one more; if that leaves them without a node, they go first and the rest is
placed around them.
"""

import heapq
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from optimus.jobs import Counts, Job, NodeConstraints, Role
from optimus.placement.capacity import Capacity, Integers, Mask, Vector
from optimus.placement.gang import (
    Assignment,
    DoesNotFit,
    FixedAssignment,
    Gang,
    Member,
    Placement,
    Server,
    does_not_fit,
    job_does_not_fit,
)
from optimus.placement.min_transfer import (
    ReplicasByServer,
    ServerTable,
    Transfer,
    min_transfer_spread,
)
from optimus.resources import NONE, Resources
from optimus.snapshot import ReplicaId

_MOST_NODES_FOR_FIXED = 8
"""Where a gang fits only around its fixed roles, this many different nodes are tried for the
largest of them."""


@dataclass(frozen=True, slots=True)
class Theorem1:
    """The placement rule of the paper. ``transfer`` weighs uneven plans; all its figures are equal
    by default."""

    transfer: Transfer = field(default_factory=Transfer)

    def place(self, gang: Gang, capacity: Capacity) -> Placement | DoesNotFit:
        """Choose nodes for the gang's unbound replicas; takes nothing."""
        request = Request.of_gang(gang, capacity) if gang.unbound else None
        found = None if request is None else self._assign(request, capacity)
        if request is None or found is None:
            return does_not_fit(gang) if gang.unbound else Placement(gang.job_uid)
        return _name_nodes(gang, request, found, capacity)

    def place_job(
        self, job: Job, counts: Counts, capacity: Capacity, *, evenly: bool = False
    ) -> Assignment | DoesNotFit:
        """Choose nodes for a whole job of which nothing is bound, and take what it asks for.

        With ``evenly``, a job that no even spread holds is refused.
        """
        request = Request.of_job(job, counts, capacity)
        found = None if request is None else self._assign(request, capacity, evenly=evenly)
        if found is None:
            return job_does_not_fit(job, counts)
        found.take_from(capacity, job)
        return found

    def _assign(
        self, request: "Request", capacity: Capacity, *, evenly: bool = False
    ) -> Assignment | None:
        """A node for every replica, if the gang fits. Takes nothing in the end."""
        # 1. While there are empty nodes, most jobs fit on a few of them, and no search is needed.
        servers = _even_on_equal_nodes(request, capacity)
        # 2. The first plan: even if any is. Counting in sum tells most refusals before the search
        # for an uneven one; that for an even one refuses as fast.
        if servers is None:
            if not evenly and not request.might_fit(capacity):
                return None
            first = next(self._plans(NodeGroups(request, capacity), evenly=evenly), None)
            if first is None:
                return None
            servers = first.servers
        # 3. The fixed roles join it.
        if not request.fixed:
            return Assignment(tuple(servers))
        return _with_fixed(request, servers, capacity) or self._around_fixed(request, capacity)

    def _plans(self, nodes: "NodeGroups", *, evenly: bool = False) -> Iterator["_Plan"]:
        """Plans for PSs and workers, best first; with ``evenly`` none that is not even."""
        request = nodes.request
        p, w = request.ps.total, request.workers.total
        if p + w == 0:
            yield _Plan(True, [])
            return
        fewest = request.fewest_servers(nodes.capacity.largest_free())
        fewest, most = max(fewest, len(nodes.bound)), min(p + w, len(nodes.capacity.nodes))
        # One replica on each server is even, and yet no PS lies beside a worker: that is worth no
        # further server.
        together = p + w - 1 if p and w else p + w
        yield from (_Plan(True, each) for each in _even(nodes, fewest, min(together, most)))
        if evenly:
            return
        squeezed = min_transfer_spread(nodes.table(), self.transfer)
        for each in _even(nodes, max(fewest, together + 1), most):
            if squeezed is not None and len(squeezed) < len(each):
                yield _Plan(False, squeezed)
                squeezed = None
            yield _Plan(False, each)
        if squeezed is not None:
            yield _Plan(False, squeezed)

    def _around_fixed(self, request: "Request", capacity: Capacity) -> Assignment | None:
        """The best plan that leaves a node for every fixed role, where the first plan does not.

        Plans beside which the fixed roles are placed afterwards compete with plans around fixed
        roles that are placed first, the largest on the roomiest node; other nodes for it are tried
        when nothing else is left.
        """
        scratch = capacity.copy()
        rows = [None, *_nodes_for_largest(request, capacity)]
        plans = [self._plans_beside(row, request, capacity, scratch) for row in rows]
        first = heapq.merge(*plans[:2], key=lambda each: each[0].order)
        for plan, fixed in chain(first, *plans[2:]):
            if fixed:
                return Assignment(tuple(plan.servers), fixed)
            whole = _with_fixed(request, plan.servers, scratch)
            if whole is not None:
                return whole
        return None

    def _plans_beside(
        self, row: int | None, request: "Request", capacity: Capacity, scratch: Capacity
    ) -> Iterator[tuple["_Plan", tuple[FixedAssignment, ...]]]:
        """Plans for PSs and workers; with a row, around fixed roles that are placed there first."""
        fixed: tuple[FixedAssignment, ...] | None = ()
        taken: dict[int, Vector] = {}
        if row is not None:
            mark, (largest, *others) = scratch.mark(), request.fixed
            scratch.take(row, largest.amount)
            fixed = _place_fixed(others, {row}, scratch)
            if fixed is not None:
                fixed = (FixedAssignment(largest.role, largest.replica_index, row), *fixed)
                taken = {each.row: scratch.free[each.row] for each in fixed}
            scratch.undo_to(mark)
        if fixed is not None:
            for plan in self._plans(NodeGroups(request, capacity, taken)):
                yield plan, fixed


class _Plan(NamedTuple):
    """PSs and workers by server; ``is_even`` if they are spread evenly and together."""

    is_even: bool
    servers: list[Server]

    @property
    def order(self) -> tuple[bool, int]:
        """Even spreads that put PSs beside workers come first, then fewer servers."""
        return not self.is_even, len(self.servers)


# --- the question: what a gang asks for, in the terms of one capacity index


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
        """What so many of those that wait ask for together, from the ``first`` on."""
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
        """A job of which nothing is bound; ``None`` where it asks for a resource no node has."""
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
        """A gang that may be bound in part; ``None`` where it asks for a resource no node has."""
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
        """What so many PSs and workers ask for together."""
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
        return (
            _fits(demand, sums)
            and _places(capacity, self.ps.amount, self.ps.waiting)
            and _places(capacity, self.workers.amount, self.workers.waiting)
        )


def _places(capacity: Capacity, amount: Vector, wanted: int) -> bool:
    """Whether the nodes hold so many of one type of replica."""
    asked = [(column, each) for column, each in enumerate(amount) if each > 0]
    if wanted == 0 or not asked:
        return True
    each = np.min([capacity.class_free[:, column] // one for column, one in asked], axis=0)
    return int((np.clip(each, 0, wanted) * capacity.class_sizes).sum()) >= wanted


def _replicas(gang: Gang, role: Role, capacity: Capacity) -> Replicas | None:
    members = [member for member in gang.members if member.role is role]
    waiting = _waiting(gang, role)
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


def _waiting(gang: Gang, role: Role) -> list[Member]:
    """The replicas of one type without a node, in order of indices."""
    found = [member for member in gang.members if member.role is role and member.node is None]
    return sorted(found, key=lambda member: member.index)


def _largest(members: Sequence[Member]) -> Resources:
    """The largest amount that any of the replicas asks for, by resource."""
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


# --- the nodes, as one gang sees them


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
        """Which groups can hold these counts on each node, and how many nodes that are."""
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
            and _fits(asked, self._free_on(row))
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

    def table(self) -> ServerTable:
        """The nodes one by one, those first that have most of the dominant resource: of each group
        as many as the gang has replicas, since no plan can use more."""
        ps, workers = self.request.ps, self.request.workers
        groups = np.flatnonzero(self.can_hold(1, 0)[0] | self.can_hold(0, 1)[0])
        rows, which = self.first_rows(groups, ps.total + workers.total)
        width = self.free.shape[1]
        bound = np.array([self._free_on(row) for row in self.bound], dtype=np.int64)
        free = np.append(bound.reshape(len(bound), width), self.free[groups][which], axis=0)
        rows = np.append(np.array(self.bound, dtype=np.int64), rows)
        order = np.lexsort((rows, -self.dominant_free(free)))
        columns = []
        for replicas, mask in zip((ps, workers), self._admitted, strict=True):
            there = np.array([replicas.bound.get(row, 0) for row in rows.tolist()], dtype=np.int64)
            alike = np.ones(len(which), np.bool_) if mask is None else mask[groups][which]
            special = np.array([self._admits(replicas, row) for row in self.bound], dtype=np.bool_)
            admitted = np.append(special, alike)
            asked = np.array(replicas.amount, dtype=np.int64)
            columns.append(ReplicasByServer(replicas.total, asked, there[order], admitted[order]))
        return ServerTable(rows[order], free[order], *columns)


# --- the even spread


class _Split(NamedTuple):
    """An even spread by its counts: every server holds ``ps`` and ``workers``, ``more_ps`` servers
    hold one PS more, and ``more_workers`` one worker more."""

    servers: int
    ps: int
    workers: int
    more_ps: int
    more_workers: int

    @classmethod
    def of(cls, request: Request, servers: int) -> "_Split":
        p, w = request.ps.total, request.workers.total
        return cls(servers, p // servers, w // servers, p % servers, w % servers)

    def fits_on(self, request: Request, free: Vector) -> bool:
        """Whether servers that are all like this hold it. Only the largest pairs of counts that
        must occur are looked at: they imply the others."""
        ps, workers, more_ps, more_workers = self[1:]
        if more_ps + more_workers > self.servers:
            return _fits(request.on_one(ps + 1, workers + 1), free)
        if more_ps and not _fits(request.on_one(ps + 1, workers), free):
            return False
        if more_workers:
            return _fits(request.on_one(ps, workers + 1), free)
        return bool(more_ps) or _fits(request.on_one(ps, workers), free)

    def with_both(self, both: int) -> tuple[tuple[int, int, int], ...]:
        """How many servers hold how many PSs and workers, where ``both`` hold one more of both."""
        ps, workers, more_ps, more_workers = self[1:]
        return (
            (both, ps + 1, workers + 1),
            (more_ps - both, ps + 1, workers),
            (more_workers - both, ps, workers + 1),
            (self.servers - more_ps - more_workers + both, ps, workers),
        )


def _fits(asked: Vector, free: Sequence[int]) -> bool:
    for amount, left in zip(asked, free, strict=True):  # noqa: SIM110 - on the path of every job: all() of a generator takes twice as long
        if amount > left and amount > 0:
            return False
    return True


def _even_on_equal_nodes(request: Request, capacity: Capacity) -> list[Server] | None:
    """The even spread on nodes of the roomiest class, where no others come into question.

    That is so if the class has most of every resource, alone has most of the dominant one, so that
    its nodes come first, and admits all replicas. While a cluster fills up it mostly is.
    """
    constraints = (*request.ps.constraints, *request.workers.constraints)
    if request.special or request.dominant < 0 or capacity.admits(*constraints) is not None:
        return None
    roomiest = capacity.roomiest_class()
    if roomiest is None or not capacity.is_unrivalled(request.dominant):
        return None
    number, free = roomiest
    p, w = request.ps.total, request.workers.total
    size = int(capacity.class_sizes[number])
    for servers in range(request.fewest_servers(free), min(p + w - (p > 0 < w), size) + 1):
        split = _Split.of(request, servers)
        if split.fits_on(request, free):
            rows = iter(capacity.first_rows(number, servers))
            both = max(0, split.more_ps + split.more_workers - servers)
            return [
                Server(next(rows), ps, workers)
                for count, ps, workers in split.with_both(both)
                for _ in range(count)
            ]
    return None


def _even(nodes: NodeGroups, fewest: int, most: int) -> Iterator[list[Server]]:
    """The even spreads over this many servers, fewest first: fewer servers, less transfer."""
    request, largest = nodes.request, nodes.capacity.largest_free()
    for servers in range(fewest, most + 1):
        split = _Split.of(request, servers)
        # What is bound needs no room, so that this cannot tell whether the rest fits.
        if nodes.bound or split.fits_on(request, largest):
            found = _even_on(nodes, split)
            if found is not None:
                yield found


def _even_on(nodes: NodeGroups, split: _Split) -> list[Server] | None:
    """One even spread; ``None`` where no choice of servers allows it."""
    ps, workers, more_ps, more_workers = split[1:]
    pairs = (ps, workers), (ps + 1, workers), (ps, workers + 1), (ps + 1, workers + 1)
    needed = split.servers, more_ps, more_workers, more_ps + more_workers - split.servers
    # Too few nodes for one of the pairs tells most numbers of servers that are too small.
    for pair, number in zip(pairs, needed, strict=True):
        if number > len(nodes.bound) and nodes.can_hold(*pair)[1] + len(nodes.bound) < number:
            return None
    able = _able(nodes, split)
    for (more_ps, more_workers), chosen in sorted(_place_bound(nodes, split).items()):
        rest = split._replace(
            servers=split.servers - len(chosen),
            more_ps=split.more_ps - more_ps,
            more_workers=split.more_workers - more_workers,
        )
        others = _choose(nodes, able, rest)
        if others is not None:
            return chosen + others
    return None


def _place_bound(nodes: NodeGroups, split: _Split) -> dict[tuple[int, int], list[Server]]:
    """Ways in which the servers with bound replicas can take their counts: one for each number of
    servers with one PS more and with one worker more that it uses up."""
    ways: dict[tuple[int, int], list[Server]] = {(0, 0): []}
    if len(nodes.bound) > split.servers:
        return {}
    for row in nodes.bound:
        options = [
            (more_ps, more_workers)
            for more_workers in (0, 1)
            for more_ps in (0, 1)
            if nodes.bound_can_hold(row, split.ps + more_ps, split.workers + more_workers)
        ]
        further: dict[tuple[int, int], list[Server]] = {}
        for used, chosen in ways.items():
            for more_ps, more_workers in options:
                key = used[0] + more_ps, used[1] + more_workers
                if key[0] <= split.more_ps and key[1] <= split.more_workers and key not in further:
                    server = Server(row, split.ps + more_ps, split.workers + more_workers)
                    further[key] = [*chosen, server]
        ways = further
    return ways


def _able(nodes: NodeGroups, split: _Split) -> Mask:
    """Which groups can hold the four pairs of counts, and either of the two with one more, of shape
    (5, groups): none, one more PS, one more worker, one more of both, one more of either."""
    ps, workers, more_ps, more_workers = split[1:]
    able = np.zeros((5, len(nodes.sizes)), dtype=np.bool_)
    able[0] = nodes.can_hold(ps, workers)[0]
    if more_ps:
        able[1] = nodes.can_hold(ps + 1, workers)[0]
    if more_workers:
        able[2] = nodes.can_hold(ps, workers + 1)[0]
    if more_ps and more_workers:
        able[3] = nodes.can_hold(ps + 1, workers + 1)[0]
    able[4] = able[1] | able[2]
    return able


def _choose(nodes: NodeGroups, able: Mask, split: _Split) -> list[Server] | None:
    """Servers for a split: among the fewest first nodes, by free dominant resource, that hold it.

    Nodes with most of it free first leaves the other nodes to jobs that ask for other resources,
    and what is left of these nodes in pieces that are as large as possible.
    """
    if split.servers == 0 or max(split.more_ps, split.more_workers) > split.servers:
        return [] if split == split._replace(servers=0, more_ps=0, more_workers=0) else None
    if _fewest_both((able @ nodes.sizes)[:, None], split)[0] < 0:
        return None
    # First by groups: as many as are enough, those with equally much free together.
    groups = np.flatnonzero(able[0] if split.ps or split.workers else able[4])
    left = nodes.dominant_free(nodes.free[groups])
    order = np.argsort(-left, kind="stable")
    groups, left = groups[order], left[order]
    ends = np.flatnonzero(np.append(left[1:] != left[:-1], True))
    sums = np.cumsum(able[:, groups] * nodes.sizes[groups], axis=1)
    enough = int(np.argmax(_fewest_both(sums[:, ends], split) >= 0))
    groups, left = groups[: ends[enough] + 1], left[: ends[enough] + 1]
    # Then by nodes. No more than k of one group can be servers.
    rows, which = nodes.first_rows(groups, split.servers)
    order = np.lexsort((rows, -left[which]))
    rows, able = rows[order], able[:, groups[which[order]]]
    both = _fewest_both(np.cumsum(able, axis=1), split)
    first = int(np.argmax(both >= 0))
    return _match(rows[: first + 1].tolist(), able[:, : first + 1], split, int(both[first]))


def _fewest_both(nodes: Integers, split: _Split) -> Integers:
    """How many servers must hold one more of both, where so many nodes can hold each of the five;
    -1 where no choice of them holds the split.

    This is Hall's condition for the four demands: ``both`` with one more of both, ``more_ps`` -
    ``both``, ``more_workers`` - ``both`` and the remainder, where a node that can hold more can
    hold less. The fewest doubles load the servers most evenly.
    """
    neither, more_ps, more_workers, double, either = nodes
    extra = split.more_ps + split.more_workers
    fewest = np.maximum(max(extra - split.servers, 0), extra - either)
    most = np.minimum(double, min(split.more_ps, split.more_workers))
    possible = (fewest <= most) & (more_ps >= split.more_ps) & (more_workers >= split.more_workers)
    if split.ps or split.workers:
        possible &= neither >= split.servers
    else:
        # A server with nothing of the gang is none: without it, the spread is over fewer servers.
        possible &= (either >= split.servers) & (extra >= split.servers)
    return np.where(possible, fewest, -1)


def _match(rows: list[int], able: Mask, split: _Split, both: int) -> list[Server]:
    """Give each node its pair of counts; nodes that can take only one pair go first, so that no
    pair is left over."""
    neither, more_ps, more_workers, double = able[:4].tolist()
    free = [True] * len(rows)
    chosen: list[Server] = []
    orders = ((double, None), (more_ps, more_workers), (more_workers, more_ps), (neither, None))
    for (count, ps, workers), (can, rather_not) in zip(split.with_both(both), orders, strict=True):
        picks = [at for at in range(len(rows)) if can[at] and free[at]]
        if rather_not is not None:
            picks.sort(key=rather_not.__getitem__)
        for at in picks[:count]:
            free[at] = False
            chosen.append(Server(rows[at], ps, workers))
    return chosen


# --- fixed roles


def _with_fixed(
    request: Request, servers: Sequence[Server], capacity: Capacity
) -> Assignment | None:
    """Add the fixed roles to a plan, on its servers if they have room; takes nothing in the end."""
    mark, ps, workers = capacity.mark(), 0, 0
    for server in servers:
        more_ps = server.ps - request.ps.bound.get(server.row, 0)
        more_workers = server.workers - request.workers.bound.get(server.row, 0)
        amounts = request.ps.asked(ps, more_ps), request.workers.asked(workers, more_workers)
        capacity.take(server.row, tuple([a + b for a, b in zip(*amounts, strict=True)]))
        ps, workers = ps + more_ps, workers + more_workers
    fixed = _place_fixed(request.fixed, {server.row for server in servers}, capacity)
    capacity.undo_to(mark)
    return None if fixed is None else Assignment(tuple(servers), fixed)


def _place_fixed(
    fixed: Sequence[FixedReplica], preferred: Collection[int], capacity: Capacity
) -> tuple[FixedAssignment, ...] | None:
    """Put each replica where most room is left, on a preferred row if one holds it; takes what they
    ask for, also where one finds no node."""
    found: list[FixedAssignment] = []
    for replica in fixed:
        row = _roomiest_row(replica, preferred, capacity)
        if row is None:
            return None
        capacity.take(row, replica.amount)
        found.append(FixedAssignment(replica.role, replica.replica_index, row))
    return tuple(found)


def _roomiest_row(
    replica: FixedReplica, preferred: Collection[int], capacity: Capacity
) -> int | None:
    able = capacity.able(replica.amount, replica.constraints)
    on_own = [row for row in preferred if able[capacity.class_of(row)]]
    rows = [row for row in on_own if row not in replica.excluded] or [
        row for row, _ in _first_rows_for(replica, able, capacity)
    ]
    column = capacity.dominant(replica.amount)
    return min(
        rows, key=lambda row: (-capacity.free[row][column] if column >= 0 else 0, row), default=None
    )


def _first_rows_for(
    replica: FixedReplica, able: Mask, capacity: Capacity
) -> Iterator[tuple[int, int]]:
    """The first node of each class that may hold the replica, and the class."""
    for number in np.flatnonzero(able).tolist():
        for row in capacity.first_rows(number, 1 + len(replica.excluded)):
            if row not in replica.excluded:
                yield row, number
                break


def _nodes_for_largest(request: Request, capacity: Capacity) -> list[int]:
    """Nodes for the largest fixed replica, roomiest first; of nodes that are alike to the gang only
    one, and not more than a few."""
    if not request.fixed:
        return []
    largest = request.fixed[0]
    masks = [mask for each in request.constraints if (mask := capacity.admits(each)) is not None]
    able = capacity.able(largest.amount, largest.constraints)
    column = capacity.dominant(largest.amount)
    rows = sorted(
        _first_rows_for(largest, able, capacity),
        key=lambda each: (-capacity.free[each[0]][column] if column >= 0 else 0, each[0]),
    )
    alike: dict[tuple[Vector, tuple[bool, ...]], int] = {}
    for row, number in rows:
        alike.setdefault((capacity.free[row], tuple(bool(mask[number]) for mask in masks)), row)
    return list(alike.values())[:_MOST_NODES_FOR_FIXED]


# --- the answer


def _name_nodes(gang: Gang, request: Request, found: Assignment, capacity: Capacity) -> Placement:
    """Name the node of every unbound replica, in order of indices."""
    nodes = {
        ReplicaId(gang.job_uid, each.role, each.replica_index): capacity.nodes[each.row].name
        for each in found.fixed
    }
    for role, replicas in ((Role.PS, request.ps), (Role.WORKER, request.workers)):
        waiting = iter(_waiting(gang, role))
        for server in found.servers:
            goal = server.ps if role is Role.PS else server.workers
            for _ in range(goal - replicas.bound.get(server.row, 0)):
                index = next(waiting).index
                nodes[ReplicaId(gang.job_uid, role, index)] = capacity.nodes[server.row].name
    return Placement(gang.job_uid, MappingProxyType(dict(sorted(nodes.items()))))
