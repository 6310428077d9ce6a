"""The placement rules by name."""

from collections.abc import Mapping
from types import MappingProxyType

from scheduling.placement.gang import PlacementRule
from scheduling.placement.pack import Pack
from scheduling.placement.spread import Spread
from scheduling.placement.theorem1 import Theorem1

PLACEMENTS: Mapping[str, PlacementRule] = MappingProxyType({"theorem1": Theorem1(), "spread": Spread(), "pack": Pack()})
"""Value of ``--placement`` -> that rule."""
