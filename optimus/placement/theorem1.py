"""Job-level placement, all of a job or nothing: Theorem 1 (Optimus, section 4.2 and appendix).

For k = 1, 2, ...: if k servers hold the job with PSs and workers dealt evenly (per server they
differ by at most one), take them, servers with most of the job's dominant resource free first. The
smallest such k is found exactly, whatever the room and the constraints. Where no even deal puts PSs
beside workers (they may not share nodes, room is too uneven, bound replicas lie unevenly),
``uneven`` minimises the transfer time itself, and is taken if it needs fewer servers than one for
each replica. Fixed roles then go on the plan's server with most room left, else on one more; if
that leaves them without a place, they go first and the rest is dealt around them.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType

import numpy as np

from optimus.jobs import Counts, Job, Role
from optimus.nodes import Node
from optimus.placement.assignment import Assignment, FixedAssignment, Server, seat_fixed
from optimus.placement.capacity import Capacity
from optimus.placement.dealing import Tasks as Whole
from optimus.placement.dealing import deal_evenly
from optimus.placement.even import deal
from optimus.placement.free_matrix import FreeMatrix
from optimus.placement.gang import DoesNotFit, Gang, Member, Placement
from optimus.placement.min_transfer import Transfer, squeeze
from optimus.placement.reasons import does_not_fit, job_does_not_fit
from optimus.placement.spreading import Hosting, Tasks
from optimus.resources import Resources
from optimus.snapshot import ReplicaId

SPREAD = (Role.PS, Role.WORKER)
_MOST_SEATS = 8
"""Where a gang fits only around its fixed roles, this many kinds of node are tried for the largest
of them."""
_LOOKED_AT = 256
"""Kinds are told apart among this many of the roomiest nodes."""


@dataclass(frozen=True, slots=True)
class Theorem1:
    """The placement rule of the paper. ``transfer`` weighs uneven plans; all its figures are equal
    by default."""

    transfer: Transfer = field(default_factory=Transfer)

    def place(
        self, gang: Gang, nodes: Sequence[Node], free: Mapping[str, Resources]
    ) -> Placement | DoesNotFit:
        """Choose nodes for the gang's unbound replicas; ``free`` is the free room by node name."""
        return self.place_in(gang, FreeMatrix(nodes, free))

    def place_in(self, gang: Gang, room: FreeMatrix) -> Placement | DoesNotFit:
        """The same on room that is at hand as a matrix; the room is not changed."""
        return self._place(gang, room, may_be_even=True)

    def _place(self, gang: Gang, room: FreeMatrix, *, may_be_even: bool) -> Placement | DoesNotFit:
        """``may_be_even`` is false where it is known that no even deal puts PSs beside workers."""
        if not gang.unbound:
            return Placement(gang.job_uid)
        if not _enough_in_all(gang, room):
            return does_not_fit(gang)
        fixed = _fixed(gang)
        rows = _seats(gang, fixed[0], room) if fixed else []
        ways = [self._attempts(gang, room, row, may_be_even) for row in (None, *rows)]
        # Most often the roomiest seat does; the others are looked at when nothing else is left.
        first = heapq.merge(*ways[:2], key=lambda attempt: attempt.order)
        for attempt in chain(first, *ways[2:]):
            whole = _complete(gang, attempt)
            if whole is not None:
                return whole
        return does_not_fit(gang)

    def seat(
        self, job: Job, counts: Counts, stock: Capacity, *, evenly: bool = False
    ) -> Assignment | DoesNotFit:
        """The same for a whole job of which nothing is bound, on a stock, from which the room is
        taken.

        With ``evenly`` every other than an even spread is refused.
        """
        tasks = Whole.of(job, counts, stock)
        if tasks is None:
            return job_does_not_fit(job, counts)
        servers = deal_evenly(tasks, stock) if sum(counts) else []
        if servers is not None:
            mark = stock.mark()
            seats = Assignment(tuple(servers))
            seats.take_from(stock, job)
            if not job.fixed:
                return seats
            fixed = seat_fixed(job, servers, stock)
            if fixed is not None:
                return Assignment(seats.servers, fixed)
            stock.back_to(mark)
        elif evenly or not tasks.might_fit(stock):
            return job_does_not_fit(job, counts)
        return self._seat_otherwise(job, counts, stock, may_be_even=servers is not None)

    def _seat_otherwise(
        self, job: Job, counts: Counts, stock: Capacity, *, may_be_even: bool
    ) -> Assignment | DoesNotFit:
        """Where the even deal does not do: all that ``place_in`` tries, on the nodes that can
        matter."""
        gang = Gang.of(job, counts)
        room = stock.part(len(gang.members), {member.spec for member in gang.members})
        placed = self._place(gang, room, may_be_even=may_be_even)
        if isinstance(placed, DoesNotFit):
            return placed
        seats = _seats_of(placed, stock)
        seats.take_from(stock, job)
        return seats

    def _attempts(
        self, gang: Gang, room: FreeMatrix, row: int | None, may_be_even: bool
    ) -> Iterator["_Attempt"]:
        """Ways to place PSs and workers, fewest servers first; with a row, once the fixed roles are
        seated there."""
        left = room.copy()
        seated: _Nodes | None = {}
        if row is not None:
            largest, *others = _fixed(gang)
            left.take(row, largest.spec.resources)
            seated = _seat(tuple(others), left, gang, frozenset({row}))
            if seated is not None:
                seated[_id(gang, largest)] = left.names[row]
        if seated is not None:
            for beside, servers in self._plans(gang, left, may_be_even):
                yield _Attempt((not beside, len(servers)), servers, left, seated)

    def _plans(
        self, gang: Gang, room: FreeMatrix, may_be_even: bool
    ) -> Iterator[tuple[bool, list[Server]]]:
        """Ways to place PSs and workers, best first; with each whether it is even and puts PSs
        beside workers."""
        hosting = Hosting(room, Tasks.of(gang, Role.PS, room), Tasks.of(gang, Role.WORKER, room))
        tasks = hosting.ps.count + hosting.workers.count
        if tasks == 0:
            yield True, []
            return
        fewest, most = _fewest(hosting), min(tasks, len(room.names))
        # One replica on each server is even, and yet no PS lies beside a worker: that is worth no
        # further server.
        together = tasks - 1 if hosting.ps.count and hosting.workers.count else tasks
        if may_be_even:
            yield from ((True, dealt) for dealt in _dealt(hosting, fewest, min(together, most)))
        squeezed = squeeze(hosting, self.transfer)
        for dealt in _dealt(hosting, max(fewest, together + 1), most):
            if squeezed is not None and len(squeezed) < len(dealt):
                yield False, squeezed
                squeezed = None
            yield False, dealt
        if squeezed is not None:
            yield False, squeezed


