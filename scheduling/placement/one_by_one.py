"""Placing a gang one replica at a time, as schedulers do that know pods and not jobs."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from scheduling.nodes import Node
from scheduling.placement.gang import DoesNotFit, Gang, Member, Placement
from scheduling.placement.refusals import does_not_fit
from scheduling.placement.room import Room
from scheduling.resources import Resources
from scheduling.snapshot import ReplicaId


def seat_one_by_one(
    gang: Gang, nodes: Sequence[Node], free: Mapping[str, Resources], *, emptiest_first: bool
) -> Placement | DoesNotFit:
    """Seat every unbound replica in order of roles and indices, by the share of its dominant resource that is free."""
    room = Room(nodes, free)
    capacity = {node.name: node.allocatable for node in nodes}
    seats: dict[ReplicaId, str] = {}
    for member in sorted(gang.unbound, key=lambda member: (member.role, member.index)):
        row = _best(member, room, capacity, emptiest_first)
        if row is None:
            return does_not_fit(gang)
        seats[ReplicaId(gang.job_uid, member.role, member.index)] = room.names[row]
        room.take(row, member.spec.resources)
    return Placement(gang.job_uid, MappingProxyType(seats))


def _best(member: Member, room: Room, capacity: Mapping[str, Resources], emptiest_first: bool) -> int | None:
    asked = member.spec.resources
    able = room.admits(member.spec.constraints) & room.holds(asked)
    rows = [row for row in np.flatnonzero(able).tolist() if room.names[row] not in member.barred]
    dominant, _ = asked.dominant(room.capacity)
    left = room.column(dominant)

    def share(row: int) -> float:
        whole = capacity[room.names[row]][dominant]
        return int(left[row]) / whole if whole else 0.0

    sign = -1 if emptiest_first else 1
    return min(rows, key=lambda row: (sign * share(row), row), default=None)
