"""The books: what a job's moves have saved it, against its user's own counts. And their brake.

    saved = faster - stopped - redone
    faster = sum over runs of t (v / v_own - 1)

t is how long a run trained, v its speed and v_own the speed at the user's own counts: measured if
the job has run there, else predicted by its speed model. Both count examples where the batch
belongs to each worker. What a job gave to others counts against it; that it waited is not counted.

The brake ends moves where the last ``LAST_JOBS`` jobs that were moved and have ended were later
than untouched on average, by more than ``MOST_LOST``. An observation is a job's
``Books.saved_fraction``, which is between -1 and 1.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from optimus.errors import NotReady
from optimus.jobs import Counts, Job
from optimus.lifecycle.record import JobRecord
from optimus.models.forecast import batch_rule, expected_speed
from optimus.progress.types import SpeedSample, TrainingProgress
from optimus.times import duration

LAST_JOBS: Final = 20
"""So many jobs of a namespace, or of a workload, that ended last count."""

MOST_LOST: Final = 0.05
"""Jobs may end later by so much, as noise explains it."""

LEAST_NAMESPACES: Final = 3
"""So many are braked where the jobs of all are."""


@dataclass(frozen=True, slots=True)
class Books:
    """``own`` are the counts that the job is compared with; ``is_predicted``: its speed there was
    never measured. ``trained_seconds`` is all its training."""

    own: Counts
    trained_seconds: float = 0.0
    faster_seconds: float = 0.0
    stopped_seconds: float = 0.0
    redone_seconds: float = 0.0
    is_predicted: bool = False

    @property
    def saved_seconds(self) -> float:
        """Return by how much sooner the job is where it is; below 0: later."""
        return self.faster_seconds - self.stopped_seconds - self.redone_seconds

    @property
    def saved_fraction(self) -> float:
        """The same as a part of the time that the job would have trained untouched, from -1 on."""
        untouched = self.trained_seconds + self.faster_seconds
        return max(self.saved_seconds / untouched, -1.0) if untouched > 0 else 0.0

    def text(self) -> str:
        """``4 min 10 s sooner than at 2 PS + 3 workers``, and its basis where not measured."""
        saved, basis = round(self.saved_seconds), ", by its predicted speed there"
        amount = f"{duration(abs(saved))} {'sooner' if saved > 0 else 'later'} than"
        than = "as soon as" if not saved else amount
        return f"{than} at {self.own}{basis if self.is_predicted else ''}"


def books_of(job: Job, record: JobRecord, progress: TrainingProgress) -> Books | None:
    """The books of a job; ``None`` where its own counts are unknown, or nothing tells its speed."""
    own, samples = record.user_counts, progress.samples
    if own is None or not samples:
        return None
    per_worker, _ = batch_rule(job, progress)

    def rate(counts: Counts, steps_per_second: float) -> float:
        return steps_per_second * (counts.workers if per_worker else 1)

    measured = [each for each in samples if each.counts == own]
    away = [each for each in samples if each.counts != own]
    own_rate = rate(own, _speed(measured)) if measured else 0.0
    if not measured:
        model = expected_speed(job, progress)
        if isinstance(model, NotReady):
            return None
        own_rate = rate(own, float(model.steps_per_second(*own)))
    if own_rate <= 0:
        return None
    faster = sum(
        each.seconds * (rate(each.counts, each.steps_per_second) / own_rate - 1) for each in away
    )
    return Books(
        own,
        sum(each.seconds for each in samples),
        faster,
        record.stopped_seconds,
        record.redone_seconds,
        is_predicted=not measured,
    )


def _speed(samples: list[SpeedSample]) -> float:
    """The mean speed over all of them."""
    seconds = sum(each.seconds for each in samples)
    steps = sum(each.seconds * each.steps_per_second for each in samples)
    return steps / seconds if seconds > 0 else 0.0


class EndedJob(NamedTuple):
    """A job that was moved and has ended."""

    ended_at: str
    """An instant that sorts."""

    uid: str
    namespace: str
    workload: str | None
    saved_fraction: float


@dataclass(frozen=True, slots=True)
class Brake:
    """Why jobs are not moved any more: all, those of a namespace, or of one of its workloads."""

    every: str = ""
    namespaces: Mapping[str, str] = field(default_factory=dict)
    workloads: Mapping[tuple[str, str | None], str] = field(default_factory=dict)

    def why(self, namespace: str, workload: str | None) -> str:
        """Return why a job of this workload is not moved; empty where it is."""
        of_namespace = self.namespaces.get(namespace, "")
        return self.every or of_namespace or self.workloads.get((namespace, workload), "")


def brake_of(ended: Iterable[EndedJob]) -> Brake:
    """Return what the books of ended jobs say.

    Jobs print what they like, so that a namespace's books end its own moves alone. Those of all end
    where three namespaces and more are braked, and most of those that have books."""
    namespaces = defaultdict[str, list[float]](list)
    workloads = defaultdict[tuple[str, str | None], list[float]](list)
    for each in sorted(ended):
        namespaces[each.namespace].append(each.saved_fraction)
        if each.workload:
            workloads[each.namespace, each.workload].append(each.saved_fraction)
    braked = {name: _why(found, "jobs of its namespace") for name, found in namespaces.items()}
    braked = {name: why for name, why in braked.items() if why}
    is_common = len(braked) >= LEAST_NAMESPACES and len(braked) > len(namespaces) / 2
    every = (
        f"moved jobs of {len(braked)} of {len(namespaces)} namespaces ended later than untouched"
    )
    whys = {key: _why(found, "jobs of its workload") for key, found in workloads.items()}
    return Brake(every if is_common else "", braked, {key: why for key, why in whys.items() if why})


def _why(fractions: list[float], of: str) -> str:
    last = fractions[-LAST_JOBS:]
    mean = sum(max(each, -1.0) for each in last) / len(last)
    if len(last) < LAST_JOBS or mean > -MOST_LOST:
        return ""
    return f"the last {LAST_JOBS} moved {of} ended {-mean:.0%} later than untouched on average"
