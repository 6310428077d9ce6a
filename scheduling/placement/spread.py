"""Spreading, replica by replica: the default of Kubernetes (least allocated), as a rule to compare with.

Each replica goes to the node that admits it where the largest share of its dominant resource stays free.
"""

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
class Spread:
    """The emptiest node first."""

    def place(self, gang: Gang, nodes: Sequence[Node], free: Mapping[str, Resources]) -> Placement | DoesNotFit:
        """Choose nodes for the gang's unbound replicas; ``free`` is the free room by node name."""
        return self.place_in(gang, Room(nodes, free))

    def place_in(self, gang: Gang, room: Room) -> Placement | DoesNotFit:
        """The same on room that is at hand as a matrix; the room is not changed."""
        return seat_one_by_one(gang, room, emptiest_first=True)

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
        return seat_job_one_by_one(job, counts, stock, emptiest_first=True)
