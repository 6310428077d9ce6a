"""What an interval is planned on and what it decides."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from optimus.allocation import AllocationPolicy, JobHistory
from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.profiling import ProfilingRules
from optimus.jobs import Counts, JobKey
from optimus.models.forecast import ForecastFn, forecast_job
from optimus.placement.gang import PlacementRule
from optimus.placement.queue_order import AGE_LIMIT_SECONDS
from optimus.progress.types import TrainingProgress
from optimus.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalConfig:
    """When a change of counts is worth a restart, and how often a job may be restarted."""

    rescale_seconds: float = 60.0
    """What one rescale costs a job: no training from the suspension until all its pods run again,
    and the steps since its checkpoint. Default: pods of cached images start in half a minute, and
    as much again is lost on both sides."""

    hysteresis_fraction: float = 0.05
    """A change must save this fraction of the job's remaining time beyond its own cost. Unit: none.
    Default: speeds are predicted to several percent, and a gain that may be noise is not worth a
    restart."""

    max_rescales: int = 20
    """After this many rescales a job never grows again; it still shrinks where a waiting job needs
    the room. Default: the paper (section 7) asks for a cap and names none; 20 restarts of a minute
    are a third of an hour."""

    cooldown_seconds: float = 300.0
    """Least time between two rescales of a job, whatever the gain. Default: half an interval, so
    that two early intervals in a row do not restart a job twice."""

    max_attempts: int = 50_000
    """How often an interval tries to place something on reclaimed capacity. Default: an attempt
    takes a tenth of a millisecond, so that the largest cluster is decided in seconds."""

    waiting_age_limit_seconds: float = AGE_LIMIT_SECONDS
    """A waiting job older than this comes before smaller ones. Default: that of the extender, which
    binds the pods in the same order."""

    reserve_fraction: float = 0.10
    """The part of the room that is held back from whole jobs where no job runs yet, and shared out
    task by task afterwards. Unit: none. Default: even spreads on the fewest servers leave 5 to 8 %
    of equal nodes in pieces too small for a server's share."""

    remainder_rounds: int = 4
    """How often at most the pieces that are left are shared out among jobs that start. Default:
    later rounds place next to nothing."""

    profiling: ProfilingRules = field(default_factory=ProfilingRules)
    """How much is spent on measuring: it tells when a job's profiling is over."""


class Action(StrEnum):
    """How a job's counts change. ``change`` is more of one role and fewer of the other."""

    SUSPEND = "suspend"
    SHRINK = "shrink"
    CHANGE = "change"
    KEEP = "keep"
    WAIT = "wait"
    GROW = "grow"

    @classmethod
    def between(cls, current: Counts, counts: Counts) -> "Action":
        """The action that leads from one pair of counts to the other."""
        if counts == current:
            return cls.KEEP
        if counts.ps >= current.ps and counts.workers >= current.workers:
            return cls.GROW
        if counts.ps <= current.ps and counts.workers <= current.workers:
            return cls.SHRINK
        return cls.CHANGE


@dataclass(frozen=True, slots=True)
class Decision:
    """One job's counts from now on. ``reason`` is a sentence with the numbers that decided.

    ``now_seconds`` and ``after_seconds`` are the forecast remaining seconds at the present counts
    and at those decided, ``None`` without a forecast. ``awaits_forecast``: the job is profiled and
    keeps its counts for one more interval, in case a forecast becomes ready.
    """

    key: JobKey
    uid: str
    current: Counts
    counts: Counts
    action: Action
    reason: str
    now_seconds: float | None = None
    after_seconds: float | None = None
    awaits_forecast: bool = False

    @property
    def rescales(self) -> bool:
        """Whether the job has to be rescaled for it."""
        return self.action in {Action.SHRINK, Action.CHANGE, Action.GROW}


@dataclass(frozen=True, slots=True)
class IntervalPlan:
    """All decisions of one interval, what frees room before what takes it.

    ``at`` is the snapshot's instant; ``capacity_plan`` shows where the jobs were placed on trial.
    """

    interval_id: str
    at: float
    decisions: tuple[Decision, ...]
    capacity_plan: CapacityPlan = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Strategies:
    """The interchangeable parts of a decision.

    ``remainder_policy`` shares out the pieces that whole jobs leave; the policy itself by default.
    """

    policy: AllocationPolicy
    placement: PlacementRule
    forecast: ForecastFn = forecast_job
    remainder_policy: AllocationPolicy | None = None


@dataclass(frozen=True, slots=True)
class IntervalInput:
    """What an interval is planned on; progress and history by job UID, none without an entry."""

    snapshot: ClusterSnapshot
    progress: Mapping[str, TrainingProgress] = field(default_factory=lambda: MappingProxyType({}))
    history: Mapping[str, JobHistory] = field(default_factory=lambda: MappingProxyType({}))
