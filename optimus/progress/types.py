"""What is known of one job's training at one instant: the values that models are fitted to."""

from dataclasses import dataclass
from typing import NamedTuple

from optimus.jobs import Counts


class LogLine(NamedTuple):
    """One line of a container's log; ``at`` is the kubelet's timestamp, seconds since the epoch,
    UTC."""

    at: float
    text: str


class RunLook(NamedTuple):
    """One incarnation of a job's pods, as it was when a log was read.

    ``node_kind`` is the kind of the nodes that its workers run on, written as in ``SpeedSample``;
    empty where they bear no such label, ``None`` where nobody looked. ``read_at`` is when the read
    began, by the reader's clock, which is not the kubelet's: seconds since the epoch, UTC.
    """

    name: str
    node_kind: str | None = None
    read_at: float | None = None


@dataclass(frozen=True, slots=True)
class LossPoint:
    """One value of the training loss.

    ``epoch`` counts completed epochs from the start of training (2.5: in the middle of the third),
    ``step`` the job's global steps; each is ``None`` where the log does not tell. A point covers
    the training right before it, so that 3.0 belongs to the third epoch. ``weight`` is how much
    training its loss is the mean of, in steps or batches as the log counts, 1 where that is
    unknown: means over an epoch are weighted by it. ``learning_rate`` is that of the point where
    the log tells it."""

    loss: float
    epoch: float | None = None
    step: int | None = None
    weight: float = 1.0
    learning_rate: float | None = None


@dataclass(frozen=True, slots=True)
class SpeedSample:
    """The job's measured speed at given counts.

    ``steps_per_second`` is the whole job's: the workers' common rate in sync training, the sum over
    workers in async training. ``seconds`` of steady training stand behind it; ``at`` is when it
    ended, seconds since the epoch, UTC. ``node_kind`` is the kind of the nodes that its workers ran
    on, where it is known; where they ran on several it is written as
    ``models.speed_kinds.mixed_kind`` does."""

    counts: Counts
    steps_per_second: float
    seconds: float
    at: float
    node_kind: str = ""


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """The progress of one job, as far as its log tells.

    ``losses`` are in training order, without what a restore from a checkpoint undid. ``epoch`` and
    ``step`` are the latest ones. ``checkpoint_step`` is the step of the last checkpoint known to be
    complete, and
    ``checkpoint_at`` when the log said so; it is younger than ``checkpoint_since``, which is by the
    reader's clock.
    ``trained_seconds`` sums the steady training seen so far.
    ``complaint`` is a sentence for the user where the log cannot be used as it is. ``node_kind`` is
    the kind of the nodes that its workers run on now, or did last; ``None`` where nobody looked.
    """

    losses: tuple[LossPoint, ...] = ()
    epoch: float | None = None
    step: int | None = None
    steps_per_epoch: float | None = None
    samples: tuple[SpeedSample, ...] = ()
    checkpoint_step: int | None = None
    checkpoint_at: float | None = None
    checkpoint_since: float | None = None
    trained_seconds: float = 0.0
    complaint: str | None = None
    node_kind: str | None = None


NOTHING = TrainingProgress()
