"""The even spread of Theorem 1 on a whole stock of nodes: the answers of module ``even``, by kinds
instead of nodes.

For k = 1, 2, ...: on k servers only four pairs of counts occur (so many PSs or one more, so many
workers or one more), and Hall's condition decides by counting the servers that can hold each.
Counting kinds is enough for that; nodes are named only once k is known: the fewest first ones, by
free dominant resource, among which a matching exists."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimus.jobs import Counts, Job, NodeConstraints
from optimus.placement.assignment import Server
from optimus.placement.capacity import Capacity
from optimus.placement.free_matrix import Rows
from optimus.placement.node_classes import Vector


class Tasks(NamedTuple):
    """The PSs and workers of one job, none of them bound; amounts are vectors of a stock."""

    counts: Counts
    ps: Vector
    worker: Vector
    ps_on: NodeConstraints
    worker_on: NodeConstraints
    dominant: int
    """The column of the job's dominant resource."""

    @classmethod
    def of(cls, job: Job, counts: Counts, stock: Capacity) -> "Tasks | None":
        """``None`` where a task asks for a resource that no node has."""
        ps, worker = stock.vector(job.ps.resources), stock.vector(job.worker.resources)
        if (ps is None and counts.ps) or (worker is None and counts.workers):
            return None
        nothing = (0,) * len(stock.resources)
        ps, worker = ps or nothing, worker or nothing
        demand = [counts.ps * a + counts.workers * b for a, b in zip(ps, worker, strict=True)]
        return cls(
            counts, ps, worker, job.ps.constraints, job.worker.constraints, stock.dominant(demand)
        )

    def might_fit(self, stock: Capacity) -> bool:
        """Whether there are places enough for the PSs, and for the workers, and room for all; tells
        most refusals."""
        return (
            _places(stock, self.ps, self.counts.ps)
            and _places(stock, self.worker, self.counts.workers)
            and _is_enough(stock, self.on_one(*self.counts))
        )

    def fewest(self, most: Sequence[int]) -> int:
        """No fewer servers than this, where no node has more than ``most``."""
        demand = self.on_one(*self.counts)
        return max(
            [
                1,
                *(
                    -(-asked // left)
                    for asked, left in zip(demand, most, strict=True)
                    if 0 < left < asked
                ),
            ]
        )

    def would_do(self, deal: "_Deal", free: Sequence[int]) -> bool:
        """Whether servers that are all like this hold the deal: the largest pairs that are needed
        imply the others."""
        servers, ps, workers, more_ps, more_workers = deal
        if more_ps + more_workers > servers:
            return self._holds(free, ps + 1, workers + 1)
        if more_ps and not self._holds(free, ps + 1, workers):
            return False
        if more_workers:
            return self._holds(free, ps, workers + 1)
        return bool(more_ps) or self._holds(free, ps, workers)

    def _holds(self, free: Sequence[int], ps: int, workers: int) -> bool:
        for left, a, b in zip(free, self.ps, self.worker, strict=True):
            asked = ps * a + workers * b
            if asked > left and asked:
                return False
        return True

    def on_one(self, ps: int, workers: int) -> Vector:
        """What so many of them ask for on one server."""
        return tuple([ps * a + workers * b for a, b in zip(self.ps, self.worker, strict=True)])


def _places(stock: Capacity, task: Vector, wanted: int) -> bool:
    """Whether the nodes hold so many of one task."""
    asked = [(column, amount) for column, amount in enumerate(task) if amount > 0]
    if wanted == 0 or not asked:
        return True
    used = len(stock.rows)
    each = np.min([stock.kinds[:used, column] // amount for column, amount in asked], axis=0)
    return int((np.clip(each, 0, wanted) * stock.counts[:used]).sum()) >= wanted


def _is_enough(stock: Capacity, demand: Vector) -> bool:
    used = len(stock.rows)
    sums = np.maximum(stock.kinds[:used], 0).T @ stock.counts[:used]
    return all(
        amount <= left or amount == 0 for amount, left in zip(demand, sums.tolist(), strict=True)
    )


class _Deal(NamedTuple):
    """On every server so many PSs and workers; ``more_ps`` servers hold one PS more, likewise
    workers."""

    servers: int
    ps: int
    workers: int
    more_ps: int
    more_workers: int

    @property
    def extra(self) -> int:
        return self.more_ps + self.more_workers

    def pairs(self) -> tuple[tuple[int, int] | None, ...]:
        """The four pairs of counts: less-less, more-less, less-more, more-more; ``None`` where it
        does not occur."""
        more_ps, more_workers = self.more_ps > 0, self.more_workers > 0
        return (
            (self.ps, self.workers),
            (self.ps + 1, self.workers) if more_ps else None,
            (self.ps, self.workers + 1) if more_workers else None,
            (self.ps + 1, self.workers + 1) if more_ps and more_workers else None,
        )


def deal_evenly(tasks: Tasks, stock: Capacity) -> list[Server] | None:
    """The even spread over the fewest servers; ``None`` where none puts a PS beside a worker. Takes
    no room."""
    p, w = tasks.counts
    together = p + w - 1 if p and w else p + w
    stock.tell_apart(tasks.ps_on, tasks.worker_on)
    top = stock.top()
    most = top[1] if top is not None else stock.most()
    roomiest = top[0] if top is not None and _is_first(tasks, stock) else None
    question: _Question | None = None
    for servers in range(tasks.fewest(most), min(together, len(stock.nodes)) + 1):
        deal = _Deal(servers, p // servers, w // servers, p % servers, w % servers)
        if not tasks.would_do(deal, most):
            continue
        if roomiest is not None and stock.counts[roomiest] >= servers:
            return _on_alike(deal, stock.first_rows(roomiest, servers))
        question = question or _Question(tasks, stock)
        if question.is_possible(deal):
            return _match(deal, question.first_enough(deal))
    return None


def _is_first(tasks: Tasks, stock: Capacity) -> bool:
    """Whether the nodes of the top kind come first by the dominant resource, and admit all."""
    if tasks.dominant < 0 or not stock.is_alone_at_the_top(tasks.dominant):
        return False
    return stock.admits(tasks.ps_on) is None and stock.admits(tasks.worker_on) is None


class _Question:
    """One job on one stock; what was found out for one number of servers is kept for the next."""

    def __init__(self, tasks: Tasks, stock: Capacity) -> None:
        self._tasks, self._stock = tasks, stock
        used = len(stock.rows)
        self._kinds, self._counts = stock.kinds[:used], stock.counts[:used]
        self._ps_admitted = stock.admits(tasks.ps_on)
        self._workers_admitted = stock.admits(tasks.worker_on)
        self._able: dict[tuple[int, int], tuple[Rows, int]] = {}
        self._either: dict[tuple[tuple[int, int], tuple[int, int]], int] = {}

    def able(self, pair: tuple[int, int]) -> tuple[Rows, int]:
        """Which kinds can hold the pair, and how many nodes that are."""
        known = self._able.get(pair)
        if known is None:
            able = self._stock.holds(self._tasks.on_one(*pair))
            if pair[0] and self._ps_admitted is not None:
                able &= self._ps_admitted
            if pair[1] and self._workers_admitted is not None:
                able &= self._workers_admitted
            known = self._able[pair] = able, int(self._counts[able].sum())
        return known

    def _number(self, pair: tuple[int, int] | None) -> int:
        return 0 if pair is None else self.able(pair)[1]

    def is_possible(self, deal: _Deal) -> bool:
        """Hall's condition over all nodes."""
        less_less, more_less, less_more, more_more = deal.pairs()
        if self._number(less_less) < deal.servers:
            return False
        if self._number(more_less) < deal.more_ps or self._number(less_more) < deal.more_workers:
            return False
        both = max(
            0, deal.extra - deal.servers, deal.extra - self._number_of_either(more_less, less_more)
        )
        return both <= min(self._number(more_more), deal.more_ps, deal.more_workers)

    def _number_of_either(
        self, more_less: tuple[int, int] | None, less_more: tuple[int, int] | None
    ) -> int:
        if more_less is None or less_more is None:
            return self._number(more_less or less_more)
        known = self._either.get((more_less, less_more))
        if known is None:
            known = int(self._counts[self.able(more_less)[0] | self.able(less_more)[0]].sum())
            self._either[more_less, less_more] = known
        return known

    def first_enough(self, deal: _Deal) -> "_Prefix":
        """The fewest first nodes, by free dominant resource, among which a matching exists."""
        pairs = deal.pairs()
        none = np.zeros(len(self._counts), dtype=np.bool_)
        flags = [none if pair is None else self.able(pair)[0] for pair in pairs]
        # A server that holds nothing of the job is never needed where k is the least possible.
        slots = np.flatnonzero(flags[0] if deal.ps or deal.workers else flags[1] | flags[2])
        if self._tasks.dominant >= 0:
            left = self._kinds[slots, self._tasks.dominant]
        else:
            left = np.zeros(len(slots), dtype=np.int64)
        order = np.argsort(-left, kind="stable")
        slots, left = slots[order], left[order]
        ends = np.flatnonzero(np.append(left[1:] != left[:-1], True))
        sums = _Sums(
            *(
                np.cumsum(self._counts[slots] * flag[slots])[ends]
                for flag in (*flags, flags[1] | flags[2])
            )
        )
        last = int(np.argmax(sums.doubles(deal) >= 0))
        return self._named(deal, slots[: ends[last] + 1], left[: ends[last] + 1], flags)

    def _named(
        self, deal: _Deal, slots: NDArray[np.int64], left: NDArray[np.int64], flags: list[Rows]
    ) -> "_Prefix":
        """The nodes of these kinds in order, up to the first with which they are enough."""
        # Of nodes that are alike no more than k can be servers.
        rows, which = self._stock.first_rows_of(slots.tolist(), deal.servers)
        order = np.lexsort((rows, -left[which]))
        rows, which = rows[order], which[order]
        columns = [flag[slots][which] for flag in flags]
        sums = _Sums(*(np.cumsum(each) for each in (*columns, columns[1] | columns[2])))
        doubles = sums.doubles(deal)
        first = int(np.argmax(doubles >= 0))
        return _Prefix(
            rows[: first + 1].tolist(),
            [each[: first + 1].tolist() for each in columns],
            int(doubles[first]),
        )


class _Sums(NamedTuple):
    """Running numbers of servers that can hold each pair, and of those that can hold one more of
    either."""

    less_less: NDArray[np.int64]
    more_less: NDArray[np.int64]
    less_more: NDArray[np.int64]
    more_more: NDArray[np.int64]
    either: NDArray[np.int64]

    def doubles(self, deal: _Deal) -> NDArray[np.int64]:
        """By length, how many servers take one more of both; -1 where there are not enough (see
        ``even``)."""
        fewest = np.maximum(max(deal.extra - deal.servers, 0), deal.extra - self.either)
        most = np.minimum(self.more_more, min(deal.more_ps, deal.more_workers))
        possible = (
            (fewest <= most)
            & (self.more_less >= deal.more_ps)
            & (self.less_more >= deal.more_workers)
        )
        if deal.ps or deal.workers:
            possible &= self.less_less >= deal.servers
        return np.where(possible, fewest, -1)


class _Prefix(NamedTuple):
    """Rows in order, which pairs each can hold, and how many of them take one more of both."""

    rows: list[int]
    able: list[list[bool]]
    both: int


def _on_alike(deal: _Deal, rows: list[int]) -> list[Server]:
    """The deal on servers that are alike, those with more first."""
    both = max(0, deal.extra - deal.servers)
    groups = (
        (both, (deal.ps + 1, deal.workers + 1)),
        (deal.more_ps - both, (deal.ps + 1, deal.workers)),
        (deal.more_workers - both, (deal.ps, deal.workers + 1)),
        (deal.servers - deal.extra + both, (deal.ps, deal.workers)),
    )
    counts = [pair for number, pair in groups for _ in range(number)]
    return [Server(row, *pair) for row, pair in zip(rows, counts, strict=True)]


def _match(deal: _Deal, prefix: _Prefix) -> list[Server]:
    """Deal the four pairs; servers that can take one kind only go first, so that none is left
    over."""
    less_less, more_less, less_more, more_more = prefix.able
    free = [True] * len(prefix.rows)
    chosen: list[Server] = []

    def take(
        able: list[bool], rather_not: list[bool] | None, count: int, counts: tuple[int, int]
    ) -> None:
        picks = [at for at, can in enumerate(able) if can and free[at]]
        if rather_not is not None:
            picks.sort(key=lambda at: rather_not[at])
        for at in picks[:count]:
            free[at] = False
            chosen.append(Server(prefix.rows[at], *counts))

    both = prefix.both
    take(more_more, None, both, (deal.ps + 1, deal.workers + 1))
    take(more_less, less_more, deal.more_ps - both, (deal.ps + 1, deal.workers))
    take(less_more, more_less, deal.more_workers - both, (deal.ps, deal.workers + 1))
    take(less_less, None, deal.servers - deal.extra + both, (deal.ps, deal.workers))
    return chosen
