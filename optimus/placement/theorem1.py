"""Job-level placement, all of a job or nothing: Theorem 1 (Optimus, section 4.2 and appendix).

For k = 1, 2, ...: if k servers hold the job with PSs and workers spread evenly, take them. Where
sums do not show that nothing is better (whole replicas leave gaps on equal nodes, too; others have
unequal resources, PSs and workers may not share nodes, bound replicas lie unevenly),
``min_transfer`` looks for less transfer time, then for fewer servers. Fixed roles then go on the
plan's server with most left, else on one more; if that leaves them without a node, they go first
and the rest is placed around them.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from optimus.jobs import Counts, Job, Role
from optimus.placement.capacity import Capacity, Integers, Mask, Vector
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
from optimus.placement.min_transfer import (
    Levels,
    considered_servers,
    might_improve,
    min_transfer_spread,
)
from optimus.placement.request import (
    FixedReplica,
    NodeGroups,
    Replicas,
    Request,
    equal_servers,
    fits,
    waiting_replicas,
)
from optimus.placement.topology import NodePreferences
from optimus.placement.whole_gang import WholeGangRule
from optimus.snapshot import ReplicaId

_MOST_NODES_FOR_FIXED = 8
"""Where a gang fits only around its fixed roles, this many different nodes are tried for the
largest of them."""


@dataclass(frozen=True, slots=True)
class Theorem1:
    """The placement rule of the paper. ``preferences`` hold for ``place`` alone."""

    preferences: NodePreferences | None = None

    def place(self, gang: Gang, capacity: Capacity) -> Placement | DoesNotFit:
        """Choose nodes for the gang's unbound replicas; takes nothing."""
        return WholeGangRule(self._place_without_rules, self.preferences).place(gang, capacity)

    def _place_without_rules(self, gang: Gang, capacity: Capacity) -> Placement | DoesNotFit:
        request = Request.of_gang(gang, capacity) if gang.unbound else None
        found = None if request is None else self._assign(request, capacity)
        if request is None or found is None:
            return does_not_fit(gang) if gang.unbound else Placement(gang.job_uid)
        return _name_nodes(gang, request, found, capacity)

    def place_job(self, job: Job, counts: Counts, capacity: Capacity) -> Assignment | DoesNotFit:
        """Choose nodes for a whole job of which nothing is bound, and take what it requests."""
        request = Request.of_job(job, counts, capacity)
        found = None if request is None else self._assign(request, capacity)
        if found is None:
            return job_does_not_fit(job, counts)
        found.take_from(capacity, job)
        return found

    def _assign(self, request: Request, capacity: Capacity) -> Assignment | None:
        """A node for every replica, if the gang fits. Takes nothing in the end."""
        # 1. While there are empty nodes, most jobs fit on a few of them, and no search is needed.
        servers = _on_equal_nodes(request, capacity)
        # 2. The best plan. Sums refuse most gangs that do not fit, before the slow search.
        if servers is None:
            if not request.might_fit(capacity):
                return None
            servers = self._plan(NodeGroups(request, capacity))
            if servers is None:
                return None
        # 3. The fixed roles join it.
        if not request.fixed:
            return Assignment(tuple(servers))
        return _with_fixed(request, servers, capacity) or self._around_fixed(request, capacity)

    def _plan(self, nodes: NodeGroups) -> list[Server] | None:
        """The best plan for PSs and workers."""
        request = nodes.request
        p, w = request.ps.total, request.workers.total
        if p + w == 0:
            return []
        fewest = request.fewest_servers(nodes.capacity.largest_free())
        fewest, most = max(fewest, len(nodes.bound)), min(p + w, len(nodes.capacity.nodes))
        return self._best(nodes, Levels(p, w), _even_spread(nodes, fewest, most))

    def _best(
        self, nodes: NodeGroups, levels: Levels, even: list[Server] | None
    ) -> list[Server] | None:
        """The plan with the least transfer time, then the fewest servers; of equally good ones an
        even spread."""
        request = nodes.request
        p, w = request.ps.total, request.workers.total
        if even is not None and (len(even) == 1 or p + w <= 2):
            return even  # two replicas have no spread that is not even
        groups = nodes.by_group()
        if even is None and not groups.might_fit():
            return None
        if even is not None and not might_improve(groups, levels, even):
            return even
        table = nodes.table(considered_servers(p, w, even))
        return min_transfer_spread(table, groups, levels, even)

    def _around_fixed(self, request: Request, capacity: Capacity) -> Assignment | None:
        """The best plan around fixed roles that are placed first, where they find no node beside
        the best plan of all: the largest on the roomiest node that leaves room for the others."""
        largest, *others = request.fixed
        for row in _nodes_for_largest(request, capacity):
            mark = capacity.mark()
            capacity.take(row, largest.amount)
            fixed = _place_fixed(others, {row}, capacity)
            taken = {each: capacity.free[each] for each in (row, *(f.row for f in fixed or ()))}
            capacity.undo_to(mark)
            if fixed is None:
                continue
            servers = self._plan(NodeGroups(request, capacity, taken))
            if servers is not None:
                first = FixedAssignment(largest.role, largest.replica_index, row)
                return Assignment(tuple(servers), (first, *fixed))
        return None


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
    ask for, also where one finds no node. A row that one of them was put on is preferred, too."""
    found: list[FixedAssignment] = []
    rows = {*preferred}
    for replica in fixed:
        row = _roomiest_row(replica, rows, capacity)
        if row is None:
            return None
        capacity.take(row, replica.amount)
        rows.add(row)
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
    one, and not more than a few. Where there is none, the gang does not fit."""
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
    return [*alike.values()][:_MOST_NODES_FOR_FIXED]


