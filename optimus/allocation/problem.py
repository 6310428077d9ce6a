"""An allocation problem and its answer (Optimus, section 4.1)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from optimus.allocation.placement_failures import PlacementFailures
from optimus.jobs import Counts, Job
from optimus.models.forecast import Forecast
from optimus.resources import NONE, Resources


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job whose counts the policy chooses.

    ``running`` jobs get their minimum before jobs that have never been placed. ``holds`` are counts
    that it is not to get less than, where they are more than its minimum.
    """

    job: Job
    forecast: Forecast
    running: bool = False
    holds: Counts | None = None

    @property
    def may_grow(self) -> bool:
        """A job that has met its goal does not grow, and gives room down to its minimum."""
        return not self.forecast.goal_met

    @property
    def least(self) -> Counts:
        """The counts with which the policy begins."""
        return self.holds or self.job.bounds.minimum


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHistory:
    """What was done to one job before this decision, as its profile records it.

    Instants are in seconds since the epoch, UTC."""

    rescales: int = 0
    last_rescaled_at: float | None = None
    rescaling_to: Counts | None = None
    """Target of a rescale that is under way; 0 + 0: it is being suspended for good."""
    profiling_since: float | None = None
    """When the profiling run under way reached its counts."""
    profiled: tuple[Counts, ...] = ()
    """Counts of all profiling runs so far, the one under way included."""
    suspended_at_target: bool = False
    """Suspended by this software as it met its goal, not by its user."""
    workload_known: bool = False
    """Another job of its workload was measured."""
    measures: bool = False
    """The rescale under way is a profiling run's."""
    placement_failures: PlacementFailures = ()
    """Counts at which its pods found no place although they should have, oldest first."""
    own_counts: Counts | None = None
    """Counts before it was moved to be measured, while nothing else has moved it since."""
    awaits_checkpoint: bool = False
    """A checkpoint was waited for in vain: the job is not moved before the next."""
    measured_at: float | None = None
    """When its last profiling run reached its counts."""
    forecast_awaited: bool = False
    """An interval left it, profiled and without a forecast (``Decision.awaits_forecast``)."""


NO_HISTORY = JobHistory()


@dataclass(frozen=True, slots=True)
class AllocationProblem:
    """One decision over all candidates.

    ``room`` is what the candidates may use together: the cluster's capacity less everything that is
    fixed (other pods, jobs that are not managed or not forecast). ``capacity`` is the whole
    cluster's, for shares.
    ``servers`` says how the room lies: what is free on a node, and on how many nodes it is just
    that. Where it is not given, a task is taken to fit wherever the sum of the room allows it.
    ``reserve`` is left of the room when jobs grow beyond their minimum.
    """

    room: Resources
    capacity: Resources
    candidates: tuple[Candidate, ...]
    servers: Mapping[Resources, int] | None = None
    reserve: Resources = NONE


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
