"""Placement: which node each replica of one job goes to.

The rules are loaded with their first use: what pods ask of nodes (``rules``) is read without them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optimus.placement.named import PLACEMENT_RULES, rule_on_cluster

__all__ = ("PLACEMENT_RULES", "rule_on_cluster")


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(name)
    from optimus.placement import named

    return getattr(named, name)
