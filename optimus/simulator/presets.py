"""The configuration with which ``optimus simulate`` runs each policy.

Ours runs as on a cluster. The others decide as published: every 600 s from scratch, with the
placement that the paper gives them (section 6.1). What the text leaves open is as in the program
that the paper's authors released (pengyanghua/optimus): it is the stronger baseline."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from optimus.allocation import Policy
from optimus.allocation.options import Options
from optimus.errors import NotReady
from optimus.interval import Strategies
from optimus.interval.driver import DriverConfig
from optimus.jobs import Job
from optimus.models.expectation import EPOCHS_LEFT
from optimus.models.forecast import ForecastFn
from optimus.models.speed.curve import SpeedForm
from optimus.placement import PLACEMENT_RULES
from optimus.placement.gang import PlacementRule
from optimus.policies import policy_named
from optimus.progress.types import TrainingProgress
from optimus.simulator.forecasts import (
    EquationForecasts,
    FittedForecasts,
    ForecastSource,
    TrueForecasts,
)
from optimus.simulator.scheduler import LoopConfig, SimulatedScheduler, rounds_driver
from optimus.simulator.speeds import EmptyCluster

FIXED: Final = "fixed"
"""The name of ``optimus`` that moves no job: what jobs take untouched."""


@dataclass(frozen=True, slots=True)
class PreRun:
    """Speeds measured before a job starts (Optimus, section 6.1).

    It takes no room, of which the paper says nothing, and delays nothing: the clock of the authors'
    program stands still meanwhile (scheduler/optimus_scheduler.py, ``_schedule``)."""

    samples: int = 5
    seconds: float = 30.0
    """Of each sample: tens of seconds in the paper."""
    form: SpeedForm = SpeedForm.BLEND
    """The speed model whose most informative counts are sampled."""
    by_kind: bool = False
    """Whether the job's own counts are sampled on each kind of nodes, and no others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """A policy with its placement, forecasts and scheduler."""

    name: str
    policy: Policy
    placement: PlacementRule
    loop: LoopConfig = field(default_factory=LoopConfig)
    forecasts: ForecastSource = field(default_factory=FittedForecasts)
    pre_run: PreRun | None = None
    leaving_seconds: float = 10.0
    """From a suspension until the pods have left."""
    measures_prices: bool = False
    """Whether a job's next rescale is taken to cost what its last ones did, as on a cluster, and
    not the assumed time. Default: the published figures were measured without; where jobs take
    turns the length of a round follows."""

    @property
    def weighs_restarts(self) -> bool:
        """Return whether it runs as on a cluster, and not as published."""
        return self.policy.traits.weighs_restarts

    def scheduler(self, forecast: ForecastFn, empty: EmptyCluster, seed: int) -> SimulatedScheduler:
        """A scheduler for one simulation."""
        loop = replace(self.loop, driver=replace(self.loop.driver, seed=seed))
        reads = self.policy.traits.reads_forecasts
        strategies = Strategies(self.policy, self.placement, forecast if reads else _not_read)
        return SimulatedScheduler(loop, strategies, empty)


def _not_read(_: Job, __: TrainingProgress, /) -> NotReady:
    return NotReady("its policy reads no forecasts")


def preset(
    name: str,
    forecasts: ForecastSource | None = None,
    placement: PlacementRule | None = None,
    options: Options = MappingProxyType({}),
) -> SchedulerConfig:
    """The usual configuration of a policy (a name in ``POLICIES``, or ``FIXED``) with these options
    of it.

    Policies that look ahead get forecasts; where these are fitted, ours measures speeds by
    profiling runs, the others by the paper's pre-run. Forecasts by the paper's equations are fitted
    to a pre-run under every policy.
    """
    forecasts = forecasts or FittedForecasts()
    if name == FIXED:
        usual = preset("optimus", forecasts, placement)
        return replace(with_loop(usual, moves=False), name=FIXED)
    policy = policy_named(name, options)
    looks_ahead, is_live = policy.traits.reads_forecasts, policy.traits.weighs_restarts
    pre_run = PreRun() if looks_ahead and not is_live else None
    if policy.traits.reads_kinds:
        pre_run = PreRun(by_kind=True)
    elif isinstance(forecasts, TrueForecasts):
        pre_run = None
    elif isinstance(forecasts, EquationForecasts) and looks_ahead:
        pre_run = PreRun(samples=forecasts.samples, form=SpeedForm.PAPER)
    elif isinstance(forecasts, FittedForecasts) and not is_live:
        forecasts = replace(forecasts, epochs_left=EPOCHS_LEFT)
    measures = isinstance(forecasts, FittedForecasts)
    return SchedulerConfig(
        name=name,
        policy=policy,
        placement=placement or PLACEMENT_RULES[policy.traits.placed_by],
        loop=LoopConfig(driver=DriverConfig(measures=measures))
        if is_live
        else LoopConfig(driver=rounds_driver(policy.traits)),
        forecasts=forecasts,
        pre_run=pre_run,
        measures_prices=policy.traits.time_shared,
    )


def with_loop(usual: SchedulerConfig, **changes: Any) -> SchedulerConfig:
    """The same configuration with these settings of ``LoopConfig``, which policies that decide in
    rounds do not read."""
    return replace(usual, loop=replace(usual.loop, **changes))


def with_weights(usual: SchedulerConfig, weights: Mapping[str, float]) -> SchedulerConfig:
    """The same configuration with these weights of jobs, by the name of their PriorityClass."""
    driver = usual.loop.driver
    if not weights or driver.interval.fairness is None:
        return usual
    fairness = replace(driver.interval.fairness, classes=weights)
    interval = replace(driver.interval, fairness=fairness)
    return with_loop(usual, driver=replace(driver, interval=interval))


def without_costs(usual: SchedulerConfig) -> SchedulerConfig:
    """The same configuration where restarts take no time, which is known."""
    driver = usual.loop.driver
    interval = replace(driver.interval, rescale_seconds=0.0)
    free = with_loop(usual, driver=replace(driver, interval=interval))
    return replace(free, leaving_seconds=0.0)
