"""The record of one job: its rescales and profiling runs, what it received and what it cost.

The autoscaler keeps it in the job's profile, the simulator beside the job. Each function returns
the record after something has happened. Instants are in seconds since the epoch (of the
simulation), UTC.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from optimus.allocation import FailedCounts, PlacementFailure
from optimus.allocation.policy import Service
from optimus.jobs import Binding, Counts, Job
from optimus.progress.types import RunStart

_MOST_FAILED: Final = 16

STOPS_NEEDED: Final = 2
"""So many stops in a row show that a job saves when it is stopped, or that it does not. One can
fall on a checkpoint that the log did not show in time."""


class Avoided(NamedTuple):
    """A node that the job avoids until an instant, since a worker was slow there."""

    node: str
    until: float


@dataclass(frozen=True, slots=True)
class JobRecord:
    """The record of one job."""

    rescales: int = 0
    last_rescaled_at: float | None = None
    prices: tuple[float, ...] = ()
    """Seconds for which its last rescales kept it from training, oldest first."""

    starts: tuple[float, ...] = ()
    """Seconds from the placement of its pods until all ran, of its last rescales, oldest first."""

    moves: tuple[float, ...] = ()
    """Instants of its last rescales, oldest first, without forced ones."""

    profiled: tuple[Counts, ...] = ()
    """The counts to which it was moved to be measured, the current run included."""

    profiling_since: float | None = None
    """When the current profiling run reached its counts; ``measured_at``: when the last did."""

    measured_at: float | None = None
    own_counts: Counts | None = None
    """The counts before its profiling runs: its user's, or an interval's."""

    saved_stops: int = 0
    """How often in a row it went on after a stop from what it had saved when it was stopped."""

    distrusted_at: float | None = None
    """When a stop last ended the trust that it saves then."""

    lost_stops: int = 0
    """How often in a row a stop lost training."""

    checkpoint_missed: bool = False
    """A rescale was withdrawn since no checkpoint came."""

    placement_failures: tuple[PlacementFailure, ...] = ()
    """Targets that were not placed in time, oldest first."""

    failed_counts: tuple[FailedCounts, ...] = ()
    """Targets at which its containers ended with an error, oldest first."""

    floor: Counts | None = None
    """The least PSs, and the least workers, that its user has asked for or at which it trained."""

    user_counts: Counts | None = None
    """The counts that its user set last: those that no rescale has set."""

    rescaled_counts: tuple[Counts, ...] = ()
    """The counts before and after the last rescale."""

    replacements: tuple[float, ...] = ()
    """Instants of its last restarts since a worker was slow, oldest first."""

    avoided: tuple[Avoided, ...] = ()

    gang_uids: tuple[str, ...] = ()
    """The UIDs of some pods of a gang of which all had a node."""

    ran_since: float | None = None
    """Of a job that ran already when it was first seen: since when, as far as its status shows."""

    suspended_at_target: bool = False
    """True where this software suspended it at its goal."""

    differs: str = ""
    """In what it differs from earlier runs of its workload, which are not its prior any more."""

    shared: int = 0
    """How much of its run its workload's profile has (``lifecycle.workloads.Shared``)."""

    began_at: float | None = None
    """When all its pods had nodes for the first time; ``ended_at``: when it succeeded or failed."""

    ended_at: float | None = None
    received_seconds: float = 0.0
    """For which it held nodes with all its pods, up to the last stop."""

    received: Mapping[str, float] = field(default_factory=dict)
    """The same on each kind of nodes, divided by its workers where they are on several."""

    served_since: float | None = None
    """When it was placed on the nodes that it holds; ``None`` while it is stopped."""

    served_on: Mapping[str, int] = field(default_factory=dict)
    """How many workers it had there on each kind of nodes."""

    binding: Binding | None = None
    """The kind of nodes that its workers are held to; ``None``: any."""

    remembered: Mapping[str, Any] = field(default_factory=dict)
    """What the policy remembers of it (``PolicyMemory``, as plain data)."""

    turns: tuple[float, ...] = ()
    """Instants at which it was last paused or moved for a turn, oldest first."""

    pauses: int = 0
    stopped_seconds: float = 0.0
    """For which rescales kept it from training, as far as that was seen."""

    redone_seconds: float = 0.0
    """Training that their stops lost, and that it did again."""


