"""Each interval's decision: ``plan_interval`` and what surrounds it."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optimus.interval.classify import Action, Decision, IntervalConfig, ProfilingConfig
    from optimus.interval.inputs import IntervalInput, IntervalPlan, Strategies
    from optimus.interval.plan import plan_interval

__all__ = [
    "Action",
    "Decision",
    "IntervalConfig",
    "IntervalInput",
    "IntervalPlan",
    "ProfilingConfig",
    "Strategies",
    "plan_interval",
]


_PARTS = dict.fromkeys(("IntervalInput", "IntervalPlan", "Strategies"), "inputs") | dict.fromkeys(
    ("Action", "Decision", "IntervalConfig", "ProfilingConfig"), "classify"
)


def __getattr__(name: str) -> object:
    """Load a part where it is used: commands need the settings, and not the plan."""
    if name not in __all__:
        raise AttributeError(name)
    return getattr(import_module(f"optimus.interval.{_PARTS.get(name, 'plan')}"), name)
