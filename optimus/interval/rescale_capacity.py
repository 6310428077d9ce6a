"""The capacity that is kept for rescales in progress, beyond that of their pods."""

from collections.abc import Iterable, Iterator

from optimus.interval.capacity_plan import Claim
from optimus.jobs import NO_COUNTS, Job
from optimus.rescale.machine import Rescale
from optimus.rescale.words import Step, covers
from optimus.snapshot import ClusterSnapshot


def claims_of(
    rescales: Iterable[tuple[Job, Rescale | None]],
    snapshot: ClusterSnapshot,
    at: float,
    hold_seconds: float,
) -> Iterator[Claim]:
    """What is kept for each job that goes to counts of which not all pods are bound.
    ``hold_seconds``: how long a stopped job keeps what it lacks in one step."""
    for job, rescale in rescales:
        if rescale is None:
            continue
        record = rescale.record
        target = record.current_target
        if target == NO_COUNTS or covers(snapshot.bound_counts(job.uid), target):
            continue
        is_held = record.holds_capacity and at - record.step_at < hold_seconds
        keeps_pods = record.in_place or record.step is Step.START
        is_stopped = is_held and not record.in_place
        yield Claim(job, target, keeps_pods=keeps_pods, is_stopped=is_stopped)
