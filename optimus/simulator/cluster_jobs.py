"""Jobs of a running cluster as simulated jobs: what would another policy have done with them.

1. A job arrives when it was created, at the counts that its user set last.
2. Its work is what it has trained, and what its forecast says is left; of a job that has met its
   goal or ended, what it has trained.
3. Its true speed is the one that is predicted for it: by the fit to what was measured of it, or,
   while it is young, by what is to be expected of it.
4. A restart takes what its rescales have taken; before the first, what the autoscaler assumes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from numpy.random import Generator

from optimus.errors import NotReady
from optimus.jobs import Batch, BatchScope, Counts, Job, Manage, TargetEpochs, TrainingMode
from optimus.lifecycle.workloads import is_default
from optimus.models.forecast import Forecast, Speed
from optimus.models.speed.model import SpeedModel
from optimus.nodes import Node
from optimus.progress.types import TrainingProgress
from optimus.simulator.ground_truth.measured import RecordedLoss
from optimus.simulator.ground_truth.testbed import SPEED_NOISE, START_SECONDS
from optimus.simulator.jobs import SimulatedJob, Workload
from optimus.what_if.counts import DecisionBasis

MOST_EPOCHS: Final = 100
"""Work of which only the steps are known is split into so many epochs."""


@dataclass(frozen=True, slots=True)
class PredictedSpeed:
    """The speed that a model predicts; implements ``optimus.simulator.jobs.TrueSpeed``.

    The model knows no servers, so that placement has no effect."""

    speed: Speed
    mode: TrainingMode

    def steps_per_second(
        self, servers: tuple[Counts, ...], straggling: tuple[float, ...] = ()
    ) -> float:
        """The job's speed with these PSs and workers, wherever they are."""
        ps, workers = (sum(server[role] for server in servers) for role in (0, 1))
        speed = max(float(self.speed.steps_per_second(ps, workers)), 1e-9)
        if self.mode is TrainingMode.SYNC:
            return speed * (min(straggling) if straggling else 1.0)
        return speed * (workers - len(straggling) + sum(straggling)) / workers


def simulated(
    usual: Job,
    known: DecisionBasis,
    rescale_seconds: float,
    began_at: float,
    *,
    has_ended: bool = False,
) -> SimulatedJob | NotReady:
    """The job with virtual time from ``began_at``, or why it cannot be simulated; a rescale takes
    it ``rescale_seconds``."""
    work, speed = (
        _work(usual, known, has_ended=has_ended),
        _speed(usual, known, has_ended=has_ended),
    )
    if isinstance(work, NotReady):
        return work
    if isinstance(speed, NotReady):
        return speed
    epochs, steps_per_epoch = work
    counts = usual.bounds.clamp(known.history.user_counts or usual.counts)
    job = replace(
        usual,
        counts=counts,
        created_at=usual.created_at - began_at,
        finish_by=None if usual.finish_by is None else usual.finish_by - began_at,
        goal=TargetEpochs(epochs),
        steps_per_epoch=steps_per_epoch,
        manage=Manage.AUTO,
        paused=False,
        suspended=False,
        left_alone=None,
    )
    losses = tuple(point.loss for point in known.progress.losses if point.loss > 0) or (1.0,)
    return SimulatedJob(
        job=job,
        kind=job.kind if job.workload is None or is_default(job.workload) else job.workload,
        speed=PredictedSpeed(speed, job.mode),
        loss=RecordedLoss(losses),
        steps_per_epoch=steps_per_epoch,
        most_epochs=epochs,
        speed_noise=SPEED_NOISE,
        start_seconds=START_SECONDS,
        rescale_seconds=rescale_seconds,
    )


def _left(known: DecisionBasis, *, has_ended: bool) -> Forecast | NotReady | None:
    """The forecast of what is left; ``None`` where nothing is."""
    if has_ended or (isinstance(known.forecast, Forecast) and known.forecast.goal_met):
        return None
    return known.forecast or NotReady("it has no forecast")


def _work(job: Job, known: DecisionBasis, *, has_ended: bool) -> tuple[int, float] | NotReady:
    """The epochs of the whole job, and the steps of one, with one worker where each has a batch of
    its own."""
    progress, left = known.progress, _left(known, has_ended=has_ended)
    if isinstance(left, NotReady):
        return left
    workers = _workers_of_a_step(job, progress)
    if progress.epoch and progress.steps_per_epoch and (left is None or left.remaining_epochs):
        epochs = progress.epoch + (left.remaining_epochs or 0.0 if left else 0.0)
        return max(round(epochs), 1), progress.steps_per_epoch * workers
    steps = float((progress.step or 0) * workers)
    if left is not None:
        steps += left.remaining_steps * (left.reference_workers if left.batch_per_worker else 1)
    if steps <= 0:
        return NotReady("its log shows no training")
    return MOST_EPOCHS, steps / MOST_EPOCHS


def _workers_of_a_step(job: Job, progress: TrainingProgress) -> int:
    """The steps of one worker in a step of the job at its counts."""
    batch, sync = job.batch, job.mode is TrainingMode.SYNC
    if not (sync and isinstance(batch, Batch) and batch.scope is BatchScope.WORKER):
        return 1
    return (progress.samples[-1].counts if progress.samples else job.counts).workers


def _speed(job: Job, known: DecisionBasis, *, has_ended: bool) -> Speed | NotReady:
    left = _left(known, has_ended=has_ended)
    if isinstance(left, Forecast):
        return left.speed
    return SpeedModel.fit(known.progress.samples, job.mode, job.batch)


@dataclass(frozen=True, slots=True)
class ClusterWorkload:
    """The first jobs of a cluster; implements ``optimus.simulator.jobs.WorkloadMaker``."""

    jobs: Sequence[SimulatedJob]
    nodes: tuple[Node, ...]

    def __call__(self, jobs: int, _: Generator) -> Workload:
        """The first ``jobs`` that arrived; nothing is drawn."""
        first = sorted(self.jobs, key=lambda each: (each.job.created_at, each.job.uid))[:jobs]
        return Workload("cluster", tuple(first), self.nodes)
