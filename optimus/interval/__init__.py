"""Each interval's decision: ``plan_interval`` and what surrounds it."""

from optimus.interval.plan import plan_interval
from optimus.interval.types import (
    Action,
    Decision,
    IntervalConfig,
    IntervalInput,
    IntervalPlan,
    Strategies,
)

__all__ = [
    "Action",
    "Decision",
    "IntervalConfig",
    "IntervalInput",
    "IntervalPlan",
    "Strategies",
    "plan_interval",
]
