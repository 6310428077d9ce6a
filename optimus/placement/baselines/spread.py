"""Spreading, replica by replica: the default of Kubernetes (least allocated), as a rule to compare
with.

Each replica goes to the node that admits it where the largest share of its dominant resource stays
free."""

from dataclasses import dataclass
from typing import ClassVar

from optimus.placement.baselines.per_pod import PerPod


@dataclass(frozen=True, slots=True)
class Spread(PerPod):
    """The emptiest node first."""

    emptiest_first: ClassVar[bool] = True
