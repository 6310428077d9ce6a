"""What is known of one job's training at one instant: the values that models are fitted to."""

import re
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Self

from optimus.jobs import Counts, Goal

_OF_WHOLE: Final = re.compile(r"acc|top-?_?\d|precision|recall|auc|f1|iou|map\b", re.IGNORECASE)


class LogLine(NamedTuple):
    """One line of a container's log."""

    at: float
    """The kubelet's timestamp, seconds since the epoch, UTC."""
    text: str


class LogRead(NamedTuple):
    """What one read of a container's log returned."""

    lines: list[LogLine]
    truncated: bool = False
    """Whether it ended at its limit: there are newer lines."""
    skipped: bool = False
    """Whether lines since the last read, before these, were passed over."""


class PodRun(NamedTuple):
    """One incarnation of a job's pods, as it was when a log was read."""

    name: str
    node_kind: str | None = None
    """The kind of its workers' nodes, written as in ``SpeedSample``; empty where they have no such
    label, ``None`` where it was not determined."""
    read_at: float | None = None
    """When the read began by the reader's clock (not the kubelet's), seconds since the epoch."""
    truncated: bool = False
    """Whether the read ended at its limit: the log goes on after the lines that it returned."""
    skipped: bool = False
    """Whether lines before those that the read returned were passed over."""
    servers: int = 0
    """On how many nodes its workers are; 0: not known."""


@dataclass(frozen=True, slots=True)
class LossPoint:
    """One value of the training loss; it covers the training right before it."""

    loss: float
    epoch: float | None = None
    """Completed epochs since the start of training (2.5: in the middle of the third, 3.0: its end);
    ``None`` where the log does not say."""
    step: int | None = None
    """The job's global steps."""
    weight: float = 1.0
    """How much training the loss is the mean of, in steps or batches as the log counts; 1 where
    unknown. Means over an epoch are weighted by it."""
    learning_rate: float | None = None


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """One metric of the log: an accuracy, an error rate, the loss of an evaluation."""

    name: str
    """As the log prints it."""
    evaluated: bool
    """Whether it comes from an evaluation and not from the training."""
    rises: bool | None
    """Whether better values are larger; ``None`` where the name does not say."""
    points: tuple[LossPoint, ...] = ()
    """Its values (as ``loss``) in training order, mostly one for each epoch."""

    @property
    def is_part(self) -> bool:
        """Whether it is a part of a whole, which one log prints as others: all in percent or none.

        Accuracies and the like are, and neither BLEU nor a reward."""
        return self.rises is True and _OF_WHOLE.search(self.name) is not None

    @property
    def is_percent(self) -> bool:
        """Whether a rising metric is printed in percent, and not as a part of 1."""
        return self.rises is True and any(point.loss > 1.5 for point in self.points)


@dataclass(frozen=True, slots=True)
class SpeedSample:
    """The job's measured speed at given counts."""

    counts: Counts
    steps_per_second: float
    """The whole job's: the workers' common rate in sync training, their sum in async training."""
    seconds: float
    """How much steady training was measured."""
    at: float
    """When the measurement ended, seconds since the epoch, UTC."""
    node_kind: str = ""
    """The kind of its workers' nodes where it is known; several as ``mixed_kind`` of
    ``models.speed.curve`` writes them."""
    servers: int = 0
    """On how many nodes its workers ran; 0: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """What one job of a workload has shown, for the later jobs of that workload."""

    uid: str
    """The job's."""
    job: str
    """The job's name, for people."""
    at: float
    """When this was learned, seconds since the epoch, UTC."""
    conditions: str
    """What has to be the same for the samples to hold for another job, as
    ``models.earlier_runs.conditions_of`` writes it."""
    samples: tuple[SpeedSample, ...] = ()
    """One for each pair of counts and kind of nodes."""
    in_epochs: bool = True
    places: tuple[float, ...] = ()
    """The epochs (steps) done at each of ``losses``; none for a job that has not succeeded."""
    losses: tuple[float, ...] = ()
    """The mean loss of each epoch, or of stretches of training."""
    every_epoch: bool = False
    """Whether ``losses`` has each epoch's mean."""
    goal: Goal | None = None
    met_at: float | None = None
    """After how many epochs (steps) its own goal was met."""
    steps_per_epoch: float | None = None
    """The steps of one worker where each has a batch of its own, else of the job."""
    differed: bool = False
    """It was found to differ from the runs before it, which do not count any more."""


