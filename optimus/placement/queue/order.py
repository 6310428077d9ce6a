"""The order in which waiting gangs are placed.

Gangs of a higher priority come first. Among equals Optimus, section 4.2, places jobs in ascending
demand, small ones first. Two additions: a job that has run before comes before one that has not, so
that a rescale does not cost it its place; a gang that has waited past the age limit comes before
all that have not run, the oldest first, so that small gangs that keep arriving cannot starve a
large one.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from optimus.placement.gang import Gang
from optimus.resources import Resources

SYSTEM_CRITICAL_PRIORITY = 2_000_000_000
"""From here on a priority belongs to what a node or the cluster cannot do without."""

AGE_LIMIT_SECONDS = 600.0
"""A job waits at most one scheduling interval behind smaller ones that came later."""


class Instant(NamedTuple):
    """One instant on both clocks, in seconds: one times what is reserved, the other ages pods."""

    monotonic: float
    epoch: float


@dataclass(frozen=True, slots=True)
class WaitingGang:
    """A gang that waits to be placed."""

    job_uid: str
    demand: Resources
    since: float
    """When the wait began, in seconds."""

    ran_before: bool = False
    """Whether its job has ever been placed."""

    priority: int = 0
    """The lowest priority of its pods: with the gang all of them are placed."""

    in_part: bool = False
    """Whether a part of it has nodes, and holds them for nothing meanwhile."""

    def waited_seconds(self, now: float) -> float:
        """Return how long the gang has waited."""
        return max(now - self.since, 0.0)


class QueueEntry(Protocol):
    """A gang in the queue, with what decides on its place."""

    @property
    def gang(self) -> Gang:
        """Its replicas."""
        ...

    @property
    def waiting(self) -> WaitingGang:
        """Return what decides on its place in the queue."""
        ...


OrderKey = tuple[int, int, float, float, str]


def order_key(
    gang: WaitingGang, capacity: Resources, now: float, age_limit_seconds: float
) -> OrderKey:
    """Sorts what is placed first to the front; UIDs break ties, so the order is total."""
    _, share = gang.demand.dominant(capacity)
    if gang.ran_before:
        return -gang.priority, 0, gang.since, share, gang.job_uid
    if now - gang.since > age_limit_seconds:
        return -gang.priority, 1, gang.since, share, gang.job_uid
    return -gang.priority, 2, share, gang.since, gang.job_uid
