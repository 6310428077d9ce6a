"""A simulated job: what its user submits, and its true speed and loss, which the models must find.

What the scheduler sees is made from both, with noise. A job ends after the first epoch whose
losses, as seen, meet its goal: that epoch follows from the job and the seed alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from numpy.random import Generator

from optimus.jobs import BatchScope, Counts, Job, TrainingMode
from optimus.nodes import Node


class TrueSpeed(Protocol):
    """The mean speed of one job's training."""

    def steps_per_second(
        self, servers: tuple[Counts, ...], straggling: tuple[float, ...] = (), /
    ) -> float:
        """The job's steps per second, above 0: the common rate (sync) or the sum over workers.

        ``servers`` are the PSs and workers by server, the largest first. ``straggling`` has the
        part of its usual speed (above 0, below 1) of each worker that straggles now."""


class TrueLoss(Protocol):
    """The mean loss of one job's training."""

    def after(self, epochs: float, /) -> float:
        """The mean training loss of the epoch that ends after so many epochs, above 0."""


@dataclass(frozen=True, slots=True)
class Straggling:
    """How often and how badly workers straggle; times are exponential, for each worker."""

    seconds_between: float
    """Mean seconds between two of one worker."""
    seconds: float
    """Mean duration; a restart of the job ends it too."""
    speed_fraction: float
    """The part of its usual speed that is left: above 0, below 1."""


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """How often a job saves its training. A save takes no time."""

    every_seconds: float
    """After so much training since the job was started last, and again; above 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedJob:
    """One job of a workload: ``job`` is what its user submits at ``created_at`` of virtual time."""

    job: Job
    kind: str
    """Its type's name in tables."""
    speed: TrueSpeed
    loss: TrueLoss
    steps_per_epoch: float
    """Of the whole job; with one worker, where each sync worker has a batch of its own."""
    most_epochs: int
    """It ends after so many epochs even if its goal is not met."""
    goal_at: float | None = None
    """The part of the run that its log declares after which its goal is met, above 0 and at most 1;
    ``None``: its log declares no end."""
    speed_noise: float = 0.0
    """Relative standard deviation of the measured speed, drawn once from a start to the next."""
    loss_noise: float = 0.0
    """Relative standard deviation of an epoch's mean loss as seen, about the true one."""
    start_seconds: float = 0.0
    """From its placement to its first step."""
    rescale_seconds: float = 60.0
    """From its suspension, checkpoint included, to its next step."""
    restart_seconds: tuple[float, ...] = ()
    """What restarts were measured to take: one of these, at random, in place of
    ``rescale_seconds``. None: it takes that."""
    save_seconds: float = 0.0
    """What it takes to save as it is stopped, with its pods still there, beside the above."""
    checkpoints: Checkpoints | None = None
    """``None``: it saves whenever it is stopped, and loses nothing. Otherwise the training since
    its last checkpoint is lost, and done again."""
    straggling: Straggling | None = None
    kind_speeds: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """The part of its full speed of a worker on nodes of a kind, at most 1; 0: it never runs there.
    Of other kinds it is 1."""

    def steps_in_epoch(self, workers: int) -> float:
        """Steps of an epoch at so many workers."""
        return self.steps_per_epoch / (workers if self.batch_per_worker else 1)

    @property
    def batch_per_worker(self) -> bool:
        """Return whether the job's batch grows with its workers."""
        batch, sync = self.job.batch, self.job.mode is TrainingMode.SYNC
        return sync and batch is not None and batch.scope is BatchScope.WORKER


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs in any order, and the nodes that they share. ``name`` is for tables and files."""

    name: str
    jobs: tuple[SimulatedJob, ...]
    nodes: tuple[Node, ...]
    weights: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Of jobs, by the name of their PriorityClass; 1 of others."""


class WorkloadMaker(Protocol):
    """Draws a workload; ``optimus.simulator.workload.WORKLOADS`` has them by name."""

    def __call__(self, jobs: int, rng: Generator, /) -> Workload:
        """A workload of so many jobs; the same generator state gives the same workload."""
