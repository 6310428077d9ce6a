"""What is remembered of a job's logs: plain data, bounded, stored in the job's profile."""

from copy import deepcopy
from dataclasses import dataclass, field

from optimus.jobs import Counts
from optimus.progress.pod_progress import PodState
from optimus.progress.types import LossPoint, SpeedSample


@dataclass(slots=True)
class EpochClock:
    """At which global steps the printed epoch number changed."""

    epoch: int | None = None
    first: tuple[int, int] | None = None
    """The first change, as (epoch, step); ``last`` is the latest."""
    last: tuple[int, int] | None = None

    def tick(self, epoch: int, step: int) -> None:
        """Record the current position."""
        is_later = self.last is None or epoch > self.last[0]
        if self.epoch is not None and epoch > self.epoch and is_later:
            self.last = (epoch, step)
            self.first = self.first or self.last
        self.epoch = epoch

    @property
    def steps_per_epoch(self) -> float | None:
        """Steps of the job from one change to the next; after one change, those since step 0."""
        if self.first is None or self.last is None or self.last[0] <= 0:
            return None
        if self.last[1] <= self.first[1]:
            return max(self.last[1] - 1, 1) / self.last[0]
        return (self.last[1] - self.first[1]) / (self.last[0] - self.first[0])


@dataclass(slots=True)
class LogState:
    """All that is remembered of one job's logs."""

    run: str | None = None
    """One incarnation of the job's pods, at ``ps`` and ``workers``."""
    former_run: str | None = None
    ps: int = 1
    workers: int = 1
    lead: str | None = None
    """The pod whose losses count."""
    pods: list[PodState] = field(default_factory=list)
    losses: list[LossPoint] = field(default_factory=list)
    samples: list[SpeedSample] = field(default_factory=list)
    clock: EpochClock = field(default_factory=EpochClock)
    first_epoch: int = 1
    """The number that the log gives to the first epoch: 1 until a 0 is seen."""
    step: int | None = None
    epoch: float | None = None
    steps_per_epoch: float | None = None
    """As last known."""
    reference_steps: float | None = None
    """Where the size of a step may differ between runs: the steps in an epoch of the first run, at
    ``reference_workers`` and with ``reference_examples`` in a step."""
    reference_workers: int | None = None
    reference_examples: float | None = None
    checkpoint_step: int | None = None
    checkpoint_at: float | None = None
    checkpoint_since: float | None = None
    trained_seconds: float = 0.0
    bad_losses: int = 0
    """Losses in a row that are no finite number."""
    lossless: int = 0
    """Lines of progress without a loss; their values are named in ``metrics``."""
    unread_lines: int = 0
    """Lines that say nothing about the training."""
    metrics: list[str] = field(default_factory=list)
    epoch_line_is_mean: bool = False
    """The line at an epoch's end gives the whole epoch's mean."""
    learning_rate: float | None = None
    """The last one that the log announced on a line of its own."""
    node_kind: str | None = None
    """The class of the run's workers' nodes; ``None`` before it was determined."""

    @property
    def counts(self) -> Counts:
        """The PSs and workers of the run."""
        return Counts(self.ps, self.workers)

    def copied(self) -> "LogState":
        """A copy that later lines do not change."""
        # Immutable values are shared: there may be thousands of losses, and every job is stored
        # again and again.
        shared = (*self.losses, *self.samples)
        return deepcopy(self, {id(each): each for each in shared})