@dataclass(frozen=True, slots=True)
class RunLengths:
    """After how much training the ended jobs of a namespace, or of the cluster, met their goals."""

    epochs: tuple[float, ...] = ()
    steps: tuple[float, ...] = ()
    """Of jobs that count no epochs."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What a program says of the whole run, mostly at its top; ``None`` where it does not."""

    epochs: int | None = None
    """The epochs after which the run ends."""
    steps: int | None = None
    """Likewise, in the job's global steps."""
    batch: int | None = None
    """Examples in a batch of the process that prints."""
    learning_rate: float | None = None
    schedule: str | None = None
    """``step``, ``cosine``, ``linear``, ``poly``, ``constant`` or ``exponential``."""
    drops: tuple[float, ...] = ()
    """After these epochs the learning rate is multiplied by ``drop_factor``."""
    drop_factor: float | None = None
    warmup_epochs: float | None = None
    warmup_steps: float | None = None
    warmup_fraction: float | None = None
    """The part of all steps in which the learning rate rises."""

    def updated(self, later: Self) -> Self:
        """These with what a later line says; one that names a schedule replaces the whole of it."""
        said = {
            name: value
            for name in self.__slots__
            if (value := getattr(later, name)) or (later.schedule and name in _OF_SCHEDULE)
        }
        return replace(self, **said)


_OF_SCHEDULE: Final = ("drops", "drop_factor", "warmup_epochs", "warmup_steps", "warmup_fraction")
NOTHING_DECLARED: Final = Declared()


@dataclass(frozen=True, slots=True)
class RunStart:
    """Where a run went on, compared with where the run before it had stopped."""

    run: str
    lost_steps: int
    """Steps that the run before had printed and this one did again; at most one is no loss."""
    at_risk: int
    """Steps that the run before had printed since its last known checkpoint; 0 where only its last
    line came after it, or another checkpoint was due."""

    unloaded_step: int | None = None
    """The step of the checkpoint before whose first forerunner it began: none was loaded."""

    @property
    def lost(self) -> bool:
        """Whether training was lost. A line's step is the last one done, or the next one."""
        return self.lost_steps > 1

    @property
    def saved(self) -> bool:
        """Whether it went on from something that was saved after the last known checkpoint."""
        return not self.lost and self.at_risk > 0


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """The progress of one job, as far as its log shows it."""

    losses: tuple[LossPoint, ...] = ()
    """In training order, without what a restore from a checkpoint undid."""
    epoch: float | None = None
    step: int | None = None
    steps_per_epoch: float | None = None
    """The job's steps in an epoch, where its log counts steps or the job says it."""
    samples: tuple[SpeedSample, ...] = ()
    checkpoint_step: int | None = None
    """The step of the last checkpoint known to be complete, with the log line's timestamp
    (``checkpoint_at``) and a time by the reader's clock since which it was made
    (``checkpoint_since``), ``None`` while the log that has it is read behind."""
    checkpoint_at: float | None = None
    checkpoint_since: float | None = None
    read_interval_seconds: float = 0.0
    """Between the last two reads of the log that has the checkpoint: what happened in between was
    seen so much later."""
    trained_seconds: float = 0.0
    """Steady training observed so far."""
    diagnostic: str | None = None
    """A sentence for the user where the log cannot be used as it is."""
    diverged: bool = False
    """The last losses in the log are no finite numbers."""
    is_too_large: bool = False
    """A log prints more than is read: parts of it are passed over."""
    node_kind: str | None = None
    """The kind of its workers' current nodes, or the last; ``None`` where not determined."""
    metrics: tuple[MetricSeries, ...] = ()
    """What the log prints beside the training loss."""
    declared: Declared = NOTHING_DECLARED
    """What the program said of the whole run."""
    run_start: RunStart | None = None
    """How the current run, or else the last one for which it shows, went on from the one before."""
    earlier: tuple[EarlierRun, ...] = ()
    """What earlier jobs of its workload have shown, the newest last."""
    units_per_epoch: float | None = None
    """Where the log's positions are no steps: what an epoch has of what ``samples`` count."""
    lengths: tuple[RunLengths, ...] = ()
    """How long other jobs took, the widest group first: the cluster's, its namespace's. No run is
    in two of them, or in ``earlier``."""


NOTHING = TrainingProgress()
