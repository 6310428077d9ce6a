"""The question that an allocation policy answers: how many PSs and workers does each job get?

Optimus, section 4.1. No nodes in it: a policy sees how much room there is in all, placement decides where.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from scheduling.jobs import Counts, Job
from scheduling.models.forecast import JobForecast
from scheduling.resources import Resources


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job whose counts the policy chooses. ``forecast`` gives its remaining seconds at any counts.

    ``may_grow`` is false for a job that has met its goal: it gives room down to its minimum. ``running`` jobs get
    their minimum before jobs that have never been placed.
    """

    job: Job
    forecast: JobForecast
    may_grow: bool = True
    running: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHistory:
    """What was done to one job before this decision, as its profile records it. Instants are UTC, in seconds.

    ``rescaling_to`` are the target counts of a rescale that is under way (0 + 0: it is being suspended for good).
    ``profiling_since`` is when the profiling run that is under way reached its counts, ``profiled`` the counts of all
    profiling runs so far, the present one included. ``suspended_at_target`` tells our own suspension of a job that
    met its goal from its user's. ``workload_known``: another job of its workload was measured.
    ``unplaceable`` are targets of which the pods found no place although they should have: they are not tried again.
    """

    rescales: int = 0
    last_rescaled_at: float | None = None
    rescaling_to: Counts | None = None
    profiling_since: float | None = None
    profiled: tuple[Counts, ...] = ()
    suspended_at_target: bool = False
    workload_known: bool = False
    unplaceable: tuple[Counts, ...] = ()


NO_HISTORY = JobHistory()


@dataclass(frozen=True, slots=True)
class AllocationProblem:
    """One decision over all candidates.

    ``room`` is what the candidates may use together: the cluster's capacity less everything that is fixed
    (other pods, jobs that are not managed or not forecast). ``capacity`` is the whole cluster's, for shares.
    """

    room: Resources
    capacity: Resources
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Allocation:
    """Counts by job UID; a job without an entry does not fit even at its minimum. ``reasons`` are sentences."""

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


@dataclass(frozen=True, slots=True)
class Start:
    """Every candidate at its minimum: where each policy begins.

    ``seated`` are the candidates whose minimum fits, in the order in which they were seated; ``counts`` their
    minimum by UID; ``room`` what is left; ``reasons`` say by UID why a candidate was not seated.
    """

    seated: tuple[Candidate, ...]
    counts: Mapping[str, Counts]
    room: Resources
    reasons: Mapping[str, str]


def start_at_minimum(problem: AllocationProblem) -> Start:
    """Seat running jobs first, then by ascending demand, each at its minimum where that fits (Optimus, section 4.1)."""
    seated: list[Candidate] = []
    reasons: dict[str, str] = {}
    room = problem.room
    for candidate in sorted(problem.candidates, key=lambda each: _seating_order(each, problem.capacity)):
        job = candidate.job
        demand = job.demand(job.bounds.minimum)
        if demand.fits_in(room):
            room = room - demand
            seated.append(candidate)
        else:
            lacking = ", ".join(demand.lacking_in(room))
            reasons[job.uid] = f"its minimum of {job.bounds.minimum} does not fit: too little {lacking} is left"
    return Start(tuple(seated), {each.job.uid: each.job.bounds.minimum for each in seated}, room, reasons)


def _seating_order(candidate: Candidate, capacity: Resources) -> tuple[bool, float, str]:
    job = candidate.job
    return not candidate.running, job.demand(job.bounds.minimum).dominant(capacity)[1], job.uid
