"""Packing, replica by replica: the fullest node that still holds the replica, as a rule to compare with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduling.nodes import Node
from scheduling.placement.gang import DoesNotFit, Gang, Placement
from scheduling.placement.one_by_one import seat_one_by_one
from scheduling.resources import Resources


@dataclass(frozen=True, slots=True)
class Pack:
    """The fullest node first."""

    def place(self, gang: Gang, nodes: Sequence[Node], free: Mapping[str, Resources]) -> Placement | DoesNotFit:
        """Choose nodes for the gang's unbound replicas; ``free`` is the free room by node name."""
        return seat_one_by_one(gang, nodes, free, emptiest_first=False)
