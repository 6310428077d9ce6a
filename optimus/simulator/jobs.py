"""A simulated job: what its user submits, and the truth about it that the models have to find.

The engine asks a truth for two things only. Its speed, for the share of PSs and workers that each
server holds, and its loss after so many epochs. What the scheduler sees is made from both, with
noise. A job has ended after the first epoch whose losses, as seen, meet its goal: that epoch
follows from the job and the seed alone, whatever is decided."""

from dataclasses import dataclass
from typing import Protocol

from numpy.random import Generator

from optimus.jobs import BatchScope, Counts, Job, TrainingMode
from optimus.nodes import Node


class TrueSpeed(Protocol):
    """The mean speed of one job's training."""

    def steps_per_second(
        self, servers: tuple[Counts, ...], slow: tuple[float, ...] = (), /
    ) -> float:
        """The whole job's steps per second, above 0: the workers' common rate (sync), or the sum
        over them (async).

        ``servers`` holds how many of its PSs and workers each server has that has any, the largest
        first: transfer depends on who shares one. ``slow`` are the workers that straggle now, each
        as the part of its usual speed (above 0, below 1) that is left. Asked once for each run and
        each change of ``slow``: it need not be quick."""
        ...


class TrueLoss(Protocol):
    """The mean loss of one job's training."""

    def after(self, epochs: float, /) -> float:
        """The mean training loss of the epoch that ends after so many epochs, above 0."""
        ...


@dataclass(frozen=True, slots=True)
class Straggling:
    """How often and how badly workers straggle. Times are exponential, each worker on its own."""

    seconds_between: float
    """Mean seconds from one straggling to the next, of one worker."""

    seconds: float
    """Mean seconds that one straggling lasts; a restart of the job ends it too."""

    speed_fraction: float
    """Part of its usual speed that a straggling worker has left: above 0, below 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedJob:
    """One job of a workload.

    ``job`` is what its user submits: ``created_at`` is its arrival in seconds of virtual time,
    ``counts`` the user's own, ``goal`` set. ``kind`` names its type in tables.
    """

    job: Job
    kind: str
    speed: TrueSpeed
    loss: TrueLoss

    steps_per_epoch: float
    """Steps of the whole job in an epoch; with one worker, where each sync worker has a batch of
    its own."""

    most_epochs: int
    """It ends after so many epochs even if its goal is not met."""

    speed_noise: float = 0.0
    """Relative standard deviation of the speed that is measured in one run (from a start to the
    next), about the mean. One draw for a run: what differs between runs averages out within none of
    them."""

    loss_noise: float = 0.0
    """Relative standard deviation of an epoch's mean loss as seen, about the true one."""

    start_seconds: float = 0.0
    """From its placement to its first step."""

    rescale_seconds: float = 60.0
    """From its suspension, checkpoint included, to its next step: what a rescale really costs.
    Nothing is trained."""

    straggling: Straggling | None = None

    def steps_in_epoch(self, workers: int) -> float:
        """Steps of an epoch at so many workers."""
        batch = self.job.batch
        shrinks = (
            batch is not None
            and batch.scope is BatchScope.WORKER
            and self.job.mode is TrainingMode.SYNC
        )
        return self.steps_per_epoch / workers if shrinks else self.steps_per_epoch


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs in any order, and the nodes that they share. ``name`` is for tables and files."""

    name: str
    jobs: tuple[SimulatedJob, ...]
    nodes: tuple[Node, ...]


class WorkloadMaker(Protocol):
    """Draws a workload; ``optimus.simulator.workload`` has a table of them by name, for
    ``optimus simulate --workload``."""

    def __call__(self, jobs: int, rng: Generator, /) -> Workload:
        """A workload of so many jobs; the same generator state gives the same workload."""
        ...
