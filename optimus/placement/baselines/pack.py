"""Packing, replica by replica: the fullest node that still holds the replica, as a rule to compare
with."""

from dataclasses import dataclass
from typing import ClassVar

from optimus.placement.baselines.per_pod import PerPod


@dataclass(frozen=True, slots=True)
class Pack(PerPod):
    """The fullest node first."""

    emptiest_first: ClassVar[bool] = False
