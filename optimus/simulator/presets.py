"""The ways to run a cluster that ``optimus simulate`` knows, by the name of their policy.

Ours runs online, as on a cluster. The others decide as published: every 600 s from scratch, with
the placement that the paper gives them (section 6.1), and PSs and workers one to one where the
paper says so."""

from dataclasses import replace

from optimus.placement import PLACEMENT_RULES
from optimus.placement.gang import PlacementRule
from optimus.policies import PLACED_BY, POLICIES
from optimus.simulator.engine import Approach, PreRun
from optimus.simulator.forecasts import Fitted, ForecastSource, Truth
from optimus.simulator.live_scheduler import LiveConfig, live_driver
from optimus.simulator.paper_scheduler import PaperConfig

_BLIND = frozenset({"drf", "fifo"})
_ONLINE = frozenset({"optimus"})


def approach(
    name: str, forecasts: ForecastSource | None = None, placement: PlacementRule | None = None
) -> Approach:
    """The usual way to run this policy (a name in ``POLICIES``).

    Policies that look ahead get forecasts; where these are fitted, ours measures speeds by
    profiling runs, and the others by the paper's pre-run. The truth needs no measuring.
    """
    forecasts = forecasts or Fitted()
    knows = isinstance(forecasts, Truth)
    looks_ahead, online = name not in _BLIND, name in _ONLINE
    return Approach(
        name=name,
        policy=POLICIES[name](),
        placement=placement or PLACEMENT_RULES[PLACED_BY[name]],
        rules=LiveConfig(driver=live_driver(measures=not knows))
        if online
        else PaperConfig(looks_ahead=looks_ahead),
        forecasts=forecasts,
        pre_run=PreRun() if looks_ahead and not online and not knows else None,
    )


def with_pre_run(usual: Approach, pre_run: PreRun) -> Approach:
    """The same approach, its speeds measured before a job starts and not by profiling runs."""
    rules = usual.rules
    if isinstance(rules, LiveConfig):
        interval = rules.driver.interval
        interval = replace(interval, profiling=replace(interval.profiling, runs=0))
        rules = replace(rules, driver=replace(rules.driver, interval=interval))
    return replace(usual, rules=rules, pre_run=pre_run)
