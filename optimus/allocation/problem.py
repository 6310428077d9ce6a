"""An allocation problem and its answer (Optimus, section 4.1)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus.allocation.placement_failures import PlacementFailures
from optimus.jobs import Counts, Job
from optimus.resources import NONE, Resources


class Forecast(Protocol):
    """A job's remaining seconds at any counts: what a policy knows of its future.

    A class of forecasts that share a form may offer ``stacked`` as well (module ``seconds``), which
    answers for many jobs at once.
    """

    def remaining_seconds(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """Remaining seconds at each pair of counts (arrays broadcast); infinite where the speed is
        zero."""
        ...

    def at(self, counts: Counts) -> float:
        """Remaining seconds at these counts."""
        ...


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job whose counts the policy chooses. ``forecast`` gives its remaining seconds at any
    counts.

    ``may_grow`` is false for a job that has met its goal: it gives room down to its minimum.
    ``running`` jobs get their minimum before jobs that have never been placed. ``holds`` are counts
    that it is not to get less than, where they are more than its minimum.
    """

    job: Job
    forecast: Forecast
    may_grow: bool = True
    running: bool = False
    holds: Counts | None = None

    @property
    def least(self) -> Counts:
        """The counts with which the policy begins."""
        return self.holds or self.job.bounds.minimum


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHistory:
    """What was done to one job before this decision, as its profile records it. Instants are UTC,
    in seconds.

    ``rescaling_to`` are the target counts of a rescale that is under way (0 + 0: it is being
    suspended for good).
    ``profiling_since`` is when the profiling run that is under way reached its counts, ``profiled``
    the counts of all profiling runs so far, the present one included. ``suspended_at_target`` tells
    our own suspension of a job that met its goal from its user's. ``workload_known``: another job
    of its workload was measured.
    ``measures``: the rescale under way is a profiling run's. ``setbacks`` are counts at which its
    pods found no place although they should have, oldest first. ``own_counts`` are those that a job
    had before it was moved to be measured, while it has not been moved for another reason since.
    ``awaits_checkpoint``: one was waited for in vain, so that the job is not moved before the next.
    ``measured_at`` is when its last profiling run reached its counts. ``forecast_awaited``: an
    interval left it there, profiled and without a forecast (``Decision.awaits_forecast``).
    """

    rescales: int = 0
    last_rescaled_at: float | None = None
    rescaling_to: Counts | None = None
    profiling_since: float | None = None
    profiled: tuple[Counts, ...] = ()
    suspended_at_target: bool = False
    workload_known: bool = False
    measures: bool = False
    setbacks: PlacementFailures = ()
    own_counts: Counts | None = None
    awaits_checkpoint: bool = False
    measured_at: float | None = None
    forecast_awaited: bool = False


NO_HISTORY = JobHistory()


@dataclass(frozen=True, slots=True)
class AllocationProblem:
    """One decision over all candidates.

    ``room`` is what the candidates may use together: the cluster's capacity less everything that is
    fixed (other pods, jobs that are not managed or not forecast). ``capacity`` is the whole
    cluster's, for shares.
    ``servers`` says how the room lies: what is free on a node, and on how many nodes it is just
    that. Where it is not given, a task is taken to fit wherever the sum of the room allows it.
    ``kept_back`` is left of the room when jobs grow beyond their minimum.
    """

    room: Resources
    capacity: Resources
    candidates: tuple[Candidate, ...]
    servers: Mapping[Resources, int] | None = None
    kept_back: Resources = NONE


@dataclass(frozen=True, slots=True)
class Allocation:
    """Counts by job UID; a job without an entry does not fit even at its minimum. ``reasons`` are
    sentences."""

    counts: Mapping[str, Counts] = field(default_factory=lambda: MappingProxyType({}))
    reasons: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


class AllocationPolicy(Protocol):
    """A rule that allocates."""

    @property
    def name(self) -> str:
        """Its name in the literature, which is the value of ``--policy``."""
        ...

    def allocate(self, problem: AllocationProblem) -> Allocation:
        """Choose counts within each job's bounds, together within ``problem.room``."""
        ...
