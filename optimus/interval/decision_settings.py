"""The policy, the placement rule and the limits by which counts are decided, as one value.

The interval is planned by them, and so is every answer about what another decision would bring
(``what_if``, ``arrival``): on the page by those of its process, on the command line by those that
the autoscaler has stored with a job.
"""

from dataclasses import dataclass, field

from optimus.allocation import Policy
from optimus.errors import NotReady
from optimus.interval.classify import IntervalConfig
from optimus.models.forecast import Forecast
from optimus.placement.gang import PlacementRule
from optimus.placement.theorem1 import Theorem1
from optimus.policies import policy_named


@dataclass(frozen=True, slots=True)
class DecisionSettings:
    """The settings that a decision depends on beside the cluster. The defaults are the
    autoscaler's."""

    policy: Policy = field(default_factory=lambda: policy_named("optimus"))
    placement: PlacementRule = field(default_factory=Theorem1)
    interval: IntervalConfig = field(default_factory=IntervalConfig)
    expects: bool = True
    """True where a job without a fitted forecast is decided by what is expected of it."""

    def usable(self, forecast: Forecast | NotReady | None) -> Forecast | NotReady:
        """The forecast, if counts may be decided by it."""
        if forecast is None:
            return NotReady("nothing is known of its training")
        if isinstance(forecast, Forecast) and forecast.is_expected and not self.expects:
            return NotReady("its speed is expected, not measured")
        return forecast
