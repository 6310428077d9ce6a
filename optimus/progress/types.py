"""The knowledge of one job's training at one instant: the values that models are fitted to."""

import re
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Self

from optimus.jobs import Counts, Goal

PARTS: Final = 10_000
"""So many parts of an epoch are told apart where a log gives the epochs done with a fraction."""

_OF_WHOLE: Final = re.compile(r"acc|top-?_?\d|precision|recall|auc|f1|iou|map\b", re.IGNORECASE)


class LogLine(NamedTuple):
    """One line of a container's log."""

    at: float
    """The kubelet's timestamp, seconds since the epoch, UTC."""
    text: str


class LogRead(NamedTuple):
    """The result of one read of a container's log."""

    lines: list[LogLine]
    truncated: bool = False
    """True where it ended at its limit: there are newer lines."""
    skipped: bool = False
    """True where lines since the last read, before these, were passed over."""


class PodRun(NamedTuple):
    """One incarnation of a job's pods, as it was when a log was read."""

    name: str
    node_kind: str | None = None
    """The kind of its workers' nodes, written as in ``SpeedSample``; empty where they have no such
    label, ``None`` where it was not determined."""
    read_at: float | None = None
    """When the read began by the reader's clock (not the kubelet's), seconds since the epoch."""
    truncated: bool = False
    """True where the read ended at its limit: there are newer lines."""
    skipped: bool = False
    """True where lines before those that the read returned were passed over."""
    servers: int = 0
    """The number of nodes of its workers; 0: not known."""


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
    """The steps or batches that the loss is the mean of, 1 where unknown: the weight in means."""
    learning_rate: float | None = None


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """One metric of the log: an accuracy, an error rate, the loss of an evaluation."""

    name: str
    """The name that the log prints."""
    evaluated: bool
    """True where it comes from an evaluation and not from the training."""
    rises: bool | None
    """True where better values are larger; ``None`` where the name does not say."""
    points: tuple[LossPoint, ...] = ()
    """Its values (as ``loss``) in training order, mostly one for each epoch."""

    @property
    def is_part(self) -> bool:
        """True for a part of a whole, such as an accuracy: a log has all in percent or none."""
        return self.rises is True and _OF_WHOLE.search(self.name) is not None

    @property
    def is_percent(self) -> bool:
        """True where a rising metric is printed in percent, and not as a part of 1."""
        return self.rises is True and any(point.loss > 1.5 for point in self.points)


@dataclass(frozen=True, slots=True)
class SpeedSample:
    """The job's measured speed at given counts."""

    counts: Counts
    steps_per_second: float
    """The whole job's: the workers' common rate in sync training, their sum in async training."""
    seconds: float
    """The seconds of steady training that were measured."""
    at: float
    """When the measurement ended, seconds since the epoch, UTC."""
    node_kind: str = ""
    """The kind of its workers' nodes where it is known; several as ``mixed_kind`` of
    ``models.speed.curve`` writes them."""
    servers: int = 0
    """The number of nodes on which its workers ran; 0: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """The results of one job of a workload, for the later jobs of that workload."""

    uid: str
    """The job's."""
    job: str
    """The job's name, for people."""
    at: float
    """When this was learned, seconds since the epoch, UTC."""
    conditions: str
    """The conditions of the samples, as ``models.earlier_runs.conditions_of`` writes them."""
    samples: tuple[SpeedSample, ...] = ()
    """One for each pair of counts and kind of nodes."""
    in_epochs: bool = True
    places: tuple[float, ...] = ()
    """The epochs (steps) done at each of ``losses``; none for a job that has not succeeded."""
    losses: tuple[float, ...] = ()
    """The mean loss of each epoch, or of stretches of training."""
    every_epoch: bool = False
    """True where ``losses`` has each epoch's mean."""
    goal: Goal | None = None
    met_at: float | None = None
    """The epochs (steps) after which its own goal was met."""
    steps_per_epoch: float | None = None
    """The steps of one worker where each has a batch of its own, else of the job."""
    differed: bool = False
    """It was found to differ from the runs before it, which do not count any more."""
    ps_memory: int = 0
    worker_memory: int = 0
    """The most that one of its pods used, in bytes; 0: not known."""


@dataclass(frozen=True, slots=True)
class RunLengths:
    """The lengths of training after which the ended jobs of a group met their goals."""

    epochs: tuple[float, ...] = ()
    steps: tuple[float, ...] = ()
    """The lengths of jobs that count no epochs."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A program's words on the whole run, mostly at its top; ``None`` where it has none."""

    epochs: int | None = None
    """The epochs after which the run ends."""
    steps: int | None = None
    """The job's global steps after which the run ends."""
    batch: int | None = None
    """Examples in a batch of the process that prints."""
    learning_rate: float | None = None
    schedule: str | None = None
    """``step``, ``cosine``, ``linear``, ``poly``, ``constant`` or ``exponential``."""
    drops: tuple[float, ...] = ()
    """The epochs after which the learning rate is multiplied by ``drop_factor``."""
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
    """The start of a run, compared with the end of the run before it."""

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
        """True where training was lost. A line's step is the last one done, or the next one."""
        return self.lost_steps > 1

    @property
    def saved(self) -> bool:
        """True where it went on from something that was saved after the last known checkpoint."""
        return not self.lost and self.at_risk > 0


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """The progress of one job, as far as its log shows it."""

    losses: tuple[LossPoint, ...] = ()
    """The losses in training order, without what a restore from a checkpoint undid."""
    epoch: float | None = None
    step: int | None = None
    steps_per_epoch: float | None = None
    """The job's steps in an epoch, where its log counts steps or the job says it."""
    samples: tuple[SpeedSample, ...] = ()
    checkpoint_step: int | None = None
    """The step of the last complete checkpoint, with its line's timestamp (``checkpoint_at``) and a
    time by the reader's clock since which it was made, ``None`` while its log is read behind."""
    checkpoint_at: float | None = None
    checkpoint_since: float | None = None
    read_interval_seconds: float = 0.0
    """The time between the last two reads of the log that has the checkpoint."""
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
    """The metrics that the log prints beside the training loss."""
    declared: Declared = NOTHING_DECLARED
    """The program's words on the whole run."""
    run_start: RunStart | None = None
    """The start of the current run, or of the last one for which it shows."""
    earlier: tuple[EarlierRun, ...] = ()
    """The earlier runs of its workload, the newest last."""
    units_per_epoch: float | None = None
    """The length of an epoch in what ``samples`` count, if the log's positions are no steps."""
    lengths: tuple[RunLengths, ...] = ()
    """The lengths of other jobs, the cluster's before its namespace's; each is in one of them."""

    @property
    def speed_unit(self) -> str:
        """The unit of its samples for people: a log that counts no steps mostly counts examples."""
        if self.units_per_epoch is None:
            return "steps/s"
        parts = {1.0: "epochs/s", float(PARTS): "ten-thousandths of an epoch/s"}
        return parts.get(self.units_per_epoch, "examples/s")


NOTHING = TrainingProgress()
