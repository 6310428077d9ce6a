"""What an interval decides, in the words that users read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from optimus.allocation import AllocationPolicy, JobHistory
from optimus.jobs import Counts, JobKey
from optimus.models.forecast import ForecastFn, forecast_job
from optimus.placement.gang import PlacementRule
from optimus.progress.types import TrainingProgress
from optimus.snapshot import ClusterSnapshot


class Action(StrEnum):
    """What becomes of a job's counts. ``change`` is more of one role and fewer of the other."""

    SUSPEND = "suspend"
    SHRINK = "shrink"
    CHANGE = "change"
    KEEP = "keep"
    WAIT = "wait"
    GROW = "grow"


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
    """All decisions of one interval, what frees room before what takes it. ``at`` is the snapshot's
    instant."""

    interval_id: str
    at: float
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True)
class Strategies:
    """The interchangeable parts of a decision."""

    policy: AllocationPolicy
    placement: PlacementRule
    forecast: ForecastFn = forecast_job


def action_between(current: Counts, counts: Counts) -> Action:
    """What going from one pair of counts to the other is called."""
    if counts == current:
        return Action.KEEP
    if counts.ps >= current.ps and counts.workers >= current.workers:
        return Action.GROW
    if counts.ps <= current.ps and counts.workers <= current.workers:
        return Action.SHRINK
    return Action.CHANGE


@dataclass(frozen=True, slots=True)
class IntervalInput:
    """What an interval is planned on. ``progress`` and ``history`` are by job UID; a job without an
    entry has none."""

    snapshot: ClusterSnapshot
    progress: Mapping[str, TrainingProgress] = field(default_factory=lambda: MappingProxyType({}))
    history: Mapping[str, JobHistory] = field(default_factory=lambda: MappingProxyType({}))
