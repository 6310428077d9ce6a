"""The placement rules by name."""

from collections.abc import Mapping
from types import MappingProxyType

from optimus.placement.baselines.pack import Pack
from optimus.placement.baselines.spread import Spread
from optimus.placement.gang import PlacementRule
from optimus.placement.theorem1 import Theorem1

PLACEMENTS: Mapping[str, PlacementRule] = MappingProxyType(
    {"theorem1": Theorem1(), "spread": Spread(), "pack": Pack()}
)
"""Value of ``--placement`` -> that rule."""
