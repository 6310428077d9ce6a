"""The placement rules by their names."""

from collections.abc import Mapping
from types import MappingProxyType

from optimus.placement.gang import GangRule, PlacementRule
from optimus.placement.per_pod import PACK, SPREAD
from optimus.placement.theorem1 import Theorem1
from optimus.placement.topology import NodePreferences
from optimus.placement.whole_gang import WholeGangRule

PLACEMENT_RULES: Mapping[str, PlacementRule] = MappingProxyType(
    {"theorem1": Theorem1(), "spread": SPREAD, "pack": PACK}
)
"""Value of ``--placement`` -> that rule."""


def rule_on_cluster(name: str, preferences: NodePreferences | None = None) -> GangRule:
    """The rule of this name with what pods and nodes ask for besides."""
    rule = PLACEMENT_RULES[name]
    if isinstance(rule, Theorem1):
        return Theorem1(preferences)
    return WholeGangRule.of(rule, preferences)
