"""Packing, replica by replica: the fullest node that still holds the replica, as a rule to compare with."""

from dataclasses import dataclass
from typing import ClassVar

from scheduling.placement.one_by_one import OneByOne


@dataclass(frozen=True, slots=True)
class Pack(OneByOne):
    """The fullest node first."""

    emptiest_first: ClassVar[bool] = False