def profiling_began(record: JobRecord, counts: Counts, own_counts: Counts | None) -> JobRecord:
    """The job is moved to these counts to be measured; ``own_counts`` are those to return to."""
    return replace(record, profiled=(*record.profiled, counts), own_counts=own_counts)


def not_profiled(record: JobRecord, counts: Counts) -> JobRecord:
    """The job was not moved to these counts, though it was to be measured there."""
    profiled = list(record.profiled)
    if counts in profiled:
        profiled.remove(counts)
    return replace(record, profiled=tuple(profiled))


def counts_failed(record: JobRecord, failed: FailedCounts) -> JobRecord:
    """The job's containers end with an error at some counts."""
    return replace(record, failed_counts=(*record.failed_counts, failed)[-_MOST_FAILED:])


def went_on(record: JobRecord, start: RunStart, said: bool | None, at: float) -> JobRecord:
    """The job trains again after a stop of this software; ``said`` is what its user says of
    those."""
    after = record
    if start.lost:
        after = replace(record, saved_stops=0, lost_stops=min(record.lost_stops + 1, STOPS_NEEDED))
    elif start.saved:
        after = replace(record, saved_stops=min(record.saved_stops + 1, STOPS_NEEDED), lost_stops=0)
    if saves_on_stop(record, said) and not saves_on_stop(after, said):
        return replace(after, distrusted_at=at)
    return after


def saves_on_stop(record: JobRecord, said: bool | None) -> bool:
    """Return whether a job is trusted to save when it is stopped; ``said`` is what its user
    says."""
    if said is None:
        return record.saved_stops >= STOPS_NEEDED
    return said and record.lost_stops < STOPS_NEEDED


def saving_text(
    record: JobRecord, said: bool | None, format_instant: Callable[[float], str]
) -> str:
    """Return why the job is trusted to save when it is stopped, or not any more; empty where it
    never was."""
    if saves_on_stop(record, said):
        why = "its user says so" if said else "two stops in a row lost no training"
        return f"yes: {why}"
    since = record.distrusted_at
    if since is None or said is False:
        return ""
    return f"not any more: a stop lost training at {format_instant(since)}"


def service_began(record: JobRecord, at: float, workers: Mapping[str, int]) -> JobRecord:
    """All pods of the job have nodes; ``workers`` are on each kind of them."""
    began_at = at if record.began_at is None else record.began_at
    return replace(record, served_since=at, served_on=dict(workers), began_at=began_at)


def service_ended(record: JobRecord, at: float) -> JobRecord:
    """The job does not hold its nodes any more."""
    if record.served_since is None:
        return record
    received = received_until(record, at)
    return replace(
        record,
        received_seconds=received.seconds,
        received=dict(received.by_kind),
        served_since=None,
        served_on={},
    )


def received_until(record: JobRecord, at: float) -> Service:
    """Return what the job has received up to an instant."""
    since, workers = record.served_since, record.served_on
    seconds = 0.0 if since is None else max(at - since, 0.0)
    if not seconds:
        return Service(record.received_seconds, record.received)
    by_kind, count = dict(record.received), sum(workers.values())
    for kind, here in workers.items():
        by_kind[kind] = by_kind.get(kind, 0.0) + seconds * here / count
    return Service(record.received_seconds + seconds, by_kind)


def recorded_history(record: JobRecord, job: Job) -> dict[str, Any]:
    """The fields of ``JobHistory`` that the job's record alone tells."""
    floor = record.floor
    if floor is not None and not job.splits_batch:
        floor = floor._replace(workers=1)
    return {
        "rescales": record.rescales,
        "moves": record.moves,
        "turns": record.turns,
        "prices": record.prices,
        "last_rescaled_at": record.last_rescaled_at,
        "profiling_since": record.profiling_since,
        "profiled": record.profiled,
        "placement_failures": record.placement_failures,
        "own_counts": record.own_counts if job.counts in record.profiled else None,
        "suspended_at_target": record.suspended_at_target,
        "measured_at": record.measured_at,
        "failed_counts": record.failed_counts,
        "floor": floor,
        "user_counts": record.user_counts,
        "saves_on_stop": saves_on_stop(record, job.saves_on_stop),
    }