def _dealt(hosting: Hosting, fewest: int, most: int) -> Iterator[list[Server]]:
    """The even deals over this many servers, fewest first."""
    for servers in range(fewest, most + 1):
        dealt = deal(hosting, servers)
        if dealt is not None:
            yield dealt


def _enough_in_all(gang: Gang, room: FreeMatrix) -> bool:
    """Whether the cluster as a whole has what the gang asks for; tells most refusals at once."""
    demand = gang.demand()
    return all(
        amount <= int(np.maximum(room.column(name), 0).sum()) for name, amount in demand.items()
    )


def _fewest(hosting: Hosting) -> int:
    """No fewer servers than this can hold the gang: those that hold bound replicas, and what the
    largest sum up to."""
    fewest = max(1, int(hosting.bound.sum()))
    demand = hosting.ps.resources * len(hosting.ps.waiting) + hosting.workers.resources * len(
        hosting.workers.waiting
    )
    for name, amount in demand.items():
        largest = np.cumsum(-np.sort(-np.maximum(hosting.room.column(name), 0)))
        fewest = max(fewest, int(np.searchsorted(largest, amount)) + 1)
    return fewest


def _fixed(gang: Gang) -> tuple[Member, ...]:
    """Replicas of fixed roles that still need a node, those that ask for most first."""
    waiting = [member for member in gang.unbound if member.role not in SPREAD]
    return tuple(
        sorted(
            waiting,
            key=lambda member: (-sum(member.spec.resources.values()), member.role, member.index),
        )
    )


_Nodes = dict[ReplicaId, str]


