"""Packing, replica by replica: the fullest node that still holds the replica, as a rule to compare with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduling.jobs import Counts, Job
from scheduling.nodes import Node
from scheduling.placement.gang import DoesNotFit, Gang, Placement
from scheduling.placement.one_by_one import seat_job_one_by_one, seat_one_by_one
from scheduling.placement.room import Room
from scheduling.placement.seats import Seats
from scheduling.placement.stock import Stock
from scheduling.resources import Resources


@dataclass(frozen=True, slots=True)
class Pack:
    """The fullest node first."""

    def place(self, gang: Gang, nodes: Sequence[Node], free: Mapping[str, Resources]) -> Placement | DoesNotFit:
        """Choose nodes for the gang's unbound replicas; ``free`` is the free room by node name."""
        return self.place_in(gang, Room(nodes, free))

    def place_in(self, gang: Gang, room: Room) -> Placement | DoesNotFit:
        """The same on room that is at hand as a matrix; the room is not changed."""
        return seat_one_by_one(gang, room, emptiest_first=False)

    def seat(
        self,
        job: Job,
        counts: Counts,
        stock: Stock,
        *,
        evenly: bool = False,  # noqa: ARG002 - part of the protocol
    ) -> Seats | DoesNotFit:
        """The same for a whole job of which nothing is bound, on a stock, from which the room is taken.

        ``evenly`` says nothing to a rule that does not know jobs.
        """
        return seat_job_one_by_one(job, counts, stock, emptiest_first=False)
