"""What is remembered of a job's logs: plain data, bounded, so that it can be stored in the job's
profile."""

from copy import deepcopy
from dataclasses import dataclass, field

from optimus.jobs import Counts, Role
from optimus.progress.parsed_line import Saved
from optimus.progress.process_rate import RateMeter
from optimus.progress.types import LossPoint, SpeedSample


@dataclass(slots=True)
class PodState:
    """How far one pod's log is read, and where the training of its process stands.

    ``read_until`` is the timestamp of the last line taken, ``texts`` the lines that bear it, the
    last one last;
    ``read_at`` is when the last read began, by the reader's clock, ``read_before_at`` when the one
    before did, and
    ``news_at`` when the last did that brought a new line; ``quiet_reads`` have brought none since.
    ``step`` is the job's global step where the log tells it. Else ``epoch`` is the running epoch
    from 0, ``batch`` the batches done in it (the last at ``batch_at``, ``seconds_per_batch`` apart,
    a line every ``line_batches``),
    ``batches`` how many an epoch has, and ``before`` the process's own batches in earlier epochs.
    ``header`` is the epoch of a Keras header whose bars are being read. ``saving`` is a checkpoint
    that has begun, until the next sign of training.
    """

    name: str
    role: Role
    index: int
    read_until: float | None = None
    texts: list[str] = field(default_factory=list)
    news_at: float | None = None
    quiet_reads: int = 0
    read_at: float | None = None
    read_before_at: float | None = None
    step: int | None = None
    epoch: int | None = None
    batch: int = 0
    batch_at: float = 0.0
    seconds_per_batch: float | None = None
    line_batches: int = 0
    batches: float | None = None
    ended: bool = False
    before: float = 0.0
    header: int | None = None
    header_batches: int | None = None
    tells_loss: bool = False
    meter: RateMeter = field(default_factory=RateMeter)
    samples_per_second: list[float] = field(default_factory=list)
    steps_per_second: list[float] = field(default_factory=list)
    speeds_since: float | None = None
    saving: Saved | None = None


@dataclass(slots=True)
class EpochClock:
    """At which global steps the printed epoch number changed: the first and the latest change,
    (epoch, step) each."""

    epoch: int | None = None
    first: tuple[int, int] | None = None
    last: tuple[int, int] | None = None

    def tick(self, epoch: int, step: int) -> None:
        """Take in where training stands."""
        if (
            self.epoch is not None
            and epoch > self.epoch
            and (self.last is None or epoch > self.last[0])
        ):
            self.last = (epoch, step)
            self.first = self.first or self.last
        self.epoch = epoch

    @property
    def steps_per_epoch(self) -> float | None:
        """Steps of the job from one change to the next; after one change, those since step 0 in so
        many epochs."""
        if self.first is None or self.last is None or self.last[0] <= 0:
            return None
        if self.last[1] <= self.first[1]:
            return max(self.last[1] - 1, 1) / self.last[0]
        return (self.last[1] - self.first[1]) / (self.last[0] - self.first[0])


@dataclass(slots=True)
class LogState:
    """All that is remembered of one job's logs.

    ``run`` names one incarnation of the job's pods, ``former_run`` the one before; the counts are
    the run's.
    ``lead`` is the pod whose losses count. ``step`` and ``epoch`` are where training stands,
    ``first_epoch`` the number that the log gives to the first epoch: 1 until a 0 is seen.
    ``bad_losses`` counts losses in a row that are no finite number, ``lossless`` the signs of
    training without a loss, ``unread_lines`` those that say nothing.
    ``steps_per_epoch`` is as last known; where a step may be of another size in each run,
    ``reference_steps`` are those of an epoch of the first run, which had ``reference_workers`` and
    ``reference_examples`` in a step.
    ``epoch_line_is_mean``: the line at an epoch's end gives the whole epoch's mean.
    ``learning_rate`` is the one that the log announced last, where it does so on lines of their
    own. ``node_kind`` is that of the run's workers' nodes, ``None`` before anybody has looked.
    """

    run: str | None = None
    former_run: str | None = None
    ps: int = 1
    workers: int = 1
    lead: str | None = None
    pods: list[PodState] = field(default_factory=list)
    losses: list[LossPoint] = field(default_factory=list)
    samples: list[SpeedSample] = field(default_factory=list)
    clock: EpochClock = field(default_factory=EpochClock)
    first_epoch: int = 1
    step: int | None = None
    epoch: float | None = None
    steps_per_epoch: float | None = None
    reference_steps: float | None = None
    reference_workers: int | None = None
    reference_examples: float | None = None
    checkpoint_step: int | None = None
    checkpoint_at: float | None = None
    checkpoint_since: float | None = None
    trained_seconds: float = 0.0
    bad_losses: int = 0
    lossless: int = 0
    unread_lines: int = 0
    metrics: list[str] = field(default_factory=list)
    epoch_line_is_mean: bool = False
    learning_rate: float | None = None
    node_kind: str | None = None

    @property
    def counts(self) -> Counts:
        """The PSs and workers of the run."""
        return Counts(self.ps, self.workers)

    def copied(self) -> "LogState":
        """A copy that later lines do not change."""
        # What cannot change is shared: there may be thousands of losses, and every job is stored
        # again and again.
        shared = (*self.losses, *self.samples)
        return deepcopy(self, {id(each): each for each in shared})
