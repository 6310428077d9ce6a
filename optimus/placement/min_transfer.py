"""Where no even spread exists: the least transfer time that the room allows (Optimus, section 4.2).

Minimises what Theorem 1 minimises, the largest per-server transfer time: the larger of (S/p)(w -
w_k)/B over servers that hold a PS and (S/p)(p - p_k)/b over servers that hold a worker. The time
depends on the plan only through the fewest workers beside any PS and the fewest PSs beside any
worker, so: bisect the time; for each, run over the servers with f[j] = most workers that fit beside
j placed PSs, and stop at the first prefix of servers that holds the gang. Exact up to 2 (p + w)
servers; beyond, only the p + w servers that hold most PSs and the p + w that hold most workers are
looked at."""

from dataclasses import dataclass

import numpy as np

from optimus.placement.assignment import Server
from optimus.placement.spreading import NEVER, Counted, Hosting


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
class _Least:
    """The fewest workers beside any PS and the fewest PSs beside any worker that a plan may
    have."""

    workers: int
    ps: int


def squeeze(hosting: Hosting, transfer: Transfer) -> list[Server] | None:
    """Place the gang with the least transfer time; ``None`` where it does not fit at all."""
    rows = _candidates(hosting)
    beside = np.stack(
        [hosting.workers_beside(ps)[rows] for ps in range(hosting.ps.count + 1)], axis=1
    )
    levels = [
        least for least in _levels(hosting, transfer) if _is_conceivable(hosting, beside, least)
    ]
    best = _fill(hosting, rows, beside, levels[-1])
    low, high = 0, len(levels) - 1
    while best is not None and low < high:
        middle = (low + high) // 2
        found = _fill(hosting, rows, beside, levels[middle])
        if found is None:
            low = middle + 1
        else:
            best, high = found, middle
    return best


def _is_conceivable(hosting: Hosting, beside: Counted, least: _Least) -> bool:
    """Whether any server at all can hold what this demands of a server; rules out most demands at
    once."""
    if least.workers and hosting.ps.count:
        return bool((beside[:, max(least.ps, 1) :] >= least.workers).any())
    return least.ps == 0 or hosting.workers.count == 0 or bool((beside[:, least.ps :] >= 1).any())


def _levels(hosting: Hosting, transfer: Transfer) -> list[_Least]:
    """The distinct transfer times, least first, each as what it demands; the last demands
    nothing."""
    p, w = hosting.ps.count, hosting.workers.count
    times = {transfer.seconds(p, missing, 0) for missing in range(w + 1)}
    times |= {transfer.seconds(p, 0, missing) for missing in range(p + 1)}
    return [
        _Least(
            next((least for least in range(w) if transfer.seconds(p, w - least, 0) <= time), w),
            next((least for least in range(p) if transfer.seconds(p, 0, p - least) <= time), p),
        )
        for time in sorted(times)
    ]


def _candidates(hosting: Hosting) -> list[int]:
    """Servers worth looking at: those with bound replicas, then by free dominant resource."""
    bound = [row for row in hosting.order.tolist() if hosting.bound[row]]
    others = hosting.order[~hosting.bound[hosting.order]]
    most = hosting.ps.count + hosting.workers.count
    if len(others) > 2 * most:
        by_workers = others[np.argsort(-hosting.workers_beside(0)[others], kind="stable")][:most]
        by_ps = others[np.argsort(-_most_ps(hosting)[others], kind="stable")][:most]
        keep = {*by_workers.tolist(), *by_ps.tolist()}
        others = others[np.isin(others, list(keep))]
    return [*bound, *(int(row) for row in others)]


def _most_ps(hosting: Hosting) -> Counted:
    most = np.zeros(len(hosting.order), dtype=np.int64)
    for ps in range(1, hosting.ps.count + 1):
        most[hosting.workers_beside(ps) > NEVER] = ps
    return most


def _fill(hosting: Hosting, rows: list[int], beside: Counted, least: _Least) -> list[Server] | None:
    """Run over the servers until they hold the gang; ``None`` where they never do."""
    p, w = hosting.ps.count, hosting.workers.count
    most = np.full(p + 1, NEVER, dtype=np.int64)
    most[0] = 0
    steps: list[tuple[int, Counted, Counted]] = []
    bound = int(hosting.bound.sum())
    for at, row in enumerate(rows):
        holds = _holds(hosting, row, beside[at], least)
        holds = holds[: 1 + int(np.flatnonzero(holds > NEVER).max(initial=0))]
        sums = _sums(most, holds)
        choice = np.argmax(sums, axis=1)
        most = np.maximum(sums[np.arange(p + 1), choice], NEVER)
        steps.append((row, choice, holds))
        if at + 1 >= bound and most[p] >= w:
            return _trim(hosting, _trace(steps, p), least, int(most[p]) - w)
    return [] if p == w == 0 else None


def _holds(hosting: Hosting, row: int, beside: Counted, least: _Least) -> Counted:
    """Most workers on one server by its PSs, within what the transfer time demands; index 0 may
    mean unused."""
    holds = beside.copy()
    few_ps = np.arange(len(holds)) < least.ps
    alone_ps = few_ps & (beside > NEVER) & (least.workers == 0) & (hosting.workers.bound[row] == 0)
    holds[few_ps] = np.where(alone_ps, 0, NEVER)[few_ps]
    holds[1:][holds[1:] < least.workers] = NEVER
    if least.ps > 0:
        holds[0] = NEVER if hosting.bound[row] else 0
    return holds


def _sums(most: Counted, holds: Counted) -> Counted:
    """``sums[j, x]``: most workers with j PSs placed of which x are on the next server."""
    before = np.arange(len(most))[:, None] - np.arange(len(holds))[None, :]
    return np.asarray(
        np.where(before >= 0, most[np.maximum(before, 0)] + holds[None, :], 2 * NEVER)
    )


def _trace(steps: list[tuple[int, Counted, Counted]], ps: int) -> list[Server]:
    servers: list[Server] = []
    for row, choice, holds in reversed(steps):
        here = int(choice[ps])
        servers.append(Server(row, here, int(holds[here])))
        ps -= here
    return servers[::-1]


def _trim(
    hosting: Hosting, servers: list[Server], least: _Least, surplus: int
) -> list[Server] | None:
    """Give workers up that are too many: whole servers first, then from where most are."""
    kept: list[Server] = []
    for server in sorted(servers, key=lambda server: server.workers):
        idle = server.ps == 0 and not hosting.bound[server.row]
        if idle and server.workers <= surplus:
            surplus -= server.workers
        else:
            kept.append(server)
    for _ in range(surplus):
        spare = [
            at for at, server in enumerate(kept) if server.workers > _floor(hosting, server, least)
        ]
        if not spare:
            return None
        most = max(spare, key=lambda at: (kept[at].workers, -at))
        kept[most] = kept[most]._replace(workers=kept[most].workers - 1)
    return kept


def _floor(hosting: Hosting, server: Server, least: _Least) -> int:
    return max(int(hosting.workers.bound[server.row]), least.workers if server.ps else 0)