# --- the answer


def _name_nodes(gang: Gang, request: Request, found: Assignment, capacity: Capacity) -> Placement:
    """Name the node of every unbound replica, in order of indices."""
    nodes = {
        ReplicaId(gang.job_uid, each.role, each.replica_index): capacity.nodes[each.row].name
        for each in found.fixed
    }
    for role, replicas in ((Role.PS, request.ps), (Role.WORKER, request.workers)):
        waiting = iter(waiting_replicas(gang, role))
        for server in found.servers:
            goal = server.ps if role is Role.PS else server.workers
            for _ in range(goal - replicas.bound.get(server.row, 0)):
                index = next(waiting).index
                nodes[ReplicaId(gang.job_uid, role, index)] = capacity.nodes[server.row].name
    return Placement(gang.job_uid, MappingProxyType(dict(sorted(nodes.items()))))


# --- the even spread
#
# Counts per server differ by at most one. On k servers only four pairs of counts occur (so many PSs
# or one more, so many workers or one more), and Hall's condition decides by counting the servers
# that can hold each pair. It is exact for any free resources and constraints, and counting classes
# of nodes is enough; nodes are named only once k is known. Servers with most of the job's dominant
# resource free come first.


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
        """Return whether servers that are all like this hold it. Only the largest pairs of counts
        that must occur are checked: they imply the others."""
        ps, workers, more_ps, more_workers = self[1:]
        if more_ps + more_workers > self.servers:
            return fits(request.on_one(ps + 1, workers + 1), free)
        if more_ps and not fits(request.on_one(ps + 1, workers), free):
            return False
        if more_workers:
            return fits(request.on_one(ps, workers + 1), free)
        return bool(more_ps) or fits(request.on_one(ps, workers), free)

    def with_both(self, both: int) -> tuple[tuple[int, int, int], ...]:
        """How many servers hold how many PSs and workers, where ``both`` hold one more of both."""
        ps, workers, more_ps, more_workers = self[1:]
        return (
            (both, ps + 1, workers + 1),
            (more_ps - both, ps + 1, workers),
            (more_workers - both, ps, workers + 1),
            (self.servers - more_ps - more_workers + both, ps, workers),
        )


