"""The least transfer time where no even spread exists (Optimus, section 4.2).

Minimises what Theorem 1 minimises, the largest per-server transfer time: the larger of
(S/p)(w - w_k)/B over servers that hold a PS and (S/p)(p - p_k)/b over servers that hold a worker.
The time depends on the plan only through the fewest workers beside any PS and the fewest PSs beside
any worker, so: bisect the time; for each, run over the servers with f[j] = most workers that fit
beside j placed PSs, and stop at the first prefix of servers that holds the gang. Exact up to
2 (p + w) servers; beyond, only the p + w servers that hold most PSs and the p + w that hold most
workers are considered.
"""

from dataclasses import dataclass

import numpy as np

from optimus.placement.capacity import Integers, Mask
from optimus.placement.gang import Server

_NEVER = -(10**9)
"""Stands for "these counts are impossible": far below any sum of real counts."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """What a transfer takes: S bytes of parameters, B and b bytes a second at a PS and at a
    worker."""

    parameter_bytes: float = 1.0
    ps_bandwidth: float = 1.0
    worker_bandwidth: float = 1.0

    def seconds(self, ps: int, missing_workers: int, missing_ps: int) -> float:
        """Per-step transfer time of a server that lacks this many of the job's workers and PSs."""
        share = self.parameter_bytes / max(ps, 1)
        return share * max(missing_workers / self.ps_bandwidth, missing_ps / self.worker_bandwidth)


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
        """Which servers hold bound replicas of the gang: every plan includes them."""
        return (self.ps.bound > 0) | (self.workers.bound > 0)

    def workers_beside(self) -> Integers:
        """By server, the most workers (at most the gang's) beside exactly j PSs, of shape (servers,
        p + 1)."""
        return np.stack([self._workers_beside(ps) for ps in range(self.ps.count + 1)], axis=1)

    def _workers_beside(self, ps: int) -> Integers:
        more = ps - self.ps.bound
        left = self.free - np.outer(np.maximum(more, 0), self.ps.asked)
        holds = self.ps.admitted & (left[:, self.ps.asked > 0] >= 0).all(axis=1)
        most = np.where(self.workers.admitted, self.workers.count - self.workers.bound, 0)
        for column in np.flatnonzero(self.workers.asked):
            fitting = np.maximum(left[:, column] // self.workers.asked[column], 0)
            most = np.minimum(most, fitting)
        possible = (more == 0) | ((more > 0) & holds)
        return np.asarray(np.where(possible, self.workers.bound + most, _NEVER))


@dataclass(frozen=True, slots=True)
class _Least:
    """The fewest workers beside any PS and the fewest PSs beside any worker that a plan may
    have."""

    workers: int
    ps: int


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The servers that are considered, those with bound replicas first."""

    ps: int
    workers: int
    rows: list[int]
    bound_workers: list[int]
    must: int
    """So many first ones hold bound replicas."""
    beside: Integers
    """Most workers by server and PSs on it."""


def min_transfer_spread(table: ServerTable, transfer: Transfer) -> list[Server] | None:
    """Place the gang with the least transfer time; ``None`` where it does not fit at all."""
    among = _candidates(table)
    levels = [least for least in _levels(among, transfer) if _is_conceivable(among, least)]
    # The last level demands nothing. If even that fails the gang does not fit; else the least time
    # is found by bisection, since what fits at one time fits at every longer one.
    best = _fill(among, levels[-1])
    low, high = 0, len(levels) - 1
    while best is not None and low < high:
        middle = (low + high) // 2
        found = _fill(among, levels[middle])
        if found is None:
            low = middle + 1
        else:
            best, high = found, middle
    return best


def _candidates(table: ServerTable) -> _Candidates:
    beside = table.workers_beside()
    bound, others = np.flatnonzero(table.is_bound), np.flatnonzero(~table.is_bound)
    most = table.ps.count + table.workers.count
    if len(others) > 2 * most:
        by_workers = others[np.argsort(-beside[others, 0], kind="stable")][:most]
        most_ps = ((beside > _NEVER) * np.arange(table.ps.count + 1)).max(axis=1)
        by_ps = others[np.argsort(-most_ps[others], kind="stable")][:most]
        others = others[np.isin(others, np.union1d(by_workers, by_ps))]
    order = np.concatenate([bound, others])
    return _Candidates(
        table.ps.count,
        table.workers.count,
        table.rows[order].tolist(),
        table.workers.bound[order].tolist(),
        len(bound),
        beside[order],
    )


def _is_conceivable(among: _Candidates, least: _Least) -> bool:
    """Whether any server at all can hold what this demands of a server; rules out most demands at
    once."""
    if least.workers and among.ps:
        return bool((among.beside[:, max(least.ps, 1) :] >= least.workers).any())
    return least.ps == 0 or among.workers == 0 or bool((among.beside[:, least.ps :] >= 1).any())


def _levels(among: _Candidates, transfer: Transfer) -> list[_Least]:
    """The distinct transfer times, least first, each as what it demands; the last demands
    nothing."""
    p, w = among.ps, among.workers
    times = {transfer.seconds(p, missing, 0) for missing in range(w + 1)}
    times |= {transfer.seconds(p, 0, missing) for missing in range(p + 1)}
    return [
        _Least(
            next((least for least in range(w) if transfer.seconds(p, w - least, 0) <= time), w),
            next((least for least in range(p) if transfer.seconds(p, 0, p - least) <= time), p),
        )
        for time in sorted(times)
    ]


def _fill(among: _Candidates, least: _Least) -> list[Server] | None:
    """Run over the servers until they hold the gang; ``None`` where they never do."""
    p, w = among.ps, among.workers
    most = np.full(p + 1, _NEVER, dtype=np.int64)
    most[0] = 0
    steps: list[tuple[int, Integers, Integers]] = []
    for at in range(len(among.rows)):
        holds = _holds(among, at, least)
        holds = holds[: 1 + int(np.flatnonzero(holds > _NEVER).max(initial=0))]
        sums = _sums(most, holds)
        choice = np.argmax(sums, axis=1)
        most = np.maximum(sums[np.arange(p + 1), choice], _NEVER)
        steps.append((at, choice, holds))
        if at + 1 >= among.must and most[p] >= w:
            return _trim(among, _trace(steps, p), least, int(most[p]) - w)
    return [] if p == w == 0 else None


def _holds(among: _Candidates, at: int, least: _Least) -> Integers:
    """Most workers on one server by its PSs, within what the transfer time demands; index 0 may
    mean unused."""
    beside: Integers = among.beside[at]
    holds = beside.copy()
    few_ps = np.arange(len(holds)) < least.ps
    may_be_alone = least.workers == 0 and among.bound_workers[at] == 0
    holds[few_ps] = np.where(may_be_alone & (beside > _NEVER), 0, _NEVER)[few_ps]
    holds[1:][holds[1:] < least.workers] = _NEVER
    if least.ps > 0:
        holds[0] = _NEVER if at < among.must else 0
    return holds


def _sums(most: Integers, holds: Integers) -> Integers:
    """``sums[j, x]``: most workers with j PSs placed of which x are on the next server."""
    before = np.arange(len(most))[:, None] - np.arange(len(holds))[None, :]
    return np.asarray(
        np.where(before >= 0, most[np.maximum(before, 0)] + holds[None, :], 2 * _NEVER)
    )


def _trace(steps: list[tuple[int, Integers, Integers]], ps: int) -> list[Server]:
    """The counts of each server, by its position among the candidates, that led to ``ps`` PSs."""
    servers: list[Server] = []
    for at, choice, holds in reversed(steps):
        here = int(choice[ps])
        servers.append(Server(at, here, int(holds[here])))
        ps -= here
    return servers[::-1]


def _trim(
    among: _Candidates, servers: list[Server], least: _Least, surplus: int
) -> list[Server] | None:
    """Remove workers that are too many: whole servers first, then from where most are."""
    kept: list[Server] = []
    for server in sorted(servers, key=lambda server: server.workers):
        idle = server.ps == 0 and server.row >= among.must
        if idle and server.workers <= surplus:
            surplus -= server.workers
        else:
            kept.append(server)
    for _ in range(surplus):
        spare = [
            at
            for at, (row, ps, workers) in enumerate(kept)
            if workers > max(among.bound_workers[row], least.workers if ps else 0)
        ]
        if not spare:
            return None
        most = max(spare, key=lambda at: (kept[at].workers, -at))
        kept[most] = kept[most]._replace(workers=kept[most].workers - 1)
    return [server._replace(row=among.rows[server.row]) for server in kept]