@dataclass(frozen=True, slots=True)
class _Attempt:
    """PSs and workers by server, on the room that is left beside the replicas that are seated
    already.

    ``order``: even deals that put PSs beside workers come before all others, then fewer servers
    before more."""

    order: tuple[bool, int]
    servers: list[Server]
    left: FreeMatrix
    seated: _Nodes


def _complete(gang: Gang, attempt: _Attempt) -> Placement | None:
    """Give every replica its node: PSs and workers as dealt, fixed roles on these servers, else on
    one more."""
    left = attempt.left.copy()
    nodes = attempt.seated | _hand_out(gang, left, attempt.servers)
    fixed = tuple(member for member in _fixed(gang) if _id(gang, member) not in nodes)
    seated = _seat(fixed, left, gang, frozenset(server.row for server in attempt.servers))
    if seated is None:
        return None
    nodes |= seated
    return Placement(gang.job_uid, MappingProxyType(dict(sorted(nodes.items()))))


def _hand_out(gang: Gang, left: FreeMatrix, servers: list[Server]) -> _Nodes:
    """Name the replicas that each server takes, in order of indices, and take their room."""
    nodes: _Nodes = {}
    for role in SPREAD:
        tasks = Tasks.of(gang, role, left)
        waiting = iter(tasks.waiting)
        for server in servers:
            goal = server.ps if role is Role.PS else server.workers
            for _ in range(goal - int(tasks.bound[server.row])):
                member = next(waiting)
                nodes[_id(gang, member)] = left.names[server.row]
                left.take(server.row, member.spec.resources)
    return nodes


def _seat(
    members: tuple[Member, ...], left: FreeMatrix, gang: Gang, rather: frozenset[int]
) -> _Nodes | None:
    """Put each replica of a fixed role where most room is left, on one of ``rather`` if one holds
    it."""
    nodes: _Nodes = {}
    for member in members:
        row = _roomiest(member, left, rather)
        if row is None:
            return None
        nodes[_id(gang, member)] = left.names[row]
        left.take(row, member.spec.resources)
    return nodes


def _roomiest(member: Member, left: FreeMatrix, rather: frozenset[int]) -> int | None:
    rows = _able(member, left)
    room = left.column(member.spec.resources.dominant(left.capacity)[0])
    return min(rows, key=lambda row: (row not in rather, -int(room[row]), row), default=None)


def _seats(gang: Gang, member: Member, room: FreeMatrix) -> list[int]:
    """Nodes for one replica, roomiest first; of nodes that are alike only one, and not more than a
    few."""
    admitted = [
        room.admits(constraints)
        for constraints in {other.spec.constraints for other in gang.unbound}
    ]
    dominant = room.column(member.spec.resources.dominant(room.capacity)[0])
    able = np.array(_able(member, room), dtype=np.int64)
    rows = able[np.argsort(-dominant[able], kind="stable")][:_LOOKED_AT].tolist()
    alike: dict[tuple[bytes, tuple[bool, ...]], int] = {}
    for row in rows:
        alike.setdefault(
            (room.free[row].tobytes(), tuple(bool(admits[row]) for admits in admitted)), row
        )
    return list(alike.values())[:_MOST_SEATS]


def _able(member: Member, left: FreeMatrix) -> list[int]:
    able = left.admits(member.spec.constraints) & left.holds(member.spec.resources)
    for name in member.barred:
        row = left.row(name)
        if row is not None:
            able[row] = False
    return [int(row) for row in np.flatnonzero(able)]


def _id(gang: Gang, member: Member) -> ReplicaId:
    return ReplicaId(gang.job_uid, member.role, member.index)


def _seats_of(placement: Placement, stock: Capacity) -> Assignment:
    """The seats of a placement of a gang of which nothing was bound."""
    servers: dict[int, list[int]] = {}
    fixed: list[FixedAssignment] = []
    for replica, node in sorted(
        placement.nodes.items(), key=lambda each: (each[0].index, each[0].role)
    ):
        row = stock.row_of[node]
        if replica.role in SPREAD:
            servers.setdefault(row, [0, 0])[replica.role is Role.WORKER] += 1
        else:
            fixed.append(FixedAssignment(replica.role, replica.index, row))
    return Assignment(
        tuple(Server(row, ps, workers) for row, (ps, workers) in servers.items()), tuple(fixed)
    )
