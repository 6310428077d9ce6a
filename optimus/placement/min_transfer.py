"""The least transfer time, then the fewest servers (Optimus, section 4.2).

Minimises what Theorem 1 minimises, the largest per-server transfer time: the larger of
(S/p)(w - w_k)/B over servers that hold a PS and (S/p)(p - p_k)/B over servers that hold a worker.
The time depends on the plan only through the fewest workers beside any PS and the fewest PSs beside
any worker, so:

1. Bisect the time, below that of the even spread where there is one. Sums over groups of equal
   nodes rule out most times.
2. For each, run over the servers with f[j] = most workers that fit beside j placed PSs, and stop at
   the first servers that hold the gang.
3. At the least time, the same with f[k, j], k servers: the fewest servers.

Exact while no more servers come into question than are considered: 2 (p + w), or, where there is an
even spread, 64 or four times its servers, and while the states are not too many. Of more servers,
those that hold most workers and those that hold most PSs are considered. That a gang does not fit
is often known without a search, by the dual of the sums (``GroupTable.might_fit``).
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from optimus.placement.capacity import Integers, Mask
from optimus.placement.gang import Server

_NEVER: Final = -(10**9)
"""Stands for "these counts are impossible": far below any sum of real counts."""

_CONSIDERED: Final = 32
"""Minimum number of servers of most workers, and of most PSs, considered for a better plan than
the even spread."""

_EXACT_STATES: Final = 50_000
"""States of one step of the search up to which it distinguishes how many workers the servers need
at least; beyond, a plan may be missed that is a little better."""

_MOST_STATES: Final = 1_000_000
"""States of one search for a better plan than one that is known, some 20 ms; beyond, fewer servers
are considered, or the number of servers is not counted."""

_WEIGHTS: Final = 12
"""Number of weights of a PS against a worker that are tried to refuse a gang."""

_ROUNDING: Final = 1e-6
"""Sums of whole numbers times weights differ by less."""

_STEP_STATES: Final = 1000
"""A step without any state takes the time of so many."""


@dataclass(frozen=True, slots=True)
class ReplicasByServer:
    """The replicas of one type: ``count`` in all, of which ``bound`` are on each server already.

    ``asked`` is what one more takes, ``admitted`` whether the server admits one more.
    """

    count: int
    asked: Integers
    bound: Integers
    admitted: Mask


@dataclass(frozen=True, slots=True)
class ServerTable:
    """The servers that a gang may use, in the order in which they are preferred.

    ``rows`` are their nodes, ``free`` has shape (servers, resources).
    """

    rows: Integers
    free: Integers
    ps: ReplicasByServer
    workers: ReplicasByServer

    @property
    def is_bound(self) -> Mask:
        """Return which servers hold bound replicas of the gang: every plan includes them."""
        return (self.ps.bound > 0) | (self.workers.bound > 0)

    def take(self, servers: Integers) -> "ServerTable":
        """These servers alone."""
        ps, workers = (
            ReplicasByServer(each.count, each.asked, each.bound[servers], each.admitted[servers])
            for each in (self.ps, self.workers)
        )
        return ServerTable(self.rows[servers], self.free[servers], ps, workers)

    def workers_beside(self, most_ps: int) -> Integers:
        """Return the most workers by server (at most the gang's) beside 0, 1, ... ``most_ps``
        PSs, of shape (servers, most_ps + 1); ``_NEVER`` where these do not fit."""
        ps = np.arange(most_ps + 1)
        workers = _most_beside(self.workers, self.ps, ps, self.free)
        allowed = (ps >= self.ps.bound[:, np.newaxis]) & (workers >= 0)
        return np.asarray(np.where(allowed, workers, _NEVER))

    def most_workers(self, ps: int) -> Integers:
        """Return the most workers by server beside at least so many PSs; ``_NEVER`` where these do
        not fit."""
        return _most_beside(self.workers, self.ps, np.array([ps]), self.free)[:, 0]

    def most_ps(self, workers: int) -> Integers:
        """Return the most PSs by server beside at least so many workers; ``_NEVER`` where these do
        not fit."""
        return _most_beside(self.ps, self.workers, np.array([workers]), self.free)[:, 0]


def _most_beside(
    these: ReplicasByServer, others: ReplicasByServer, least: Integers, free: Integers
) -> Integers:
    """By server, the most of these beside at least so many others, (servers, places of ``least``);
    ``_NEVER`` where so many others do not fit."""
    more = np.maximum(least - others.bound[:, np.newaxis], 0)
    bound = these.bound[:, np.newaxis]
    most = np.where(these.admitted[:, np.newaxis], these.count - bound, 0)
    possible = (more == 0) | others.admitted[:, np.newaxis]
    for column in np.flatnonzero((others.asked > 0) | (these.asked > 0)).tolist():
        left = free[:, column, np.newaxis] - more * others.asked[column]
        if others.asked[column]:
            possible &= (more == 0) | (left >= 0)
        if these.asked[column]:
            most = np.minimum(most, np.maximum(left // these.asked[column], 0))
    return np.asarray(np.where(possible, bound + most, _NEVER))


class Level(NamedTuple):
    """What a transfer time demands: the fewest workers beside any PS, and PSs beside any worker."""

    workers: int
    ps: int


class Levels(NamedTuple):
    """The transfer times of a gang, least first, in units of S/(p B); the last demands nothing."""

    ps: int
    workers: int

    @property
    def last(self) -> int:
        """The number of the last; a gang of one type sends nothing between its servers."""
        return max(self) if self.ps and self.workers else 0

    def demand(self, number: int) -> Level:
        """Return what the transfer time of this number demands."""
        if self.last == 0:
            return Level(0, 0)
        return Level(max(self.workers - number, 0), max(self.ps - number, 0))

    def of(self, servers: list[Server]) -> int:
        """The number of a plan's transfer time."""
        if self.last == 0:
            return 0
        workers = min((each.workers for each in servers if each.ps), default=self.workers)
        ps = min((each.ps for each in servers if each.workers), default=self.ps)
        return max(self.workers - workers, self.ps - ps)


@dataclass(frozen=True, slots=True)
class GroupTable:
    """The servers in groups of equal ones: one of each group in ``table``, and how many there are.

    What the sums over groups rule out is impossible; what they do not may be impossible all the
    same.
    """

    table: ServerTable
    sizes: Integers

    def fewest_servers(self) -> int:
        """No fewer servers than this have enough of every resource."""
        table, bound = self.table, self.table.is_bound
        free, must = table.free[~bound], int(bound.sum())
        fewest = max(must, 1)
        for column, wanted in enumerate(self._waiting().tolist()):
            left = wanted - int(np.maximum(table.free[bound, column], 0).sum())
            if wanted > 0 < left:
                fewest = max(fewest, must + _fewest(free[:, column], self.sizes[~bound], left))
        return fewest

    def _waiting(self) -> Integers:
        ps, workers = self.table.ps, self.table.workers
        return np.asarray(
            (ps.count - int(ps.bound.sum())) * ps.asked
            + (workers.count - int(workers.bound.sum())) * workers.asked
        )

    def is_conceivable(self, level: Level, servers: int | None = None) -> bool:
        """Return whether sums allow a plan that meets the level, on so many servers at most."""
        p, w = self.table.ps.count, self.table.workers.count
        most_ps, most_workers = self.table.most_ps(level.workers), self.table.most_workers(level.ps)
        among = p + w if servers is None else servers
        if servers is not None and _largest(self._most_replicas(), self.sizes, among) < p + w:
            return False
        with_ps = min(among, w // level.workers if level.workers else p)
        with_workers = min(among, p // level.ps if level.ps else w)
        if level.workers and level.ps:
            # Every server holds both.
            with_ps = with_workers = min(with_ps, with_workers)
            able = (most_ps >= level.ps) & (most_workers >= level.workers) | self.table.is_bound
            most_ps, most_workers = most_ps[able], most_workers[able]
            return (
                _largest(most_ps, self.sizes[able], with_ps) >= p
                and _largest(most_workers, self.sizes[able], with_workers) >= w
                and self._has_room(able, with_ps)
            )
        return (
            _largest(most_ps, self.sizes, with_ps) >= p
            and _largest(most_workers, self.sizes, with_workers) >= w
        )

    def _most_replicas(self) -> Integers:
        """By server, no fewer replicas than it can hold, were all as small as the smaller type."""
        ps, workers = self.table.ps, self.table.workers
        most = np.full(len(self.sizes), ps.count + workers.count, dtype=np.int64)
        bound = ps.bound + workers.bound
        smaller = np.minimum(ps.asked, workers.asked) if ps.count and workers.count else None
        smaller = (ps.asked if ps.count else workers.asked) if smaller is None else smaller
        for column in np.flatnonzero(smaller > 0).tolist():
            fitting = np.maximum(self.table.free[:, column] // smaller[column], 0)
            most = np.minimum(most, bound + fitting)
        return most

    def might_fit(self) -> bool:
        """Return whether sums allow the gang at all.

        If it fits, then for every weight v >= 0 of a PS the sum over servers of the largest
        v x + (most workers beside x PSs) is at least v p + w. The weight that refuses, if one
        does, is where the left side's slope, the PSs that such servers hold, passes p.
        """
        p, w = self.table.ps.count, self.table.workers.count
        beside = self.table.workers_beside(int(self.table.most_ps(0).max(initial=0)))
        low, high = 0.0, float(w + 1)
        for weight in (0.0, 1.0, high):
            if self._excess(beside, weight)[0] < 0:
                return False
        for _ in range(_WEIGHTS):
            weight = (low + high) / 2
            excess, ps = self._excess(beside, weight)
            if excess < 0:
                return False
            if ps == p:
                break
            low, high = (weight, high) if ps < p else (low, weight)
        return True

    def _excess(self, beside: Integers, weight: float) -> tuple[float, int]:
        """Return how much more the servers hold than the gang needs, by this weight; and the PSs of
        servers that are best by it."""
        values = beside + weight * np.arange(beside.shape[1])
        most = float((values.max(axis=1) * self.sizes).sum())
        wanted = weight * self.table.ps.count + self.table.workers.count
        return most - wanted + _ROUNDING, int((values.argmax(axis=1) * self.sizes).sum())

    def _has_room(self, able: Mask, servers: int) -> bool:
        free, sizes = np.maximum(self.table.free[able], 0), self.sizes[able]
        return all(
            wanted <= 0 or _largest(free[:, column], sizes, servers) >= wanted
            for column, wanted in enumerate(self._waiting().tolist())
        )


def _top(values: Integers, sizes: Integers, servers: int) -> tuple[Integers, Integers]:
    """The largest values, descending, and how many servers have each."""
    if len(values) > 2 * servers:
        top = np.argpartition(values, len(values) - servers)[len(values) - servers :]
        values, sizes = values[top], sizes[top]
    order = np.argsort(-values)
    return values[order], sizes[order]


def _largest(values: Integers, sizes: Integers, servers: int) -> int:
    """The sum of the largest values, none below 0, over so many servers."""
    if servers <= 0 or len(values) == 0:
        return 0
    values, sizes = _top(values, sizes, servers)
    before = np.cumsum(sizes) - sizes
    return int((np.maximum(values, 0) * np.clip(servers - before, 0, sizes)).sum())


def _fewest(values: Integers, sizes: Integers, wanted: int) -> int:
    """The fewest servers whose largest values reach this sum; one more than all where none do."""
    order = np.argsort(-values)
    values, sizes = np.maximum(values[order], 0), sizes[order]
    sums = np.cumsum(values * sizes)
    at = int(np.searchsorted(sums, wanted))
    if at == len(sums):
        return int(sizes.sum()) + 1
    missing = wanted - int(sums[at] - values[at] * sizes[at])
    return int(sizes[:at].sum()) - (-missing // int(values[at]))


def might_improve(groups: GroupTable, levels: Levels, known: list[Server]) -> bool:
    """Whether sums allow a plan with less transfer time, or with fewer servers at this time."""
    number = levels.of(known)
    if number and groups.is_conceivable(levels.demand(number - 1)):
        return True
    return len(known) > groups.fewest_servers() and groups.is_conceivable(
        levels.demand(number), len(known) - 1
    )


def considered_servers(ps: int, workers: int, known: list[Server] | None) -> int:
    """Return of how many servers of most workers, and of most PSs, the best plan is sought."""
    most = ps + workers
    return most if known is None else min(most, max(_CONSIDERED, 2 * len(known)))


def min_transfer_spread(
    table: ServerTable, groups: GroupTable, levels: Levels, known: list[Server] | None = None
) -> list[Server] | None:
    """The plan with the least transfer time, of these the fewest servers.

    ``known`` where none is better than this; ``None`` where the gang does not fit at all.
    """
    most = considered_servers(table.ps.count, table.workers.count, known)
    search = _LevelSearch(table, most, bounded=known is not None)
    best, high = known, levels.last
    if known is None:
        # The last level demands nothing. If even that fails, the gang does not fit.
        best = (
            search.plan(levels.demand(high)) if groups.is_conceivable(levels.demand(high)) else None
        )
        if best is None:
            return None
    else:
        high = levels.of(known)
    low = 0
    while low < high:
        middle = (low + high) // 2
        level = levels.demand(middle)
        found = search.plan(level) if groups.is_conceivable(level) else None
        if found is None:
            low = middle + 1
        else:
            best, high = found, min(middle, levels.of(found))
    return best if best is None else _on_fewer(search, groups, levels.demand(high), best)


def _on_fewer(
    search: "_LevelSearch", groups: GroupTable, level: Level, best: list[Server]
) -> list[Server]:
    """The plan on the fewest servers that meets the level."""
    fewest = groups.fewest_servers()
    if len(best) <= fewest or not groups.is_conceivable(level, len(best) - 1):
        return best
    return search.plan(level, len(best) - 1, fewest) or best


class _ServerOptions(NamedTuple):
    """What one server can hold at a level: the most workers without a PS and beside 1, 2, ... PSs;
    and how many workers it holds at least in both cases."""

    may_be_unused: bool
    alone: int
    beside: Integers
    least_alone: int
    least_beside: int


class _Step(NamedTuple):
    """One server: for each state the number of its PSs, -1 where it is unused."""

    at: int
    options: _ServerOptions
    choice: Integers


class _LevelSearch:
    """The servers that are considered, those with bound replicas first."""

    def __init__(self, table: ServerTable, most: int, *, bounded: bool) -> None:
        bound, others = np.flatnonzero(table.is_bound), np.flatnonzero(~table.is_bound)
        if len(others) > 2 * most:
            picked = [
                others[np.argsort(-each[others], kind="stable")][:most]
                for each in (table.most_workers(0), table.most_ps(0))
            ]
            others = others[np.isin(others, np.union1d(*picked))]
        table = table.take(np.concatenate([bound, others]))
        self._ps, self._workers = table.ps.count, table.workers.count
        self._rows: list[int] = table.rows.tolist()
        self._bound_workers: list[int] = table.workers.bound.tolist()
        self._must = len(bound)
        self._beside = table.workers_beside(self._ps)
        used = np.flatnonzero((self._beside > _NEVER).any(axis=0))
        self._most_ps = int(used.max(initial=0))
        """On one server."""
        if bounded:
            states = (self._ps + 1) * (self._most_ps + 1) + _STEP_STATES
            del self._rows[max(self._must, _MOST_STATES // states) :]

    def plan(
        self, level: Level, most_servers: int | None = None, fewest: int = 0
    ) -> list[Server] | None:
        """A plan that meets the level; with ``most_servers``, on the fewest servers."""
        p, w = self._ps, self._workers
        counted = most_servers is not None
        unit = self._unit(level, most_servers)
        shape = (w // unit if unit else 0) + 1, (most_servers or 0) + 1, p + 1
        states = shape[0] * shape[1] * shape[2] * (self._most_ps + 1)
        if counted and states * len(self._rows) > _MOST_STATES:
            return None
        most = np.full(shape, _NEVER, dtype=np.int64)
        most[0, 0, 0] = 0
        steps: list[_Step] = []
        best: tuple[int, int, int] | None = None
        for at in range(len(self._rows)):
            step, most = self._advance(most, at, level, unit, counted=counted)
            steps.append(step)
            if at + 1 < self._must:
                continue
            whole: Integers = most[:, :, p].T
            reached = np.argwhere(whole >= w)
            if len(reached) and (best is None or reached[0][0] < best[0]):
                servers, needed = reached[0].tolist()
                best = servers, needed, at
                surplus = int(most[needed, servers, p]) - w
                found = self._trace(steps, (needed, servers), unit, counted=counted), surplus
                if not counted or servers <= fewest:
                    break
        return None if best is None else self._trim(*found, level)

    def _unit(self, level: Level, most_servers: int | None) -> int:
        """The step, in workers, in which the servers' needed minimum is distinguished; 0 where
        they never need too many, or where that would take too long."""
        p, w = self._ps, self._workers
        with_ps = min(
            p // max(level.ps, 1), p if most_servers is None else most_servers, len(self._rows)
        )
        has_bound = any(self._bound_workers)
        if level.workers == 0 or (not has_bound and with_ps * level.workers <= w):
            return 0
        unit = 1 if has_bound else level.workers
        states = (w // unit + 1) * ((most_servers or 0) + 1) * (p + 1) * (self._most_ps + 1)
        return unit if states <= _EXACT_STATES else 0

    def _options(self, at: int, level: Level) -> _ServerOptions:
        beside, bound = self._beside[at], self._bound_workers[at]
        alone = int(beside[0]) if level.ps == 0 else _NEVER
        with_ps = beside[1 : self._most_ps + 1].copy()
        # Too few PSs for a worker beside them: without workers they may be.
        few = with_ps[: max(level.ps - 1, 0)]
        may_be_alone = level.workers == 0 and bound == 0
        few[:] = np.where(may_be_alone & (few > _NEVER), 0, _NEVER)
        with_ps[with_ps < level.workers] = _NEVER
        possible = np.flatnonzero(with_ps > _NEVER)
        with_ps = with_ps[: 1 + int(possible.max(initial=-1))]
        least = max(level.workers, bound)
        return _ServerOptions(at >= self._must, alone, with_ps, bound, least)

    def _advance(
        self, most: Integers, at: int, level: Level, unit: int, *, counted: bool
    ) -> tuple[_Step, Integers]:
        """The states after one more server."""
        options = self._options(at, level)
        after = most.copy() if options.may_be_unused else np.full_like(most, _NEVER)
        choice = np.full(most.shape, -1, dtype=np.int64)
        if options.alone > 0 or (options.alone == 0 and not options.may_be_unused):
            source, target = _shifted(most.shape, options.least_alone, unit, counted=counted)
            sums = most[source] + options.alone
            better = sums > after[target]
            after[target] = np.where(better, sums, after[target])
            choice[target] = np.where(better, 0, choice[target])
        if len(options.beside):
            source, target = _shifted(most.shape, options.least_beside, unit, counted=counted)
            sums, picked = _with_ps(most[source], options.beside)
            better = sums > after[target]
            after[target] = np.where(better, sums, after[target])
            choice[target] = np.where(better, picked, choice[target])
        after[after < 0] = _NEVER
        return _Step(at, options, choice), after

    def _trace(
        self, steps: list[_Step], state: tuple[int, int], unit: int, *, counted: bool
    ) -> list[Server]:
        """The counts of each server, by its position, that led to a state with all PSs."""
        servers: list[Server] = []
        (needed, used), left = state, self._ps
        for at, options, choice in reversed(steps):
            ps = int(choice[needed, used, left])
            if ps >= 0:
                workers = int(options.beside[ps - 1]) if ps else options.alone
                servers.append(Server(at, ps, workers))
                least = options.least_beside if ps else options.least_alone
                needed -= least // unit if unit else 0
                used -= counted
                left -= ps
        return servers[::-1]

    def _trim(self, servers: list[Server], surplus: int, level: Level) -> list[Server] | None:
        """Remove workers that are too many: whole servers first, then from where most are."""
        kept: list[Server] = []
        for server in sorted(servers, key=lambda server: server.workers):
            idle = server.ps == 0 and server.row >= self._must
            if idle and server.workers <= surplus:
                surplus -= server.workers
            else:
                kept.append(server)
        for _ in range(surplus):
            spare = [
                at
                for at, (row, ps, workers) in enumerate(kept)
                if workers > max(self._bound_workers[row], level.workers if ps else 0)
            ]
            if not spare:
                return None
            most = max(spare, key=lambda at: (kept[at].workers, -at))
            kept[most] = kept[most]._replace(workers=kept[most].workers - 1)
        return [server._replace(row=self._rows[server.row]) for server in kept]


_Slices = tuple[slice, slice, slice]


def _shifted(
    shape: tuple[int, ...], least: int, unit: int, *, counted: bool
) -> tuple[_Slices, _Slices]:
    """States before a server is used that needs so many workers, and after it."""
    needed, used = (least // unit if unit else 0), int(counted)
    source = slice(0, max(shape[0] - needed, 0)), slice(0, shape[1] - used), slice(None)
    return source, (slice(needed, None), slice(used, None), slice(None))


def _with_ps(most: Integers, beside: Integers) -> tuple[Integers, Integers]:
    """Most workers where the server holds one or more of the placed PSs, and how many of them."""
    placed, count = most.shape[-1], len(beside)
    padded = np.full((*most.shape[:-1], placed + count), _NEVER, dtype=np.int64)
    padded[..., count:] = most
    before = np.arange(placed)[:, None] + count - 1 - np.arange(count)[None, :]
    sums = padded[..., before] + beside
    picked = sums.argmax(axis=-1)
    return np.asarray(sums.max(axis=-1)), picked + 1
