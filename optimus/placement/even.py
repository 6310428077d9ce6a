"""The even spread of Theorem 1 (Optimus, section 4.2): PSs and workers dealt evenly over a number
of servers.

On k servers every server holds floor(p/k) or one more PSs and floor(w/k) or one more workers, so
only four pairs of counts occur. Whether k servers of a cluster can take them is a matching of
servers to pairs, and Hall's condition decides it by counting the servers that can hold each pair:
exact for any free room, in time that grows with nodes times k. Servers that hold bound replicas
must be among the k; they are few, and are tried one by one first.
"""

from dataclasses import dataclass

import numpy as np

from optimus.placement.assignment import Server
from optimus.placement.free_matrix import Rows
from optimus.placement.spreading import Counted, Hosting


@dataclass(frozen=True, slots=True)
class _Deal:
    """Evenly dealt counts: ``more_ps`` of the servers hold one PS more than ``ps``, likewise
    workers."""

    servers: int
    ps: int
    more_ps: int
    workers: int
    more_workers: int


_Taken = tuple[int, int]
"""How many servers with one PS more, and with one worker more, the servers so far have used up."""


def deal(hosting: Hosting, servers: int) -> list[Server] | None:
    """Spread the gang evenly over exactly this many servers; ``None`` where no choice of servers
    allows it."""
    ps, more_ps = divmod(hosting.ps.count, servers)
    workers, more_workers = divmod(hosting.workers.count, servers)
    wanted = _Deal(servers, ps, more_ps, workers, more_workers)
    if int(hosting.can_hold(ps, workers).sum()) + int(hosting.bound.sum()) < servers:
        return None
    pairs = _Pairs.of(hosting, wanted)
    must = np.flatnonzero(hosting.bound)
    for taken, chosen in sorted(_settle_bound(pairs, must, wanted).items()):
        rest = _Deal(servers - len(must), ps, more_ps - taken[0], workers, more_workers - taken[1])
        others = _choose(pairs.without(hosting.bound), rest, hosting.order)
        if others is not None:
            return chosen + others
    return None


@dataclass(frozen=True, slots=True)
class _Pairs:
    """By node, whether it can hold each of the four pairs; the first letter is PSs, the second
    workers."""

    less_less: Rows
    more_less: Rows
    less_more: Rows
    more_more: Rows

    @classmethod
    def of(cls, hosting: Hosting, wanted: _Deal) -> "_Pairs":
        none = np.zeros(len(hosting.room.names), dtype=np.bool_)
        ps, workers = wanted.ps, wanted.workers
        more_ps, more_workers = wanted.more_ps > 0, wanted.more_workers > 0
        return cls(
            hosting.can_hold(ps, workers),
            hosting.can_hold(ps + 1, workers) if more_ps else none,
            hosting.can_hold(ps, workers + 1) if more_workers else none,
            hosting.can_hold(ps + 1, workers + 1) if more_ps and more_workers else none,
        )

    def without(self, rows: Rows) -> "_Pairs":
        others = ~rows
        return _Pairs(
            self.less_less & others,
            self.more_less & others,
            self.less_more & others,
            self.more_more & others,
        )


def _settle_bound(pairs: _Pairs, must: Counted, wanted: _Deal) -> dict[_Taken, list[Server]]:
    """Every way, up to what is used up, in which the servers that hold bound replicas can take
    their counts."""
    ways: dict[_Taken, list[Server]] = {(0, 0): []}
    if len(must) > wanted.servers:
        return {}
    for row in must.tolist():
        options = [
            (more_ps, more_workers)
            for more_ps, more_workers, able in (
                (0, 0, pairs.less_less[row]),
                (1, 0, pairs.more_less[row]),
                (0, 1, pairs.less_more[row]),
                (1, 1, pairs.more_more[row]),
            )
            if able
        ]
        further: dict[_Taken, list[Server]] = {}
        for (used_ps, used_workers), chosen in ways.items():
            for more_ps, more_workers in options:
                taken = used_ps + more_ps, used_workers + more_workers
                if (
                    taken[0] <= wanted.more_ps
                    and taken[1] <= wanted.more_workers
                    and taken not in further
                ):
                    further[taken] = [
                        *chosen,
                        Server(row, wanted.ps + more_ps, wanted.workers + more_workers),
                    ]
        ways = further
    return ways


def _choose(pairs: _Pairs, rest: _Deal, order: Counted) -> list[Server] | None:
    """Choose servers for the rest: among the fewest first ones in ``order`` that allow it."""
    if rest.servers == 0:
        return [] if rest.more_ps == rest.more_workers == 0 else None
    if not 0 <= max(rest.more_ps, rest.more_workers) <= rest.servers:
        return None
    ordered = _Pairs(
        *(
            rows[order]
            for rows in (pairs.less_less, pairs.more_less, pairs.less_more, pairs.more_more)
        )
    )
    both = _both_more(ordered, rest)
    enough = np.flatnonzero(both >= 0)
    if len(enough) == 0:
        return None
    first = int(enough[0]) + 1
    return _match(ordered, rest, int(both[first - 1]), order[:first])


def _both_more(ordered: _Pairs, rest: _Deal) -> Counted:
    """By length of the prefix of servers, how many take one more of both; -1 where the prefix
    cannot hold the rest.

    Hall's condition for the demands ``both`` (more-more), ``more_ps - both``,
    ``more_workers - both`` and the remainder, where a server that can hold more can hold less. The
    fewest doubles load the servers most evenly."""
    doubles = np.cumsum(ordered.more_more)
    either = np.cumsum(ordered.more_less | ordered.less_more)
    extra = rest.more_ps + rest.more_workers
    fewest = np.maximum(np.maximum(extra - rest.servers, 0), extra - either)
    most = np.minimum(doubles, min(rest.more_ps, rest.more_workers))
    possible = (
        (fewest <= most)
        & (np.cumsum(ordered.more_less) >= rest.more_ps)
        & (np.cumsum(ordered.less_more) >= rest.more_workers)
        & (np.cumsum(ordered.less_less) >= rest.servers)
    )
    return np.where(possible, fewest, -1)


def _match(ordered: _Pairs, rest: _Deal, both: int, rows: Counted) -> list[Server]:
    """Deal the four pairs; servers that can take one kind only go first, so that none is left
    over."""
    length = len(rows)
    more_more, more_less, less_more, less_less = (
        able[:length].copy()
        for able in (ordered.more_more, ordered.more_less, ordered.less_more, ordered.less_less)
    )
    chosen: list[Server] = []

    def take(able: Rows, rather: Rows, count: int, counts: tuple[int, int]) -> None:
        picks = [*np.flatnonzero(able & rather), *np.flatnonzero(able & ~rather)][:count]
        for pick in picks:
            chosen.append(Server(int(rows[pick]), *counts))
            for kind in (more_more, more_less, less_more, less_less):
                kind[pick] = False

    every = np.ones(length, dtype=np.bool_)
    take(more_more, every, both, (rest.ps + 1, rest.workers + 1))
    take(more_less, ~less_more, rest.more_ps - both, (rest.ps + 1, rest.workers))
    take(less_more, ~more_less, rest.more_workers - both, (rest.ps, rest.workers + 1))
    remainder = rest.servers - rest.more_ps - rest.more_workers + both
    take(less_less, every, remainder, (rest.ps, rest.workers))
    return chosen
