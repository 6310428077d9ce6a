"""The even spread of Theorem 1 (Optimus, section 4.2): counts per server differ by at most one.

On k servers only four pairs of counts occur (so many PSs or one more, so many workers or one more),
and Hall's condition decides by counting the servers that can hold each pair. It is exact for any
free resources and constraints, and counting classes of nodes is enough; nodes are named only once k
is known. Servers with most of the job's dominant resource free come first.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from optimus.placement.capacity import Capacity, Integers, Mask, Vector
from optimus.placement.gang import Server
from optimus.placement.request import NodeGroups, Request, fits


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
        must occur are checked: they imply the others."""
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


def even_on_equal_nodes(request: Request, capacity: Capacity) -> list[Server] | None:
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


def even_spreads(nodes: NodeGroups, fewest: int, most: int) -> Iterator[list[Server]]:
    """The even spreads over this many servers, fewest first: fewer servers, less transfer."""
    request, largest = nodes.request, nodes.capacity.largest_free()
    for servers in range(fewest, most + 1):
        split = _Split.of(request, servers)
        # Bound replicas need no further capacity: for them the largest node proves nothing.
        if nodes.bound or split.fits_on(request, largest):
            found = _even_on(nodes, split)
            if found is not None:
                yield found


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
