"""The ways to run the testbed that the paper compares (section 6.1), and those of its ablation
(section 6.3).

A way is a policy with its placement, its forecasts, and how the parameters of its jobs are dealt to
PSs: the paper's own system deals them by its own assignment (PAA), the others leave that to MXNet.
"""

from dataclasses import dataclass, replace
from typing import Final

from optimus.placement import PLACEMENT_RULES
from optimus.placement.gang import PlacementRule
from optimus.policies import POLICIES
from optimus.simulator.engine import Approach
from optimus.simulator.forecasts import ForecastSource, Truth
from optimus.simulator.ground_truth.testbed import Hardware
from optimus.simulator.presets import approach
from optimus.simulator.workload.drawing import Dealing

REFERENCE: Final = "optimus-paper"
"""The way that all ratios are to."""

PUBLISHED_ERRORS: Final = Truth(convergence_error=0.2, speed_error=0.1)
"""Forecasts as good as the paper's: 20 % off in convergence and 10 % in speed when a job begins,
less from then on (section 6.4, where these are called typical)."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way. ``name`` is for tables."""

    name: str
    approach: Approach
    dealing: Dealing
    hardware: Hardware | None = None
    """What containers do in a second under this way; ``None``: what the setting says."""


def way(policy: str, forecasts: ForecastSource = PUBLISHED_ERRORS) -> Way:
    """A policy as the paper runs it; ours as the product runs it, its parameters dealt as those of
    the paper's own."""
    dealing = Dealing.PAA if policy in {REFERENCE, "optimus"} else Dealing.MXNET
    return Way(policy, approach(policy, forecasts), dealing)


def mixed(policy: str, placement: str, dealing: Dealing = Dealing.PAA) -> Way:
    """One policy's allocation with a placement of its own choice."""
    rule: PlacementRule = PLACEMENT_RULES[placement]
    name = f"{policy}, {placement}, {dealing.value}"
    usual = approach(policy, PUBLISHED_ERRORS, rule)
    return Way(name, replace(usual, name=name), dealing)


def looking_past_plateaus() -> Way:
    """The paper's own system with our allocation, which goes on where a single PS or worker more
    does not help."""
    name = "optimus, as published"
    usual = way(REFERENCE)
    return replace(
        usual, name=name, approach=replace(usual.approach, name=name, policy=POLICIES["optimus"]())
    )
