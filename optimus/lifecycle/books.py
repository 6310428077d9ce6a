"""The books of one job: what its moves have saved it, in seconds, against its user's own counts.

    saved = faster - stopped - redone
    faster = sum over runs of t (v / v_own - 1)

t is how long a run trained, v its speed and v_own the speed at the user's own counts: measured if
the job has run there, else predicted by its speed model. Both count examples where the batch
belongs to each worker. What a job gave to others counts against it; that it waited is not counted.
"""

from dataclasses import dataclass

from optimus.errors import NotReady
from optimus.jobs import Counts, Job
from optimus.lifecycle.record import JobRecord
from optimus.models.forecast import batch_rule, expected_speed
from optimus.progress.types import SpeedSample, TrainingProgress
from optimus.times import duration


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
        """By how much sooner the job is where it is; below 0: later."""
        return self.faster_seconds - self.stopped_seconds - self.redone_seconds

    @property
    def saved_fraction(self) -> float:
        """The same as a part of the time that the job would have trained untouched, from -1 on."""
        untouched = self.trained_seconds + self.faster_seconds
        return max(self.saved_seconds / untouched, -1.0) if untouched > 0 else 0.0

    def text(self) -> str:
        """``4 min 10 s sooner than at 2 PS + 3 workers``, and on what it rests where not measured."""
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
