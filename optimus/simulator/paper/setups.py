"""The setups to run the testbed that the paper compares (section 6.1), and those of its ablation
(section 6.3).

A setup is a policy with its placement, its forecasts, and how parameters are assigned to PSs: the
paper's own system assigns them by its own rule (PAA), the others leave that to MXNet.
"""

from dataclasses import dataclass, replace
from typing import Final

from optimus.placement import PLACEMENT_RULES
from optimus.placement.gang import PlacementRule
from optimus.policies import POLICIES
from optimus.simulator.engine import SchedulerConfig
from optimus.simulator.forecasts import ForecastSource, TrueForecasts
from optimus.simulator.ground_truth.testbed import Hardware
from optimus.simulator.presets import preset
from optimus.simulator.workload.random_jobs import AssignmentRule

REFERENCE: Final = "optimus-paper"
"""The setup that all ratios are to."""

PUBLISHED_ERRORS: Final = TrueForecasts(convergence_error=0.2, speed_error=0.1)
"""Forecasts as good as the paper's: 20 % off in convergence and 10 % in speed when a job begins,
less from then on (section 6.4, where these are called typical)."""


@dataclass(frozen=True, slots=True)
class Setup:
    """One setup; ``name`` is for tables."""

    name: str
    scheduler: SchedulerConfig
    assignment: AssignmentRule
    hardware: Hardware | None = None
    """What containers do in a second under this setup; ``None``: what the setting says."""


def setup(policy: str, forecasts: ForecastSource = PUBLISHED_ERRORS) -> Setup:
    """A policy as the paper runs it; ours as the product runs it, with PAA."""
    assignment = AssignmentRule.PAA if policy in {REFERENCE, "optimus"} else AssignmentRule.MXNET
    return Setup(policy, preset(policy, forecasts), assignment)


def mixed(policy: str, placement: str, assignment: AssignmentRule = AssignmentRule.PAA) -> Setup:
    """One policy's allocation with a placement of its own choice."""
    rule: PlacementRule = PLACEMENT_RULES[placement]
    name = f"{policy}, {placement}, {assignment.value}"
    usual = preset(policy, PUBLISHED_ERRORS, rule)
    return Setup(name, replace(usual, name=name), assignment)


def looking_past_plateaus() -> Setup:
    """The paper's own system with our allocation, which goes on where a single PS or worker more
    does not help."""
    name = "optimus, as published"
    usual = setup(REFERENCE)
    return replace(
        usual,
        name=name,
        scheduler=replace(usual.scheduler, name=name, policy=POLICIES["optimus"]()),
    )
