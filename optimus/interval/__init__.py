"""Each interval's decision: ``plan_interval`` and what surrounds it."""

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
