"""Spreading, replica by replica: the default of Kubernetes (least allocated), as a rule to compare with.

Each replica goes to the node that admits it where the largest share of its dominant resource stays free.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduling.nodes import Node
from scheduling.placement.gang import DoesNotFit, Gang, Placement
from scheduling.placement.one_by_one import seat_one_by_one
from scheduling.resources import Resources


@dataclass(frozen=True, slots=True)
class Spread:
    """The emptiest node first."""

    def place(self, gang: Gang, nodes: Sequence[Node], free: Mapping[str, Resources]) -> Placement | DoesNotFit:
        """Choose nodes for the gang's unbound replicas; ``free`` is the free room by node name."""
        return seat_one_by_one(gang, nodes, free, emptiest_first=True)
