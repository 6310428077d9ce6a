"""Spreading, replica by replica: the default of Kubernetes (least allocated), as a rule to compare with.

Each replica goes to the node that admits it where the largest share of its dominant resource stays free.
"""

from dataclasses import dataclass
from typing import ClassVar

from scheduling.placement.one_by_one import OneByOne


@dataclass(frozen=True, slots=True)
class Spread(OneByOne):
    """The emptiest node first."""

    emptiest_first: ClassVar[bool] = True
