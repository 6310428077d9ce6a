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

    ``may_grow`` is false for a job that has met its goal: it gives room down to its minimum.
    """

    job: Job
    forecast: JobForecast
    may_grow: bool = True


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

    name: str

    def allocate(self, problem: AllocationProblem) -> Allocation:
        """Choose counts within each job's bounds, together within ``problem.room``."""
        ...
