"""The configuration with which ``optimus simulate`` runs each policy.

Ours runs as on a cluster. The others decide as published: every 600 s from scratch, with the
placement that the paper gives them (section 6.1)."""

from dataclasses import dataclass, field, replace

from optimus.allocation import AllocationPolicy
from optimus.placement import PLACEMENT_RULES
from optimus.placement.gang import PlacementRule
from optimus.policies import PLACED_BY, POLICIES
from optimus.simulator.forecasts import FittedForecasts, ForecastSource, TrueForecasts
from optimus.simulator.live_scheduler import LiveConfig, live_driver
from optimus.simulator.paper_scheduler import PaperConfig


@dataclass(frozen=True, slots=True)
class PreRun:
    """Speeds measured before a job starts (Optimus, section 6.1), which delays training.

    Takes no room: the paper runs it on a small sample of the data and says nothing of its room."""

    samples: int = 5
    seconds: float = 30.0
    """Of each sample: tens of seconds in the paper."""
    widest: int = 8
    """The most PSs, or workers, of a sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """A policy with its placement, forecasts and scheduler."""

    name: str
    policy: AllocationPolicy
    placement: PlacementRule
    mode: LiveConfig | PaperConfig
    forecasts: ForecastSource = field(default_factory=FittedForecasts)
    pre_run: PreRun | None = None
    leaving_seconds: float = 10.0
    """From a suspension until the pods have left."""


_WITHOUT_FORECASTS = frozenset({"drf", "fifo"})
_LIVE = frozenset({"optimus"})


def preset(
    name: str, forecasts: ForecastSource | None = None, placement: PlacementRule | None = None
) -> SchedulerConfig:
    """The usual configuration of a policy (a name in ``POLICIES``).

    Policies that look ahead get forecasts; where these are fitted, ours measures speeds by
    profiling runs, the others by the paper's pre-run.
    """
    forecasts = forecasts or FittedForecasts()
    knows_truth = isinstance(forecasts, TrueForecasts)
    looks_ahead, is_live = name not in _WITHOUT_FORECASTS, name in _LIVE
    return SchedulerConfig(
        name=name,
        policy=POLICIES[name](),
        placement=placement or PLACEMENT_RULES[PLACED_BY[name]],
        mode=LiveConfig(driver=live_driver(measures=not knows_truth))
        if is_live
        else PaperConfig(looks_ahead=looks_ahead),
        forecasts=forecasts,
        pre_run=PreRun() if looks_ahead and not is_live and not knows_truth else None,
    )


def without_earlier_runs(usual: SchedulerConfig) -> SchedulerConfig:
    """The same configuration, in which jobs of one workload learn nothing from one another."""
    mode = usual.mode
    if isinstance(mode, LiveConfig):
        mode = replace(mode, uses_earlier_runs=False)
    return replace(usual, mode=mode)


def with_pre_run(usual: SchedulerConfig, pre_run: PreRun) -> SchedulerConfig:
    """The same configuration with a pre-run instead of profiling runs."""
    mode = usual.mode
    if isinstance(mode, LiveConfig):
        interval = mode.driver.interval
        interval = replace(interval, profiling=replace(interval.profiling, runs=0))
        mode = replace(mode, driver=replace(mode.driver, interval=interval))
    return replace(usual, mode=mode, pre_run=pre_run)