def _on_equal_nodes(request: Request, capacity: Capacity) -> list[Server] | None:
    """The best plan on nodes of the roomiest class, where no others come into question.

    That is so if the class has most of every resource, alone has most of the dominant one, so that
    its nodes come first, and admits all replicas. While a cluster fills up it mostly is. The best
    plan on any number of such nodes is the best of all, if there are as many as it needs.
    """
    constraints = (*request.ps.constraints, *request.workers.constraints)
    if request.special or request.dominant < 0 or capacity.admits(*constraints) is not None:
        return None
    roomiest = capacity.roomiest_class()
    if roomiest is None or not capacity.is_unrivalled(request.dominant):
        return None
    number, free = roomiest
    ps, workers = request.ps, request.workers
    gang = (ps.total, ps.amount), (workers.total, workers.amount)
    counts = _best_counts(*gang, free)
    if counts is None or len(counts) > capacity.class_sizes[number]:
        return None
    rows = capacity.first_rows(number, len(counts))
    # A call without the star takes half as long.
    return [Server(row, p, w) for row, (p, w) in zip(rows, counts, strict=True)]


@lru_cache(maxsize=4096)
def _even_counts(
    ps: tuple[int, Vector], workers: tuple[int, Vector], free: Vector
) -> tuple[tuple[int, int], ...] | None:
    """PSs and workers by server, spread evenly over the fewest servers with so much free; many
    gangs ask the same."""
    (p, ps_amount), (w, worker_amount) = ps, workers
    request = Request(Replicas(p, p, ps_amount, ()), Replicas(w, w, worker_amount, ()), (), -1, ())
    for servers in range(request.fewest_servers(free), p + w - (p > 0 < w) + 1):
        split = _Split.of(request, servers)
        if split.fits_on(request, free):
            both = max(0, split.more_ps + split.more_workers - servers)
            counts = [[each[1:]] * each[0] for each in split.with_both(both)]
            return tuple(chain.from_iterable(counts))
    return None


@lru_cache(maxsize=4096)
def _best_counts(
    ps: tuple[int, Vector], workers: tuple[int, Vector], free: Vector
) -> tuple[tuple[int, int], ...] | None:
    """The same for the plan with the least transfer time, then the fewest servers; of equally good
    ones the even spread."""
    p, w = ps[0], workers[0]
    counts = _even_counts(ps, workers, free)
    if counts is None or len(counts) == 1 or p + w <= 2:
        return counts
    even = [Server(at, *each) for at, each in enumerate(counts)]
    groups, levels = equal_servers(ps, workers, free, p + w), Levels(p, w)
    if not might_improve(groups, levels, even):
        return counts
    table = groups.table.take(np.zeros(considered_servers(p, w, even), dtype=np.int64))
    found = min_transfer_spread(table, groups, levels, even)
    return tuple([(each.ps, each.workers) for each in found or even])


def _even_spread(nodes: NodeGroups, fewest: int, most: int) -> list[Server] | None:
    """The even spread over the fewest of these numbers of servers: fewer servers, less transfer."""
    request, largest = nodes.request, nodes.capacity.largest_free()
    for servers in range(fewest, most + 1):
        split = _Split.of(request, servers)
        # Bound replicas need no further capacity: for them the largest node proves nothing.
        if nodes.bound or split.fits_on(request, largest):
            found = _even_on(nodes, split)
            if found is not None:
                return found
    return None


def _even_on(nodes: NodeGroups, split: _Split) -> list[Server] | None:
    """One even spread; ``None`` where no choice of servers allows it."""
    ps, workers, more_ps, more_workers = split[1:]
    pairs = (ps, workers), (ps + 1, workers), (ps, workers + 1), (ps + 1, workers + 1)
    needed = split.servers, more_ps, more_workers, more_ps + more_workers - split.servers
    # Too few nodes for one of the pairs rules out most numbers of servers that are too small.
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
    """Return how many servers must hold one more of both, where so many nodes can hold each of the
    five; -1 where no choice of them holds the split.

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
