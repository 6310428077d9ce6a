"""Placement: which node each replica of one job goes to."""

from collections.abc import Mapping
from types import MappingProxyType

from optimus.placement.gang import PlacementRule
from optimus.placement.per_pod import PACK, SPREAD
from optimus.placement.theorem1 import Theorem1

PLACEMENT_RULES: Mapping[str, PlacementRule] = MappingProxyType(
    {"theorem1": Theorem1(), "spread": SPREAD, "pack": PACK}
)
"""Value of ``--placement`` -> that rule."""
